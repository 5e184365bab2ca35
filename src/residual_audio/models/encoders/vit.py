"""The Vision Transformer, through transformers. It has no text side; the embedding is the class token after the last norm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import ViTModel

from ...images import ImagePreprocessing
from ..files import at_commit, revision_of
from ..isotropic import NEUTRAL_LOGIT_SCALE, isotropic_site, one_stage
from ..readout import PooledReadout
from ..registry import ENCODERS, EncoderKind, KnownModel, pretrained
from ..vision import BILINEAR, GREY_LEVEL, VisionEncoder, image_policy
from ..weights import open_exactly

HALF = (0.5, 0.5, 0.5)
DEFAULT = ImagePreprocessing(None, (224, 224), None, BILINEAR, GREY_LEVEL, HALF, HALF)


class ViTEncoder(VisionEncoder):
    """``module`` is transformers' ViTModel. A pooler that the checkpoint has is kept for writing, but not read."""

    module: ViTModel

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> None:
        self.source, self.name = str(source), name or str(source)
        module = open_exactly(ViTModel, self.source, unread=("classifier.",), optional=("pooler.",))
        self.module = module.eval().to(device)
        config: Any = module.config
        self.policy = image_policy(self.source, DEFAULT)
        self.revision = revision_of(config, self.source)
        self.source = at_commit(self.source, self.revision)
        heads, blocks = config.num_attention_heads, config.num_hidden_layers
        self.units = one_stage(blocks, heads, config.hidden_size)
        self.sites = tuple(isotropic_site(b, heads, "attention", "o_proj", "mlp", "layernorm_before") for b in range(blocks))
        side = config.image_size
        self.stages = self.token_stage(config.patch_size, (side, side) if isinstance(side, int) else tuple(side))
        self.readout = PooledReadout(norm="layernorm", tokens=(0,))
        self.dim, self.logit_scale = config.hidden_size, NEUTRAL_LOGIT_SCALE

    def encode(self, features: Float[Tensor, "clip channel height width"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        states: Tensor = self.module(pixel_values=features).last_hidden_state
        return states[:, 0]


ENCODERS.add(
    EncoderKind(
        "vit",
        pretrained(ViTEncoder),
        model_types=("vit",),
        media="images",
        known=(KnownModel("google/vit-base-patch16-224-in21k", "Vision Transformer, no text side; images"),),
        order=70,
    )
)
