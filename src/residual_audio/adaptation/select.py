"""Where bases apply: the places of a selection of units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..units import Kind, SelectionError, Unit, UnitTable

Form = Literal["heads", "blocks", "stages", "mlps", "embedding"]
FORMS: dict[Kind, Form] = {"head": "heads", "block": "blocks", "stage": "stages", "mlp": "mlps", "embedding": "embedding"}
# Through which hook a form reaches into a block; the final embedding has one of its own.
REACH: dict[Form, Literal["heads", "write", "mlp"]] = {"heads": "heads", "blocks": "write", "stages": "write", "mlps": "mlp"}


@dataclass(frozen=True)
class Place:
    """``form``: what is reweighted; ``blocks``: (stage, block) pairs that share a basis; ``heads``: of the block."""

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
        """One per basis: of each head, or of the place itself."""
        return [f"{self.label}H{h}" for h in self.heads] if self.form == "heads" else [self.label]


def choose_places(units: UnitTable, selection: str) -> list[Place]:
    """The places of a selection (:meth:`UnitTable.select`), form by form; the heads of one block share a place.

    A write that would be reweighted twice, as part of a block and of its stage, is refused.
    """
    chosen = units.select(selection, only=tuple(FORMS))
    places: list[Place] = []
    for kind, form in FORMS.items():
        inside = [u for u in chosen if u.kind == kind]
        if form == "heads":
            pairs = dict.fromkeys((u.stage, u.block) for u in inside)
            places += [Place(form, (pair,), tuple(u.head for u in inside if (u.stage, u.block) == pair)) for pair in pairs]
        else:
            places += [Place(form, _blocks(units, u)) for u in inside]
    twice = {b for p in places if p.form == "blocks" for b in p.blocks} & {b for p in places if p.form == "stages" for b in p.blocks}
    if twice:
        label = "S{}B{}".format(*min(twice))
        raise SelectionError(f"{selection!r} would reweight {label} twice, as a block and as part of its stage; name one of the two")
    return places


def _blocks(units: UnitTable, unit: Unit) -> tuple[tuple[int, int], ...]:
    if unit.kind == "embedding":
        return ()
    return tuple(b for b in units.blocks if b[0] == unit.stage) if unit.kind == "stage" else ((unit.stage, unit.block),)
