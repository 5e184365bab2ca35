"""Which units to adapt: ``"heads"``, ``"S2 S3 heads"``, ``"S3B0 mlps"``, ``"S2B1H7 S3B0H1"``, ``"stages"``, ``"embedding"``, or several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..units import Unit, UnitTable

Form = Literal["heads", "blocks", "stages", "mlps", "embedding"]
FORMS: tuple[Form, ...] = ("heads", "blocks", "stages", "mlps", "embedding")
STAGE, BLOCK = re.compile(r"S(\d+)"), re.compile(r"S(\d+)B(\d+)")


class SelectionError(ValueError):
    """A selection of units that this encoder does not have."""


@dataclass(frozen=True)
class Place:
    """Where bases apply. ``form``: what is reweighted; ``blocks``: (stage, block) pairs that share a basis; ``heads``: of the block."""

    form: Form
    blocks: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        if self.form == "embedding":
            return "embedding"
        if self.form == "stages":
            return f"S{self.blocks[0][0]}"
        stage, block = self.blocks[0]
        return f"S{stage}B{block}" + ("M" if self.form == "mlps" else "")

    @property
    def labels(self) -> list[str]:
        """One a basis: of each head, or of the place itself."""
        return [f"{self.label}H{h}" for h in self.heads] if self.form == "heads" else [self.label]


def all_places(units: UnitTable, form: Form, blocks: Sequence[tuple[int, int]]) -> list[Place]:
    """The places of one form in some blocks."""
    if form == "embedding":
        return [Place("embedding")]
    if form == "stages":
        stages = sorted({s for s, _ in blocks})
        return [Place("stages", tuple(b for b in units.blocks if b[0] == s)) for s in stages]
    return [Place(form, ((s, b),), tuple(range(units.heads[s][b])) if form == "heads" else ()) for s, b in blocks]


def choose_places(units: UnitTable, selection: str) -> list[Place]:
    """Stages and blocks (``S2``, ``S2B1``) limit the forms named with them; heads may be named one by one; commas or blanks between.

    Without a form, heads are meant; without stages or blocks, all of them.
    """
    words = [w for w in re.split(r"[\s,+]+", selection.strip()) if w]
    forms: list[Form] = []
    blocks: list[tuple[int, int]] = []
    single: dict[tuple[int, int], set[int]] = {}
    mlps: list[tuple[int, int]] = []
    known = set(units.blocks)
    for word in words:
        named = next((f for f in FORMS if word.lower() in (f, f.removesuffix("s"))), None)
        if named is not None:
            forms.append(named)
        elif (match := STAGE.fullmatch(word)) and int(match[1]) < len(units.heads):
            blocks += [b for b in units.blocks if b[0] == int(match[1])]
        elif (match := BLOCK.fullmatch(word)) and (int(match[1]), int(match[2])) in known:
            blocks.append((int(match[1]), int(match[2])))
        else:
            unit = _unit(word, units)
            if unit.kind == "mlp":
                mlps.append((unit.stage, unit.block))
            else:
                single.setdefault((unit.stage, unit.block), set()).add(unit.head)
    places = [Place("heads", (pair,), tuple(sorted(heads))) for pair, heads in sorted(single.items())]
    places += [Place("mlps", (pair,)) for pair in sorted(set(mlps))]
    if forms or blocks or not words:
        inside = sorted(set(blocks), key=list(units.blocks).index) or list(units.blocks)
        default: list[Form] = ["heads"]
        for form in dict.fromkeys(forms or default):
            places += all_places(units, form, inside)
    labels = [label for place in places for label in place.labels]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise SelectionError(f"{', '.join(twice)} would be adapted twice by {selection!r}")
    return places


def _unit(word: str, units: UnitTable) -> Unit:
    try:
        unit = units[units.index(word)]
    except (ValueError, KeyError) as error:
        hint = f"stages S0–S{len(units.heads) - 1}, blocks such as S0B1, labels such as S0B1H2, and {', '.join(FORMS)}"
        raise SelectionError(f"{word!r} is no unit of this encoder; it has {hint}") from error
    if unit.kind == "embedding":
        raise SelectionError("the input embedding E has no write to reweight; `embedding` is the final one")
    return unit
