"""Which units carry a text, and along which of their axes they write it: what steering needs besides its strength."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from ..adaptation.gain import ResiDual
from ..models.pathways import Pathways
from ..units import Unit
from .ask import movement
from .concepts import Concepts, checked, concepts_for
from .describe import place_of
from .dictionary import MeaningError
from .listening import Listening
from .somp import somp
from .textaxes import Changes, TextAxis, steering, text_axes

RANKINGS = ("shares", "somp")
Pair = tuple[str, str]  # a text and the label of a unit


@dataclass(frozen=True)
class Plan:
    """Which units a text is steered in, and along which of their axes: everything but the strength. Cheap once clips were heard."""

    listening: Listening
    concepts: Concepts
    more: tuple[str, ...]
    less: tuple[str, ...]
    ranked: pd.DataFrame

    @cached_property
    def ways(self) -> Pathways:
        return Pathways(self.listening.encoder)

    @cached_property
    def chosen(self) -> pd.DataFrame:
        return self.ranked[self.ranked.chosen]

    @cached_property
    def axes(self) -> dict[Pair, TextAxis]:
        """By text and unit label."""
        return self.axes_of(list(zip(self.chosen.text, self.chosen.label, strict=True)))

    def axes_of(self, pairs: Sequence[Pair]) -> dict[Pair, TextAxis]:
        found: dict[Pair, TextAxis] = {}
        for text in dict.fromkeys(text for text, _ in pairs):
            labels = [label for t, label in pairs if t == text]
            direction = self.concepts.directions[self.concepts.index(text)]
            axes = text_axes(self.listening, self.ways, direction, [Unit.parse(label) for label in labels])
            found |= {(text, label): axis for label, axis in zip(labels, axes, strict=True)}
        return found

    def sign(self, text: str) -> float:
        return 1.0 if text in self.more else -1.0

    def changes(self, axes: Mapping[Pair, Float[Tensor, " _"]], strength: float) -> Changes:
        """By unit: each axis and by how much it is changed."""
        found: Changes = {}
        for (text, label), axis in axes.items():
            found.setdefault(Unit.parse(label), []).append((axis, self.sign(text) * strength))
        return found

    def adapter(self, strength: float, notes: dict[str, object] | None = None) -> ResiDual:
        """Gains of 1 + α for more and 1 − α for less, α the strength; at 0 it changes nothing. Milliseconds once ``axes`` are known."""
        axes = {key: found.axis for key, found in self.axes.items()}
        return steering(self.listening, self.changes(axes, strength), strength, notes)


def plan(
    listening: Listening,
    more: Sequence[str] = (),
    less: Sequence[str] = (),
    *,
    by: str = "shares",
    units: str = "heads mlps",
    top: int = 24,
    dictionary: str | Sequence[str] | None = None,
    template: str = "plain",
) -> Plan:
    """Rank the units for every text on the clips of ``fit``, and choose the ``top`` ones for each."""
    more, less = checked(more), checked(less)
    if not more and not less:
        raise MeaningError("nothing to steer: name texts with --more or --less")
    if both := {t.casefold() for t in more} & {t.casefold() for t in less}:
        raise MeaningError(f"{sorted(both)[0]!r} is wanted both more and less")
    if by not in RANKINGS:
        raise MeaningError(f"unknown ranking {by!r}; one of {', '.join(RANKINGS)}")
    concepts = concepts_for(listening, [*more, *less], dictionary, template)
    chosen = listening.encoder.units.select(units, only=("head", "mlp"))
    ranked = pd.concat([rank(listening, concepts, text, chosen, by, top) for text in (*more, *less)], ignore_index=True)
    return Plan(listening, concepts, tuple(more), tuple(less), ranked)


def rank(listening: Listening, concepts: Concepts, text: str, units: Sequence[Unit], by: str, top: int) -> pd.DataFrame:
    """Units by a text, the first ones ``chosen``: by their share of the variance of its scores, or by what the text explains of the unit.

    ``share``: cov(unit's share, score) / var(score), over all units and the constant they sum to one. ``explained``: the part of the
    variance of the unit's own shares that the text alone explains (SOMP restricted to the concept, as in Head Pursuit).
    """
    rows = torch.from_numpy(listening.fit)
    direction, index = concepts.directions[concepts.index(text)], [listening.encoder.units.index(u) for u in units]
    values, score = listening.shares[rows][:, index] @ direction, listening.embeddings[rows] @ direction
    if float(score.std()) == 0:
        raise MeaningError(
            f"the scores of {len(rows)} clips with {text!r} do not vary, so no unit can be said to carry it; give other clips"
        )
    table = pd.concat([pd.DataFrame([place_of(u) for u in units]), movement(values, score)], axis=1)
    centred = listening.shares[rows][:, index] - listening.shares[rows][:, index].mean(0)
    table["explained"] = [explained(centred[:, i], direction) for i in range(len(units))]
    table.insert(0, "text", text)
    table = table.sort_values("share" if by == "shares" else "explained", ascending=False, ignore_index=True, kind="stable")
    # A unit whose share moves against the score would, if raised, lower it.
    table["chosen"] = (table.share > 0) & ((table.share > 0).cumsum() <= top)
    if not table.chosen.any():
        raise MeaningError(f"none of the chosen units moves clips towards {text!r}; name others (--units), or give other clips (--data)")
    return table


def explained(shares: Float[Tensor, "clip d"], direction: Float[Tensor, " d"]) -> float:
    """The part of a unit's variance along one text; 0 for a unit that does not vary."""
    if float(shares.double().square().sum()) <= 1e-18:
        return 0.0
    return float(somp(shares, direction[None], 1).explained[-1])
