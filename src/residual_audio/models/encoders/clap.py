"""LAION's CLAP, and every checkpoint of that layout, through transformers' ClapModel. ``tiny`` is one of them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import AutoTokenizer, ClapFeatureExtractor, ClapModel, PreTrainedTokenizerBase

from ...audio import MelSpec, Preprocessing
from ...audio.policy import Pad
from ..encoder import Encoder
from ..files import TOKENIZER_HINT, at_commit, open_tokenizer, pinned, revision_of, write_pretrained
from ..htsat import HtsatEncoder, htsat_sites, htsat_stages, htsat_units
from ..loading import Loading
from ..readout import MlpReadout
from ..registry import ENCODERS, EncoderKind, KnownModel, directory
from ..weights import open_exactly
from ..wording import Wording

TINY = Path(__file__).parents[1] / "tiny"


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
        pad=cast(Pad, extractor.padding),
        fusion=fusion,
    )


class ClapEncoder(HtsatEncoder):
    """``module`` is transformers' ClapModel, unchanged."""

    module: ClapModel
    wording = Wording()

    def __init__(self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> None:
        self.source, self.name = str(source), name or str(source)
        module = open_exactly(ClapModel, self.source)
        self.put_around(module.eval().to(device), ClapFeatureExtractor.from_pretrained(**pinned(self.source)))
        self.revision = revision_of(module.config, self.source)
        self.source = at_commit(self.source, self.revision)

    def put_around(self, module: ClapModel, extractor: ClapFeatureExtractor) -> None:
        """Everything that can be read off a model and its front end."""
        self.module = module
        config: Any = module.config
        self.policy = clap_policy(extractor, config.audio_config.enable_fusion)
        self.units = htsat_units(self.module.audio_model)
        self.sites = htsat_sites(self.module.audio_model, "audio_model")
        self.stages = htsat_stages(self.module.audio_model, "audio_model")
        self.strips = self.module.audio_model.audio_encoder.freq_ratio
        self.readout = MlpReadout(
            norm="audio_model.audio_encoder.norm", first="audio_projection.linear1", second="audio_projection.linear2"
        )
        self.dim = config.projection_dim
        self.logit_scale = self.module.logit_scale_a.exp().item()

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Resolved at the first text, so that audio-only work needs none."""
        tokenizer: PreTrainedTokenizerBase = open_tokenizer(AutoTokenizer, self.source, TOKENIZER_HINT)
        return tokenizer

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        pooled = self.module.audio_model(input_features=features, is_longer=longer[:, None]).pooler_output
        embedding: Tensor = self.module.audio_projection(pooled)
        return embedding

    def encode_tokens(self, ids: Int[Tensor, "text token"], mask: Int[Tensor, "text token"]) -> Float[Tensor, "text d"]:
        pooled = self.module.text_model(input_ids=ids, attention_mask=mask).pooler_output
        embedding: Tensor = self.module.text_projection(pooled)
        return embedding

    def write(self, folder: Path) -> Path:
        """Loads with plain ``ClapModel.from_pretrained``."""
        return write_pretrained(self.module, self.source, folder)


def open_clap(source: str, device: str | torch.device, options: Loading) -> Encoder:
    return ClapEncoder(TINY if source == "tiny" else directory(source), source, device)


ENCODERS.add(
    EncoderKind(
        "clap",
        open_clap,
        model_types=("clap",),
        own_names=("tiny",),
        home=TINY,
        known=(
            KnownModel("tiny", "small CLAP, 184 heads of 8, trained on real and synthesised sounds", "nothing: it is in the package"),
            KnownModel("laion/clap-htsat-unfused", "LAION CLAP, 10 s, 48 kHz"),
            KnownModel("laion/clap-htsat-fused", "LAION CLAP with feature fusion for long clips"),
            KnownModel("laion/larger_clap_general", "LAION CLAP, larger audio encoder, general audio"),
            KnownModel("laion/larger_clap_music", "LAION CLAP, larger, music"),
            KnownModel("laion/larger_clap_music_and_speech", "LAION CLAP, larger, music and speech"),
        ),
        order=10,
    )
)
