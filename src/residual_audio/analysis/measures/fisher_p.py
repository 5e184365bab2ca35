"""Whether a head separates the classes better than labels dealt out at random."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ..discriminability import fisher_p_value
from . import MEASURES, ClassMeasure, Labelled


def fisher_p(heads: Labelled) -> Float[Tensor, " head"]:
    """See :func:`..discriminability.fisher_p_value`; clips of one recording count as independent, which flatters where they are not."""
    return fisher_p_value(heads.points, heads.targets, heads.classes)


MEASURES.add(
    ClassMeasure(
        name="fisher_p",
        title="p of the Fisher ratio",
        short="Fisher p",
        help="how often labels dealt out at random separate the clips as well, of 199 permutations",
        order=41,
        shown="tables",
        tested=False,
        paper=False,
        compute=fisher_p,
    )
)
