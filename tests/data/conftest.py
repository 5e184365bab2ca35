"""Small real files in the layouts of the real datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile


@pytest.fixture
def write() -> Callable[..., Path]:
    """Write a short tone; its ending chooses the format."""

    def tone(path: Path, pitch: float = 440.0, seconds: float = 0.05, rate: int = 16000) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, 0.3 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate), rate)
        return path

    return tone


@pytest.fixture(autouse=True)
def no_user_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never see the user's datasets."""
    monkeypatch.setenv("RESIDUAL_AUDIO_DATA", str(tmp_path / "no-data"))
