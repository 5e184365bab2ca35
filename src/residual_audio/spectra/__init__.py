"""Second-order statistics of units: streaming moments, the bases they give, and spectra as shares."""

from .basis import Basis, principal_axes
from .moments import Moments
from .sketch import Sketch
from .spectrum import shares

__all__ = ["Basis", "Moments", "Sketch", "principal_axes", "shares"]
