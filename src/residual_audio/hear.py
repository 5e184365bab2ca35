"""Any encoder behind HEAR's interface (Holistic Evaluation of Audio Representations): a module with three functions.

``load_model("tiny")`` takes whatever ``ra.load_encoder`` takes. The embedding of a scene is that of the whole sound, window after window.
Embeddings over time are read off the last tokens: their mean over frequencies, through the model's own projection, one every 50 ms
between the columns of tokens. Invariant: the mean over all columns of a window, before the projection, is the model's pooled output.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .audio import Preprocessing, Waveform
from .models import Encoder, EncoderError, load_encoder
from .models.batching import as_batch
from .models.pathways import Pathways
from .models.recording import Keep, recorded

DEFAULT, RATES, STEP_MS, AT_ONCE = "tiny", (16_000, 22_050, 44_100, 48_000), 50.0, 16


class HearModel(nn.Module):
    """An encoder with the attributes that HEAR asks for. ``sample_rate`` is the encoder's own, where HEAR has it."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        policy = encoder.policy
        if not isinstance(policy, Preprocessing):
            raise EncoderError(f"{encoder.name} takes images, and HEAR has sounds")
        if not policy.fusion:  # fusion sees the whole sound by itself
            encoder.policy = policy = replace(policy, crop="windows")
        self.encoder, self.policy = encoder, policy
        self.module = encoder.module  # so that .to(device) moves it
        self.sample_rate = policy.sample_rate if policy.sample_rate in RATES else RATES[-1]
        self.scene_embedding_size = self.timestamp_embedding_size = encoder.dim

    def forward(self, audio: Float[Tensor, "sound sample"]) -> Float[Tensor, "sound d"]:
        return get_scene_embeddings(audio, self)

    @torch.no_grad()
    def columns(self, windows: list[Waveform]) -> Float[Tensor, "window time width"]:
        """The last tokens of sounds that fit the window, normed, as columns in time: the mean over frequencies."""
        if self.encoder.readout.tokens is not None:
            raise EncoderError(f"{self.encoder.name} is read off special tokens, which have no place in time; use an HTS-AT or Whisper")
        features, longer, _ = as_batch(self.encoder, [self.encoder.prepare(window) for window in windows])
        last = len(self.encoder.stages) - 1
        ends = recorded(self.encoder, features, longer, Keep(ends="tokens")).ends[last]
        normed: Tensor = self.encoder.readout.final_norm(ends)
        return normed[:, Pathways(self.encoder).spectrogram(last)].mean(1)


def load_model(model_file_path: str = "") -> HearModel:
    """The bundled model, or any name, hub repository, directory or file that ``ra.load_encoder`` opens."""
    return HearModel(load_encoder(model_file_path or DEFAULT))


def get_scene_embeddings(audio: Float[Tensor, "sound sample"], model: HearModel) -> Float[Tensor, "sound d"]:
    """One embedding per sound, of unit length."""
    return model.encoder.embed(list(_samples(audio)), model.sample_rate).float().clone()


@torch.no_grad()
def get_timestamp_embeddings(
    audio: Float[Tensor, "sound sample"], model: HearModel
) -> tuple[Float[Tensor, "sound time d"], Float[Tensor, "sound time"]]:
    """One embedding every 50 ms, not normalised, and where in the sound it is, in milliseconds: the middles of 50 ms."""
    samples, rate, seconds = _samples(audio), model.sample_rate, model.policy.seconds
    size = round(seconds * rate)
    starts = range(0, samples.shape[1], size)
    windows = [Waveform(one[start : start + size], rate) for one in samples for start in starts]
    parts = [model.columns(windows[i : i + AT_ONCE]) for i in range(0, len(windows), AT_ONCE)]
    columns = torch.cat(parts).unflatten(0, (len(samples), len(starts))).flatten(1, 2)
    embedded = model.encoder.readout.project(columns.flatten(0, 1)).unflatten(0, columns.shape[:2]).float()
    length = 1000 * samples.shape[1] / rate
    times = torch.arange(STEP_MS / 2, max(length, STEP_MS), STEP_MS, device=embedded.device)
    width = 1000 * seconds * len(starts) / columns.shape[1]
    # Between the middles of columns in a straight line; as the nearest one before the first and after the last.
    place = (times / width - 0.5).clamp(0, columns.shape[1] - 1)
    before = place.floor().long()
    after = (before + 1).clamp_max(columns.shape[1] - 1)
    between = torch.lerp(embedded[:, before], embedded[:, after], (place - before)[None, :, None])
    return between, times.expand(len(samples), -1).clone()


def _samples(audio: Float[Tensor, "sound sample"]) -> np.ndarray:
    if audio.ndim != 2 or not audio.shape[1]:
        raise ValueError(f"sounds of one length, [sound, sample], are expected; this has the shape {tuple(audio.shape)}")
    return F.hardtanh(audio.detach().float()).cpu().numpy()
