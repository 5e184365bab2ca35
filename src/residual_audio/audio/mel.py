r"""Log-mel spectrograms in torch, one code path for every checkpoint's front end.

.. math:: X_{tm} = \ell\Big(\sum_f W_{fm}\,|\mathrm{STFT}(x)_{tf}|^2\Big)

with the filterbank W, the framing and the logarithm ℓ that the checkpoint was trained with.
Invariant: a clip's spectrogram depends on that clip alone, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

FRAMES_AT_ONCE = 8192
TRANSFORMS_AT_ONCE = 256  # stay in a core's cache
Scale = Literal["htk", "slaney", "kaldi"]


@dataclass(frozen=True)
class MelSpec:
    """Everything that defines a log-mel front end.

    ``filter_rate`` is the rate the filterbank was drawn for; Microsoft's CLAP feeds 44.1 kHz audio to a
    filterbank for 32 kHz. ``log``: ``db`` = 10·log10, ``whisper`` = log10, floored 8 below the clip's
    maximum, then (x+4)/4; ``kaldi`` = natural log, cut or zero-filled to ``frames``, then (x − mean) / (2·std).
    """

    n_fft: int
    hop: int
    mels: int
    filter_rate: int
    f_min: float
    f_max: float
    scale: Scale = "slaney"
    normalised: bool = True
    frame: int | None = None
    centred: bool = True
    preemphasis: float = 0.0
    log: Literal["db", "whisper", "kaldi"] = "db"
    mean: float = 0.0
    std: float = 0.5
    frames: int | None = None

    @property
    def window(self) -> int:
        return self.frame or self.n_fft


def hertz_to_mel(hertz: np.ndarray, scale: Scale) -> np.ndarray:
    """HTK: 2595·log10(1+f/700); Kaldi: 1127·ln(1+f/700); Slaney: linear below 1 kHz, logarithmic above."""
    if scale == "slaney":
        above = 15.0 + np.log(np.maximum(hertz, 1000.0) / 1000.0) * 27.0 / np.log(6.4)
        return np.where(hertz < 1000.0, 3.0 * hertz / 200.0, above)
    factor = 2595.0 / np.log(10.0) if scale == "htk" else 1127.0
    return factor * np.log1p(hertz / 700.0)


def mel_to_hertz(mel: np.ndarray, scale: Scale) -> np.ndarray:
    if scale == "slaney":
        return np.where(mel < 15.0, 200.0 * mel / 3.0, 1000.0 * np.exp(np.log(6.4) / 27.0 * (mel - 15.0)))
    factor = 2595.0 / np.log(10.0) if scale == "htk" else 1127.0
    return 700.0 * np.expm1(mel / factor)


@lru_cache(maxsize=32)
def mel_filters(spec: MelSpec) -> Float[Tensor, "bin mel"]:
    """Triangular filters; with ``normalised`` each has unit area (Slaney). Kaldi's are triangles in mel, not in Hz."""
    low, high = hertz_to_mel(np.array([spec.f_min, spec.f_max]), spec.scale)
    edges = np.linspace(low, high, spec.mels + 2)
    bins = np.arange(spec.n_fft // 2 + 1) * spec.filter_rate / spec.n_fft
    if spec.scale == "kaldi":
        points, bins = edges, hertz_to_mel(bins, spec.scale)
    else:
        points = mel_to_hertz(edges, spec.scale)
    rising = (bins[:, None] - points[None, :-2]) / np.diff(points)[None, :-1]
    falling = (points[None, 2:] - bins[:, None]) / np.diff(points)[None, 1:]
    filters = np.maximum(0.0, np.minimum(rising, falling))
    if spec.normalised:
        filters *= 2.0 / (points[2:] - points[:-2])
    return torch.from_numpy(filters.astype(np.float32))


def power_frames(frames: Float[Tensor, "frame sample"], spec: MelSpec) -> Float[Tensor, "frame bin"]:
    """|FFT|² of windowed frames; Kaldi's way removes each frame's mean and emphasises highs first."""
    if spec.log == "kaldi":
        frames = frames - frames.mean(1, keepdim=True)
        frames = frames - spec.preemphasis * F.pad(frames, (1, 0), mode="replicate")[:, :-1]
        window = torch.hann_window(spec.window, periodic=False)
    else:
        window = torch.hann_window(spec.window, periodic=True)
    spectrum = torch.fft.rfft(frames * window, n=spec.n_fft)
    return spectrum.real.square() + spectrum.imag.square()


def powers(frames: Float[Tensor, "frame sample"], spec: MelSpec) -> Float[Tensor, "frame bin"]:
    """The same, a few frames at a time."""
    return torch.cat([power_frames(part, spec) for part in frames.split(TRANSFORMS_AT_ONCE)])


def frames_to_make(frames: int, spec: MelSpec, period: int, until: int) -> tuple[Int[Tensor, " made"], Int[Tensor, " frame"]] | None:
    """Of a wave that repeats itself every ``period`` samples up to ``until``: the frames that differ, and which of them every frame is.

    None where none can be spared: frames come back only where the period is a number of hops, and not where they reach over an end.
    """
    before = spec.window // 2 if spec.centred else 0
    first, last = -(-before // spec.hop), (until + before - spec.window) // spec.hop
    if period % spec.hop or last - first < period // spec.hop:
        return None
    which = torch.arange(frames)
    inside = (which >= first) & (which <= last)
    which[inside] = first + (which[inside] - first) % (period // spec.hop)
    made, back = which.unique(return_inverse=True)
    return made, back


def log_mel(
    wave: Float[Tensor, " sample"],
    spec: MelSpec,
    filters: Float[Tensor, "bin mel"] | None = None,
    repeats: tuple[int, int] | None = None,
) -> Float[Tensor, "frame mel"]:
    """One clip's log-mel spectrogram. ``filters`` replaces the drawn filterbank by a checkpoint's own.

    ``repeats``: the wave repeats itself every so many samples, up to so many; frames that come back are made once.
    """
    filters = mel_filters(spec) if filters is None else filters
    if spec.centred:
        half = spec.window // 2
        mode = "reflect" if wave.numel() > half else "constant"
        wave = F.pad(wave[None], (half, half), mode=mode)[0]
    frames = wave.unfold(0, spec.window, spec.hop)
    spared = None if repeats is None else frames_to_make(len(frames), spec, *repeats)
    if spared is None:
        parts = (powers(part, spec) for part in frames.split(FRAMES_AT_ONCE))
    else:  # a product's last bits depend on its number of rows, so all frames go through it
        parts = iter(powers(frames[spared[0]], spec)[spared[1]].split(FRAMES_AT_ONCE))
    mel = torch.cat([part @ filters for part in parts])
    if spec.log == "db":
        return 10.0 * mel.clamp_min(1e-10).log10()
    if spec.log == "whisper":
        mel = mel[:-1].clamp_min(1e-10).log10()
        return (mel.maximum(mel.max() - 8.0) + 4.0) / 4.0
    mel = mel.clamp_min(torch.finfo(torch.float32).eps).log()
    if spec.frames is not None:
        mel = F.pad(mel[: spec.frames], (0, 0, 0, max(0, spec.frames - len(mel))))
    return (mel - spec.mean) / (2.0 * spec.std)
