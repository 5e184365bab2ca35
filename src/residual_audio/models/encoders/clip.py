"""CLIP through transformers' CLIPModel: the vision tower is opened, the text side gives the prompts."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import AutoTokenizer, CLIPModel, PreTrainedTokenizerBase

from ...images import ImagePreprocessing
from ..files import TOKENIZER_HINT, at_commit, open_tokenizer, revision_of
from ..isotropic import isotropic_site, one_stage
from ..readout import LinearReadout
from ..registry import ENCODERS, EncoderKind, KnownModel, pretrained
from ..vision import BICUBIC, GREY_LEVEL, VisionEncoder, image_policy
from ..weights import open_exactly
from ..wording import Wording

DEFAULT = ImagePreprocessing(
    224, None, (224, 224), BICUBIC, GREY_LEVEL, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
)


class ClipEncoder(VisionEncoder):
    """``module`` is transformers' CLIPModel, unchanged.

    The embedding unit's write is what leaves ``pre_layrnorm``; the final norm sees the class token alone; the joint projection is linear.
    """

    module: CLIPModel

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> None:
        self.source, self.name = str(source), name or str(source)
        self.module = open_exactly(CLIPModel, self.source).eval().to(device)
        whole: Any = self.module.config
        config = whole.vision_config
        self.policy = image_policy(self.source, DEFAULT)
        self.revision = revision_of(whole, self.source)
        self.source = at_commit(self.source, self.revision)
        heads, blocks = config.num_attention_heads, config.num_hidden_layers
        self.units = one_stage(blocks, heads, config.hidden_size)
        self.sites = tuple(
            isotropic_site(b, heads, "self_attn", "out_proj", "mlp", "layer_norm1", "vision_model.encoder.layers") for b in range(blocks)
        )
        self.stages = self.token_stage(config.patch_size, (config.image_size, config.image_size))
        self.readout = LinearReadout(norm="vision_model.post_layernorm", tokens=(0,), first="visual_projection")
        self.dim = whole.projection_dim
        self.logit_scale = self.module.logit_scale.exp().item()
        self.wording = Wording(length=whole.text_config.max_position_embeddings)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Resolved at the first text, so that work on images alone needs none."""
        tokenizer: PreTrainedTokenizerBase = open_tokenizer(AutoTokenizer, self.source, TOKENIZER_HINT)
        return tokenizer

    def encode(self, features: Float[Tensor, "clip channel height width"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        embedding: Tensor = self.module.visual_projection(self.module.vision_model(pixel_values=features).pooler_output)
        return embedding

    def encode_tokens(self, ids: Int[Tensor, "text token"], mask: Int[Tensor, "text token"]) -> Float[Tensor, "text d"]:
        pooled = self.module.text_model(input_ids=ids, attention_mask=mask).pooler_output
        embedding: Tensor = self.module.text_projection(pooled)
        return embedding


ENCODERS.add(
    EncoderKind(
        "clip",
        pretrained(ClipEncoder),
        model_types=("clip",),
        media="images",
        known=(KnownModel("openai/clip-vit-base-patch32", "CLIP's vision tower (any size) with its text side; images"),),
        order=60,
    )
)
