"""Clips as a page shows them: sounds with a player and a spectrogram, images as thumbnails."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import pandas as pd

from ...audio import read
from ...data import Clip
from ...extraction import Run
from ...images import as_rgb
from ...media import MediaError, reading
from .audio import RATE, SECONDS, encoded, spectrogram
from .pack import base64_of

Media = Literal["sound", "image"]
THUMBNAIL = (160, 120)  # pixels at most


def media_of(run: Run) -> Media:
    """What the run's clips are: only sounds are resampled."""
    return "sound" if "sample_rate" in run.info["preprocessing"] else "image"


def thumbnail(source: Any) -> str:
    """A small JPEG as a data address."""
    picture = as_rgb(source)
    picture.thumbnail(THUMBNAIL)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64_of(np.frombuffer(file.getvalue(), np.uint8))}"


def sound_record(source: Any, audio: str, out: Path) -> dict[str, Any]:
    """Length, spectrogram, and an excerpt or a link to the file."""
    samples = read(source, RATE, seconds=SECONDS)
    record: dict[str, Any] = {"seconds": round(len(samples) / RATE, 2), "spectrogram": base64_of(spectrogram(samples))}
    if audio == "embed":
        record["audio"] = encoded(samples)
    elif audio == "link" and isinstance(source, Path):
        record["audio"] = quote(Path(os.path.relpath(source.resolve(), out.resolve().parent)).as_posix())
    return record


def shown_clips(
    clips: pd.DataFrame,
    rows: Sequence[int],
    classes: Sequence[str],
    media: Media,
    audio: str,
    out: Path,
    advance: Callable[[int], object] | None = None,
) -> list[dict[str, Any]]:
    """One record per clip. ``audio``: ``embed`` an excerpt, ``link`` to the file, or ``none``; a clip that cannot be read says so."""
    position = {label: i for i, label in enumerate(classes)}
    shown = []
    for row in rows:
        clip = Clip(str(clips["id"][row]), str(clips["path"][row]), str(clips["label"][row]))
        record: dict[str, Any] = {"id": clip.id, "row": int(row), "class": position[clip.label]}
        try:
            with reading(clip.source):
                record |= {"image": thumbnail(clip.source)} if media == "image" else sound_record(clip.source, audio, out)
        except MediaError as error:
            record["error"] = str(error)
        shown.append(record)
        if advance is not None:
            advance(1)
    return shown
