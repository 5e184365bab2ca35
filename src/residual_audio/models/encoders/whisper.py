"""Whisper's encoder, through transformers. It has no text side: class centroids take the place of prompts."""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperModel
from transformers.models.whisper.modeling_whisper import WhisperEncoder as WhisperTower

from ...audio import MelSpec, Preprocessing
from ..encoder import Encoder, EncoderError, StageSite
from ..files import at_commit, pinned, revision_of, write_pretrained
from ..isotropic import NEUTRAL_LOGIT_SCALE, IsotropicEncoder, isotropic_site, one_stage
from ..loading import Loading
from ..readout import PooledReadout
from ..registry import ENCODERS, EncoderKind, KnownModel, directory
from ..weights import open_exactly

SECONDS, CONV_STRIDE = 10.0, 2
# In the config of a checkpoint that we wrote: the window that it was used with, so that it reopens as it was.
WINDOW = "window_seconds"


class WhisperEncoder(IsotropicEncoder):
    """Whisper's encoder on windows of ``seconds``; the embedding is the mean of the last states.

    Whisper was trained on 30 s. A shorter window uses the first part of its position table, which costs a
    fraction of padding every clip to 30 s with silence.
    """

    module: WhisperTower
    policy: Preprocessing

    def __init__(
        self, source: str | Path, name: str | None = None, device: str | torch.device = "cpu", seconds: float | None = None
    ) -> None:
        self.source, self.name = str(source), name or str(source)
        module = open_encoder(self.source)
        seconds = getattr(module.config, WINDOW, SECONDS) if seconds is None else seconds
        extractor = WhisperFeatureExtractor.from_pretrained(**pinned(self.source))
        rate, hop = extractor.sampling_rate, extractor.hop_length
        positions = round(seconds * rate / hop / CONV_STRIDE)
        if not 0 < positions <= module.config.max_source_positions:
            longest = module.config.max_source_positions * CONV_STRIDE * hop / rate
            raise EncoderError(f"{self.name}: a window of {seconds} s does not fit; choose more than 0 and at most {longest:g} s")
        keep_positions(module, positions)
        self.module = module.eval().to(device)
        self.policy = Preprocessing(
            sample_rate=rate,
            samples=positions * CONV_STRIDE * hop,
            mel=MelSpec(
                n_fft=extractor.n_fft, hop=hop, mels=extractor.feature_size, filter_rate=rate, f_min=0.0, f_max=8000.0, log="whisper"
            ),
        )
        self.revision = revision_of(module.config, self.source)
        self.source = at_commit(self.source, self.revision)
        self.dim, self.logit_scale = module.config.d_model, NEUTRAL_LOGIT_SCALE
        heads = module.config.encoder_attention_heads
        self.units = one_stage(len(module.layers), heads, self.dim)
        self.sites = tuple(
            isotropic_site(b, heads, "self_attn", "out_proj", "fc2", "self_attn_layer_norm") for b in range(len(module.layers))
        )
        self.stages = (StageSite((1, positions)),)
        self.readout = PooledReadout(norm="layer_norm")

    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        states: Tensor = self.module(features[:, 0].transpose(1, 2)).last_hidden_state
        return states.mean(1)

    def write(self, folder: Path) -> Path:
        """With the whole position table of the checkpoint, however short the window is here; the window goes into its config."""
        whole = open_encoder(self.source)
        whole.load_state_dict({k: v for k, v in self.module.state_dict().items() if not k.startswith("embed_positions.")}, strict=False)
        setattr(whole.config, WINDOW, self.policy.seconds)
        return write_pretrained(whole, self.source, folder)


def open_encoder(source: str) -> WhisperTower:
    """The encoder of a checkpoint that is one, or of a whole Whisper, as the hub has them."""
    config = WhisperConfig.from_pretrained(**pinned(source))
    if WhisperTower.__name__ in (config.architectures or ()):
        return open_exactly(WhisperTower, source)
    whole = open_exactly(WhisperModel, source, unread=("proj_out.",))
    return whole.encoder


def keep_positions(module: WhisperTower, positions: int) -> None:
    """Shorten the encoder's window to its first ``positions`` tokens."""
    weight = module.embed_positions.weight.data[:positions].clone()
    module.embed_positions = nn.Embedding.from_pretrained(weight, freeze=True)
    module.config.max_source_positions = module.max_source_positions = positions


def open_whisper(source: str, device: str | torch.device, options: Loading) -> Encoder:
    return WhisperEncoder(directory(source), source, device, options.seconds)


ENCODERS.add(
    EncoderKind(
        "whisper",
        open_whisper,
        model_types=("whisper",),
        window=True,
        known=(KnownModel("openai/whisper-tiny.en", "Whisper's encoder (any size), no text side"),),
        order=30,
    )
)
