"""Procedurally synthesised sounds: the same (task, class, seed) always gives the same samples."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from .captions import Caption, draw_caption
from .catalogue import TASKS, SoundClass
from .dsp import LENGTH, RATE, noise, reverberant

__all__ = ["RATE", "TASKS", "Caption", "SoundClass", "Take", "draw_caption", "take"]


@dataclass(frozen=True)
class Take:
    """One rendered clip and everything that is known of it."""

    samples: np.ndarray
    label: str
    words: frozenset[str]
    caption: Caption


def take(task: str, index: int, seed: int) -> Take:
    """Render class number ``index`` of ``task`` as the take ``seed``: sound, room, background and caption."""
    kind = TASKS[task][index]
    rng = np.random.default_rng([zlib.crc32(task.encode()), index, seed])
    wave, words = kind.render(rng)
    if rng.random() < 0.3:
        seconds = float(rng.uniform(0.1, 0.45))
        wave = reverberant(rng, wave, seconds, wet=float(rng.uniform(0.3, 1.0)))
        words = words | {"distant"} if seconds > 0.25 else words
    level = np.sqrt((wave**2).mean()) + 1e-9
    wave = wave + level * 10 ** (-rng.uniform(12, 45) / 20) * noise(rng, slope=float(rng.uniform(0, 6)))
    wave = wave / (np.abs(wave).max() + 1e-9) * 10 ** (-rng.uniform(1, 20) / 20)
    caption = draw_caption(rng, kind.label, kind.nouns, words)
    assert wave.shape == (LENGTH,)
    return Take(wave.astype(np.float32), kind.label, words, caption)
