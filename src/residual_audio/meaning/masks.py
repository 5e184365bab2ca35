r"""A map over time and frequency as a mask on the sound itself, so that it can be heard.

The short-time Fourier transform is linear: with a mask m between 0 and 1, $\mathrm{kept} = F^{-1}(m F x)$ and
$\mathrm{removed} = F^{-1}((1 - m) F x)$. Invariant: kept + removed is the sound, to rounding.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..audio import MelSpec, Preprocessing
from ..audio.mel import hertz_to_mel

Grid = Float[Tensor, "frequency time"]


def largest_cells(values: Grid, keep: float) -> Grid:
    """1 at the cells with the largest values, as many as the share ``keep`` of all says, 0 elsewhere; only cells above 0 count."""
    flat = values.flatten()
    count = min(round(keep * flat.numel()), int((flat > 0).sum()))
    mask = torch.zeros_like(flat)
    mask[flat.argsort(descending=True, stable=True)[:count]] = 1.0
    return mask.view_as(values)


def place_between(position: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two cells between whose centres a position (in cells) lies, and how far it is from the first to the second."""
    centred = np.clip(position - 0.5, 0, count - 1)
    first = np.floor(centred).astype(int)
    return first, np.minimum(first + 1, count - 1), (centred - first).astype(np.float32)


def mel_position(bins: int, spec: MelSpec) -> Float[np.ndarray, " bin"]:
    """Where on the axis of mel bands each bin of a spectrum lies, 0 at the lower end of the first band; beyond the bands, at their ends."""
    low, high = hertz_to_mel(np.array([spec.f_min, spec.f_max]), spec.scale)
    there = hertz_to_mel(np.arange(bins) * spec.filter_rate / (2 * (bins - 1)), spec.scale)
    return np.clip((there - low) / (high - low), 0, 1) * spec.mels


def over_spectrum(mask: Grid, frames: int, bins: int, spec: MelSpec, length: float) -> Float[Tensor, "bin frame"]:
    """A mask on the model's grid, over the bins and frames of a spectrum of ``length`` windows; between cells it is interpolated."""
    rows, columns = mask.shape
    values = mask.double().cpu().numpy()
    f0, f1, f = place_between(mel_position(bins, spec) / spec.mels * rows, rows)
    t0, t1, t = place_between(np.linspace(0, length * columns, frames), columns)
    by_bin = values[f0] * (1 - f)[:, None] + values[f1] * f[:, None]
    return torch.from_numpy(by_bin[:, t0] * (1 - t) + by_bin[:, t1] * t).float()


def masked(wave: Float[np.ndarray, " sample"], mask: Grid, policy: Preprocessing) -> Float[np.ndarray, " sample"]:
    """What the mask keeps of a window of sound. A mask of ones gives the sound back, one of zeros silence."""
    size = policy.mel.n_fft
    window = torch.hann_window(size)
    spectrum = torch.stft(torch.from_numpy(wave), size, size // 4, window=window, pad_mode="constant", return_complex=True)
    soft = over_spectrum(mask, spectrum.shape[1], spectrum.shape[0], policy.mel, len(wave) / policy.samples)
    return torch.istft(spectrum * soft, size, size // 4, window=window, length=len(wave)).numpy()
