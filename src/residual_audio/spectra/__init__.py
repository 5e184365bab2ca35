"""Second-order statistics of units: streaming moments and the bases they give."""

from .basis import Basis, principal_axes
from .moments import Moments

__all__ = ["Basis", "Moments", "principal_axes"]
