"""Second-order statistics of units: streaming moments, the bases they give, and measures of their spectra."""

from .basis import Basis, principal_axes
from .measures import spectrum_measures
from .moments import Moments

__all__ = ["Basis", "Moments", "principal_axes", "spectrum_measures"]
