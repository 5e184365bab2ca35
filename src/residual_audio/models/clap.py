"""LAION's CLAP, and every checkpoint of that layout, through transformers' ClapModel. ``tiny`` is one of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import AutoTokenizer, ClapFeatureExtractor, ClapModel, PreTrainedTokenizerBase

from ..audio import MelSpec, Preprocessing
from .encoder import ReadoutSite, copy_companions, file_digest, open_tokenizer
from .htsat import HtsatEncoder, htsat_sites, htsat_stages, htsat_units


def clap_policy(extractor: ClapFeatureExtractor, fusion: bool) -> Preprocessing:
    """The checkpoint's own front end, without its random crops.

    Like the extractor, fused input uses HTK filters and everything else Slaney's.
    """
    return Preprocessing(
        sample_rate=extractor.sampling_rate,
        samples=int(extractor.nb_max_samples),
        mel=MelSpec(
            n_fft=extractor.fft_window_size,
            hop=extractor.hop_length,
            mels=extractor.feature_size,
            filter_rate=extractor.sampling_rate,
            f_min=float(extractor.frequency_min),
            f_max=float(extractor.frequency_max),
            scale="htk" if extractor.truncation == "fusion" else "slaney",
            normalised=extractor.truncation != "fusion",
        ),
        pad=extractor.padding,
        fusion=fusion,
    )


class ClapEncoder(HtsatEncoder):
    """``module`` is transformers' ClapModel, unchanged."""

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> None:
        self.source, self.name = str(source), name or str(source)
        self.module = ClapModel.from_pretrained(self.source, dtype=torch.float32).eval().to(device)
        config = self.module.config
        self.policy = clap_policy(ClapFeatureExtractor.from_pretrained(self.source), config.audio_config.enable_fusion)
        self.revision = getattr(config, "_commit_hash", None) or local_revision(Path(self.source))
        self.units = htsat_units(self.module.audio_model)
        self.sites = htsat_sites(self.module.audio_model, "audio_model")
        self.stages = htsat_stages(self.module.audio_model, "audio_model")
        self.strips = self.module.audio_model.audio_encoder.freq_ratio
        self.readout = ReadoutSite(
            "audio_model.audio_encoder.norm", joint="mlp", linear1="audio_projection.linear1", linear2="audio_projection.linear2"
        )
        self.dim = config.projection_dim
        self.logit_scale = self.module.logit_scale_a.exp().item()

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Resolved at the first text, so that audio-only work needs none."""
        return open_tokenizer(AutoTokenizer, self.source, "put tokenizer.json, or vocab.json and merges.txt, beside its config.json")

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        pooled = self.module.audio_model(input_features=features, is_longer=longer[:, None]).pooler_output
        return self.module.audio_projection(pooled)

    def encode_text(self, texts: Sequence[str]) -> Float[Tensor, "text d"]:
        tokens = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt").to(self.device)
        pooled = self.module.text_model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).pooler_output
        return self.module.text_projection(pooled)

    def save(self, folder: Path) -> Path:
        """Loads with plain ``ClapModel.from_pretrained``."""
        self.module.save_pretrained(folder)
        copy_companions(self.source, folder, COMPANIONS)
        return folder


# Files beside the weights that a checkpoint needs to be opened.
COMPANIONS = (
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)


def local_revision(folder: Path) -> str:
    """The digest of a local directory's weights."""
    for pattern in ("model.safetensors", "pytorch_model.bin", "*.safetensors", "*.bin"):
        for path in sorted(folder.glob(pattern)):
            return file_digest(path)
    return "unknown"
