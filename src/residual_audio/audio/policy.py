"""The preprocessing policy: one frozen object that turns a sound into a model's input, and says how.

It is recorded in every run, and its hash keeps results of different policies apart.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..media import MediaError, name_of
from .decode import AudioSource, Waveform, duration, read, rendered
from .mel import MelSpec, log_mel

Crop = Literal["start", "centre", "windows"]
Pad = Literal["repeatpad", "repeat", "pad"]


@dataclass(frozen=True)
class Prepared:
    """A clip as the model sees it: ``features [window, channel, frame, mel]``; ``longer``: the clip was cut."""

    features: Float[Tensor, "window channel frame mel"]
    longer: bool


@dataclass(frozen=True)
class Preprocessing:
    """Mono by mean → soxr → length policy → log-mel. No step is random.

    - ``crop``: what is kept of a clip over ``samples``: its ``start``, its ``centre``, or up to ``max_windows``
      evenly spread ``windows`` whose embeddings are averaged.
    - ``pad``: ``repeatpad`` repeats whole clips, then adds zeros; ``repeat`` repeats and cuts; ``pad`` adds zeros.
    - ``fusion``: LAION's fused input, four mels: the whole clip shrunk, and three chunks. Theirs are drawn at
      random; ours are the middle of each third. Short clips are never marked as longer (theirs marks one at random).
    """

    sample_rate: int
    samples: int
    mel: MelSpec
    pad: Pad = "repeatpad"
    crop: Crop = "start"
    max_windows: int = 8
    fusion: bool = False

    @property
    def seconds(self) -> float:
        return self.samples / self.sample_rate

    def noise(self) -> Waveform:
        """A second of fixed noise: what two encoders of this policy can be compared on."""
        samples = np.random.default_rng(0).standard_normal(self.sample_rate).astype(np.float32)
        return Waveform(0.1 * samples, self.sample_rate)

    @property
    def hash(self) -> str:
        """Twelve hex digits that change when anything in the policy changes."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]

    def window_starts(self, seconds: float) -> list[float]:
        """Where in a clip of this length the model's windows begin, in seconds."""
        spare = seconds - self.seconds
        if spare <= 0 or self.crop == "start":
            return [0.0]
        if self.crop == "centre":
            return [spare / 2]
        count = min(self.max_windows, int(np.ceil(seconds / self.seconds)))
        return [float(s) for s in np.linspace(0.0, spare, count)]

    def fit(self, wave: np.ndarray) -> np.ndarray:
        """Bring a waveform that is not too long to exactly ``samples``."""
        wave = wave[: self.samples]
        if len(wave) < self.samples:
            if self.pad == "repeat":
                wave = np.tile(wave, self.samples // len(wave) + 1)[: self.samples]
            elif self.pad == "repeatpad":
                wave = np.tile(wave, self.samples // len(wave))
            wave = np.pad(wave, (0, self.samples - len(wave)))
        return wave

    def log_mel(self, wave: np.ndarray, filters: Float[Tensor, "bin mel"] | None) -> Float[Tensor, "frame mel"]:
        """Of a waveform that is not too long, brought to length; where it is repeated, only what differs is computed."""
        once, repeats = len(wave), None
        if once < self.samples and self.pad != "pad":
            repeats = once, self.samples if self.pad == "repeat" else self.samples // once * once
        return log_mel(torch.from_numpy(np.ascontiguousarray(self.fit(wave))), self.mel, filters, repeats)

    def windows(self, source: AudioSource) -> tuple[list[np.ndarray], bool]:
        """The model's windows of a clip as waveforms of at most its length, and whether the clip was longer."""
        source = rendered(source)
        length = duration(source)
        parts = [read(source, self.sample_rate, start, self.seconds) for start in self.window_starts(length)]
        return parts, length * self.sample_rate > self.samples

    def waveforms(self, source: AudioSource) -> tuple[list[np.ndarray], bool]:
        """The same, all of the model's length."""
        parts, longer = self.windows(source)
        return [self.fit(part) for part in parts], longer

    def prepare(self, source: AudioSource, filters: Float[Tensor, "bin mel"] | None = None) -> Prepared:
        """A sound as the model's input; finite, because one clip that is not would make all moments of a run so."""
        prepared = (self._fused if self.fusion else self._windows)(source, filters)
        if not torch.isfinite(prepared.features).all():
            raise MediaError(f"{name_of(source)}: its samples are too large, so its spectrogram is not finite; scale it to −1 … 1")
        return prepared

    def _windows(self, source: AudioSource, filters: Float[Tensor, "bin mel"] | None) -> Prepared:
        waves, longer = self.windows(source)
        return Prepared(torch.stack([self.log_mel(wave, filters) for wave in waves])[:, None], longer)

    def _fused(self, source: AudioSource, filters: Float[Tensor, "bin mel"] | None) -> Prepared:
        wave = read(source, self.sample_rate)
        if len(wave) > self.samples:
            mel = log_mel(torch.from_numpy(np.ascontiguousarray(wave)), self.mel, filters)
            chunk = self.samples // self.mel.hop + 1
            if len(mel) > chunk:
                return Prepared(fused(mel, chunk)[None], True)
        else:
            mel = self.log_mel(wave, filters)
        return Prepared(mel.expand(1, 4, -1, -1), False)


def fused(mel: Float[Tensor, "frame mel"], chunk: int) -> Float[Tensor, "4 chunk mel"]:
    """The whole clip shrunk to ``chunk`` frames, and the chunks in the middle of each third."""
    shrunk = F.interpolate(mel[None, None], size=(chunk, mel.shape[1]), mode="bilinear", align_corners=False)[0, 0]
    thirds = np.array_split(np.arange(len(mel) - chunk + 1), 3)
    starts = [int(part[len(part) // 2]) if len(part) else 0 for part in thirds]
    return torch.stack([shrunk, *(mel[s : s + chunk] for s in starts)])
