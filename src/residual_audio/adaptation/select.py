"""Where bases apply: the places of a selection of units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..units import Kind, SelectionError, Unit, UnitTable

PlaceKind = Literal["heads", "blocks", "stages", "mlps", "embedding"]
PLACES: dict[Kind, PlaceKind] = {"head": "heads", "block": "blocks", "stage": "stages", "mlp": "mlps", "embedding": "embedding"}
# Through which hook a kind reaches into a block; the final embedding has one of its own.
REACH: dict[PlaceKind, Literal["heads", "write", "mlp"]] = {"heads": "heads", "blocks": "write", "stages": "write", "mlps": "mlp"}


@dataclass(frozen=True)
class Place:
    """``kind``: what is changed; ``blocks``: (stage, block) pairs that share a basis; ``heads``: of the block."""

    kind: PlaceKind
    blocks: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        if self.kind == "embedding":
            return "embedding"
        if self.kind == "stages":
            return f"S{self.blocks[0][0]}"
        stage, block = self.blocks[0]
        return f"S{stage}B{block}" + ("M" if self.kind == "mlps" else "")

    @property
    def labels(self) -> list[str]:
        """One per basis: of each head, or of the place itself."""
        return [f"{self.label}H{h}" for h in self.heads] if self.kind == "heads" else [self.label]


def choose_places(units: UnitTable, selection: str) -> list[Place]:
    """The places of a selection (:meth:`UnitTable.select`), kind by kind; the heads of one block share a place.

    A write that would be reweighted twice, as part of a block and of its stage, is refused.
    """
    chosen = units.select(selection, only=tuple(PLACES))
    places: list[Place] = []
    for unit_kind, kind in PLACES.items():
        inside = [u for u in chosen if u.kind == unit_kind]
        if kind == "heads":
            pairs = dict.fromkeys((u.stage, u.block) for u in inside)
            places += [Place(kind, (pair,), tuple(u.head for u in inside if (u.stage, u.block) == pair)) for pair in pairs]
        else:
            places += [Place(kind, _blocks(units, u)) for u in inside]
    twice = {b for p in places if p.kind == "blocks" for b in p.blocks} & {b for p in places if p.kind == "stages" for b in p.blocks}
    if twice:
        label = "S{}B{}".format(*min(twice))
        raise SelectionError(f"{selection!r} would reweight {label} twice, as a block and as part of its stage; name one of the two")
    return places


def _blocks(units: UnitTable, unit: Unit) -> tuple[tuple[int, int], ...]:
    if unit.kind == "embedding":
        return ()
    return tuple(b for b in units.blocks if b[0] == unit.stage) if unit.kind == "stage" else ((unit.stage, unit.block),)
