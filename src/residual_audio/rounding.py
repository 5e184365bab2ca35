"""How numbers are rounded, on every screen and in every table: halves away from zero, as people do."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

MISSING = "–"
EVERY_DIGIT = Context(prec=400)  # the largest float has 309 before the point


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals (16.25 → 16.3; Python alone gives 16.2); a dash where there is none."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, EVERY_DIGIT):f}"
    return text.lstrip("-") if float(text) == 0 else text


def percent(share: float) -> str:
    """A share in percent, with one decimal. (The last digits of a product are noise: 100 × 0.145 is 14.499999999999998.)"""
    return fixed(round(100 * share, 9), 1)
