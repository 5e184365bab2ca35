"""Sounds as a page plays and shows them: short mono excerpts, and spectrograms of a few thousand bytes."""

from __future__ import annotations

import io

import numpy as np
import soundfile
import torch

from ...audio import MelSpec, log_mel
from .pack import base64_of

RATE, SECONDS = 16000, 2.5
SHAPE = (48, 80)  # mel bands × columns of a spectrogram
FLOOR = 70.0  # dB below the loudest cell that are still seen
SPEC = MelSpec(n_fft=512, hop=RATE // 100, mels=SHAPE[0], filter_rate=RATE, f_min=40.0, f_max=RATE / 2)


def encoded(samples: np.ndarray) -> str:
    """A data address; MP3, which every browser plays, or Ogg Vorbis where libsndfile cannot write it."""
    file = io.BytesIO()
    mp3 = "MP3" in soundfile.available_formats()
    peak = max(float(np.abs(samples).max()), 1e-9)
    # Clips differ by far in loudness; a page is listened to at one volume.
    level = (samples * (0.7 / peak)).astype(np.float32)
    if mp3:
        soundfile.write(file, level, RATE, format="MP3", subtype="MPEG_LAYER_III", compression_level=0.75)
    else:
        soundfile.write(file, level, RATE, format="OGG", subtype="VORBIS", compression_level=0.7)
    return f"data:audio/{'mpeg' if mp3 else 'ogg'};base64,{base64_of(np.frombuffer(file.getvalue(), np.uint8))}"


def spectrogram(samples: np.ndarray) -> np.ndarray:
    """``[mel, column]`` in 0 … 255, the loudest cell at 255 and what is :data:`FLOOR` dB below it at 0."""
    decibels = log_mel(torch.from_numpy(np.ascontiguousarray(samples)), SPEC).T
    columns = torch.nn.functional.adaptive_avg_pool1d(decibels, SHAPE[1])
    return ((columns - columns.max()).clamp_min(-FLOOR) / FLOOR + 1).mul(255).round().to(torch.uint8).numpy()
