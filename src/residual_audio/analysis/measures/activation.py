"""How strong a head's output is, and how far one class stands above the others."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ..specialisation import selectivity
from . import MEASURES, ClassMeasure, Labelled


def mean_norm(heads: Labelled) -> Float[Tensor, " head"]:
    """Mean over clips of the norm of the output."""
    return (heads.points.square().sum(-1) + heads.rest.square()).sqrt().mean(0)


def class_selectivity(heads: Labelled) -> Float[Tensor, " head"]:
    """See :func:`..specialisation.selectivity`."""
    return selectivity(heads.activation).value


MEASURES.add(
    ClassMeasure(
        name="activation",
        title="activation",
        short="activation",
        help="mean norm of the head's output over clips",
        order=41,
        shown="figures",
        tested=False,
        paper=False,
        compute=mean_norm,
    )
)
MEASURES.add(
    ClassMeasure(
        name="selectivity",
        title="class selectivity",
        short="selectivity",
        help="how far the norm for one class stands above that for the others: 0 alike for all, 1 silent for all but one",
        order=42,
        shown="figures",
        tested=False,
        paper=False,
        compute=class_selectivity,
    )
)
