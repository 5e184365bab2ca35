"""DINOv2, through transformers. It has no text side; the embedding is the class token after the last norm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import Dinov2Model

from ...images import ImagePreprocessing
from ..files import at_commit, revision_of
from ..isotropic import NEUTRAL_LOGIT_SCALE, isotropic_site, one_stage
from ..readout import PooledReadout
from ..registry import ENCODERS, EncoderKind, KnownModel, pretrained
from ..vision import BICUBIC, GREY_LEVEL, IMAGENET_MEAN, IMAGENET_STD, VisionEncoder, image_policy
from ..weights import open_exactly

DEFAULT = ImagePreprocessing(256, None, (224, 224), BICUBIC, GREY_LEVEL, IMAGENET_MEAN, IMAGENET_STD)


class Dinov2Encoder(VisionEncoder):
    r"""``module`` is transformers' Dinov2Model with its LayerScale multiplied into the linear layers before it.

    A block writes $\lambda \odot (Wz + b)$. With $W \leftarrow \mathrm{diag}(\lambda) W$, $b \leftarrow \lambda \odot b$ and
    $\lambda \leftarrow 1$ the output of the projection *is* the write, so shares, ablation and folding need no notion of LayerScale.
    Outputs agree with the checkpoint's to rounding, and the keys and shapes stay its own.
    """

    module: Dinov2Model

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> None:
        self.source, self.name = str(source), name or str(source)
        module = open_exactly(Dinov2Model, self.source, unread=("classifier.",))
        absorb_layer_scale(module)
        self.module = module.eval().to(device)
        config: Any = module.config
        self.policy = image_policy(self.source, DEFAULT)
        self.revision = revision_of(config, self.source)
        self.source = at_commit(self.source, self.revision)
        heads, blocks = config.num_attention_heads, config.num_hidden_layers
        self.units = one_stage(blocks, heads, config.hidden_size)
        self.sites = tuple(isotropic_site(b, heads, "attention", "o_proj", "mlp", "norm1", "encoder.layer") for b in range(blocks))
        # Positions are interpolated to whatever size comes, as the checkpoints are used (trained on 518, run on 224).
        self.stages = self.token_stage(config.patch_size)
        self.readout = PooledReadout(norm="layernorm", tokens=(0,))
        self.dim, self.logit_scale = config.hidden_size, NEUTRAL_LOGIT_SCALE

    def encode(self, features: Float[Tensor, "clip channel height width"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        states: Tensor = self.module(pixel_values=features).last_hidden_state
        return states[:, 0]


@torch.no_grad()
def absorb_layer_scale(module: Dinov2Model) -> None:
    """Leave every λ at one; the products are taken in float64 and rounded once."""
    for block in module.encoder.layer:
        last = "mlp.fc2" if hasattr(block.mlp, "fc2") else "mlp.down_proj"
        for name, scale in (("attention.o_proj", "layer_scale1.lambda1"), (last, "layer_scale2.lambda1")):
            layer, factor = block.get_submodule(name), block.get_parameter(scale)
            assert isinstance(layer, nn.Linear)
            by = factor.double()
            layer.weight.copy_(by[:, None] * layer.weight.double())
            layer.bias.copy_(by * layer.bias.double())
            factor.fill_(1.0)


ENCODERS.add(
    EncoderKind(
        "dinov2",
        pretrained(Dinov2Encoder),
        model_types=("dinov2",),
        media="images",
        known=(KnownModel("facebook/dinov2-base", "DINOv2 (any size), no text side; images"),),
        order=80,
    )
)
