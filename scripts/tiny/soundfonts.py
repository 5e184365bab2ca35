"""Soundfonts as players: notes, chords and short phrases of any program, through libfluidsynth.

They are Debian's packages (the docstring of ``train_tiny.py`` lists them); ``pip install pyfluidsynth`` plays them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soxr

from residual_audio.data.synthesis import RATE

PLAY_RATE = 32_000


@dataclass(frozen=True)
class Soundfont:
    package: str
    path: Path
    licence: str


TRAINED = (
    Soundfont("fluid-soundfont-gm", Path("/usr/share/sounds/sf2/FluidR3_GM.sf2"), "MIT"),
    Soundfont("musescore-general-soundfont", Path("/usr/share/sounds/sf3/MuseScore_General_Full.sf3"), "MIT"),
    Soundfont("csound-soundfont", Path("/usr/share/sounds/sf2/sf_GMbank.sf2"), "public domain"),
)
# Never trained on: what settings are judged by, so that real recordings are looked at once, at the end.
HELD_OUT = Soundfont("timgm6mb-soundfont", Path("/usr/share/sounds/sf2/TimGM6mb.sf2"), "GPL-2")


@cache
def player(font: Soundfont):  # type: ignore[no-untyped-def]
    """One synthesiser per process and soundfont: reverberation and chorus off, they are ours to add."""
    try:
        import fluidsynth
    except ImportError as error:
        raise SystemExit("pyfluidsynth is missing: pip install pyfluidsynth, and apt-get install fluidsynth") from error
    if not font.path.exists():
        raise SystemExit(f"{font.path} is missing: apt-get install {font.package}")
    synth = fluidsynth.Synth(samplerate=float(PLAY_RATE), gain=0.5)
    synth.setting("synth.reverb.active", 0)
    synth.setting("synth.chorus.active", 0)
    return synth, synth.sfload(str(font.path))


@dataclass(frozen=True)
class Event:
    """A note: MIDI number, start and length in seconds, velocity."""

    note: int
    start: float
    length: float
    velocity: int


def play(font: Soundfont, program: int, events: list[Event], seconds: float, drums: bool = False, speed: float = 1.0) -> np.ndarray:
    """Mono at the package's rate; ``speed`` plays everything that much faster (pitch and formants go along)."""
    synth, bank = player(font)
    channel = 9 if drums else 0
    synth.system_reset()
    synth.program_select(channel, bank, 128 if drums else 0, 0 if drums else program)
    edges = sorted([(e.start, 1, e) for e in events] + [(e.start + e.length, 0, e) for e in events], key=lambda x: (x[0], x[1]))
    parts, now = [], 0.0
    for when, on, event in [*edges, (seconds * speed, -1, events[0])]:
        frames = round(max(0.0, min(when, seconds * speed) - now) * PLAY_RATE)
        if frames:
            parts.append(synth.get_samples(frames).reshape(-1, 2).mean(1))
            now += frames / PLAY_RATE
        if on == 1:
            synth.noteon(channel, event.note, event.velocity)
        elif on == 0:
            synth.noteoff(channel, event.note)
    wave = np.concatenate(parts).astype(np.float32) / 32768
    return soxr.resample(wave, PLAY_RATE * speed, RATE).astype(np.float32)
