"""How an encoder is opened: the choices that are left to the user."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Options, option


@dataclass(frozen=True)
class Loading(Options):
    """Each is an error where the encoder does not read it."""

    seconds: float | None = option(None, "Window length of encoders that let one choose (Whisper).")
    crop: str | None = option(
        None, "start, centre or windows (several windows, averaged); default: start.", choices=("start", "centre", "windows")
    )
    pad: str | None = option(None, "repeatpad, repeat or pad; default: the checkpoint's own.", choices=("repeatpad", "repeat", "pad"))
    fast: bool = option(True, "Run HTS-AT's attention fused: the same numbers to rounding, in less time.")
