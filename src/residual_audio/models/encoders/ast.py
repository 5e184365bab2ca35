"""The Audio Spectrogram Transformer, through transformers. It has no text side: class centroids take the place of prompts."""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import ASTFeatureExtractor, ASTModel

from ...audio import MelSpec, Preprocessing
from ..encoder import StageSite
from ..files import at_commit, pinned, revision_of, write_pretrained
from ..isotropic import NEUTRAL_LOGIT_SCALE, IsotropicEncoder, isotropic_site, one_stage
from ..readout import PooledReadout
from ..registry import ENCODERS, EncoderKind, KnownModel, pretrained
from ..weights import open_exactly


class AstEncoder(IsotropicEncoder):
    """The Audio Spectrogram Transformer; the embedding is the mean of its two summary tokens."""

    module: ASTModel

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> None:
        self.source, self.name = str(source), name or str(source)
        module = open_exactly(ASTModel, self.source, unread=("classifier.",))
        extractor = ASTFeatureExtractor.from_pretrained(**pinned(self.source))
        rate, hop, frame = extractor.sampling_rate, 160, 400
        self.module = module.eval().to(device)
        self.policy = Preprocessing(
            sample_rate=rate,
            samples=extractor.max_length * hop,
            mel=MelSpec(
                n_fft=512, frame=frame, hop=hop, mels=extractor.num_mel_bins, filter_rate=rate, f_min=20.0, f_max=rate / 2, scale="kaldi",
                normalised=False, centred=False, preemphasis=0.97, log="kaldi", mean=extractor.mean, std=extractor.std,
                frames=extractor.max_length,
            ),
        )  # fmt: skip
        self.revision = revision_of(module.config, self.source)
        self.source = at_commit(self.source, self.revision)
        self.dim, self.logit_scale = module.config.hidden_size, NEUTRAL_LOGIT_SCALE
        heads = module.config.num_attention_heads
        self.units = one_stage(len(module.layers), heads, self.dim)
        self.sites = tuple(isotropic_site(b, heads, "attention", "o_proj", "mlp", "layernorm_before") for b in range(len(module.layers)))
        lattice = tuple(module.embeddings.get_shape(module.config))
        self.stages = (StageSite((1, module.embeddings.position_embeddings.shape[1]), lattice=lattice),)
        self.readout = PooledReadout(norm="layernorm", tokens=(0, 1))

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        pooled: Tensor = self.module(features[:, 0]).pooler_output
        return pooled

    def write(self, folder: Path) -> Path:
        return write_pretrained(self.module, self.source, folder)


ENCODERS.add(
    EncoderKind(
        "ast",
        pretrained(AstEncoder),
        model_types=("audio-spectrogram-transformer",),
        known=(KnownModel("MIT/ast-finetuned-audioset-10-10-0.4593", "Audio Spectrogram Transformer, no text side"),),
        order=40,
    )
)
