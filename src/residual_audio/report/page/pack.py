"""Numbers and texts as they go into a page: small, and unable to leave the script element they stand in."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np


def base64_of(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def quantised(values: np.ndarray, axes: tuple[int, ...]) -> dict[str, Any]:
    """int8 with one scale for each index of the axes that are not in ``axes``; off by at most half a step, 1/254 of the largest value."""
    scale = np.abs(values).max(axis=axes, keepdims=True) / 127
    steps = np.round(values / np.where(scale > 0, scale, 1)).astype(np.int8)
    return {"shape": list(values.shape), "int8": base64_of(steps), "scale": base64_of(np.squeeze(scale, axes).astype("<f4"))}


def floats(values: np.ndarray) -> dict[str, Any]:
    return {"shape": list(values.shape), "float": base64_of(values.astype("<f4"))}


def digits(values: Iterable[Any], count: int = 4) -> list[float | None]:
    """So many significant digits; what is not a number becomes null."""
    return [None if v is None or not math.isfinite(v) else float(f"{v:.{count}g}") for v in map(float, values)]


def as_script(data: object) -> str:
    """JSON that can stand inside ``<script>``: no ``<``, so no end tag and no comment can begin there, whatever a label says."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
