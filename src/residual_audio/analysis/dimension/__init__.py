"""Intrinsic dimension of all heads at once: one estimator a file, the neighbours they share, and their errors."""

from .estimate import LINEAR, MEASURES, NONLINEAR, Dimensions, estimate_dimensions, linear_dimensions

__all__ = ["LINEAR", "MEASURES", "NONLINEAR", "Dimensions", "estimate_dimensions", "linear_dimensions"]
