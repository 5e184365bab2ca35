"""How well a head separates the classes."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ..discriminability import fisher_ratio
from . import MEASURES, ClassMeasure, Labelled


def fisher(heads: Labelled) -> Float[Tensor, " head"]:
    """See :mod:`..discriminability`."""
    return fisher_ratio(heads.points, heads.targets, heads.classes)


MEASURES.add(
    ClassMeasure(
        name="fisher",
        title="Fisher ratio",
        short="Fisher",
        help="scatter of the head's outputs between classes over that within classes",
        unit="between / within scatter",
        order=40,
        paper=False,
        compute=fisher,
    )
)
