"""The one index that everything shares: which units a model has, in which order, under which label.

A unit is an additive writer into the residual stream: the embedding, an attention head, or an MLP.
Labels are zero-based: ``S2B1H7`` is head 7 of block 1 of stage 2, ``S2B1M`` that block's MLP, ``E`` the embedding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["embedding", "head", "mlp"]
LABEL = re.compile(r"S(\d+)B(\d+)(?:H(\d+)|(M))")


@dataclass(frozen=True, order=True)
class Unit:
    """One writer. ``stage``, ``block`` are −1 for the embedding; ``head`` is −1 for all but heads."""

    stage: int
    block: int
    kind: Kind
    head: int = -1

    @property
    def label(self) -> str:
        if self.kind == "embedding":
            return "E"
        return f"S{self.stage}B{self.block}" + (f"H{self.head}" if self.kind == "head" else "M")

    @classmethod
    def parse(cls, label: str) -> Unit:
        """The unit of a label; ``Unit.parse(u.label) == u``."""
        if label == "E":
            return EMBEDDING
        match = LABEL.fullmatch(label)
        if match is None:
            raise ValueError(f"{label!r} is not a unit label; expected something like S2B1H7, S2B1M or E")
        stage, block, head, mlp = match.groups()
        return cls(int(stage), int(block), "mlp" if mlp else "head", -1 if mlp else int(head))


EMBEDDING = Unit(-1, -1, "embedding")


@dataclass(frozen=True)
class UnitTable(Sequence[Unit]):
    """All units of an encoder in the order of computation.

    ``heads[s][b]`` is the number of heads of block b of stage s; ``d_head`` and ``d_model`` are per stage.
    Invariant: ``table[table.index(u)] == u``, and the embedding comes first.
    """

    heads: tuple[tuple[int, ...], ...]
    d_head: tuple[int, ...]
    d_model: tuple[int, ...]

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        rows = [EMBEDDING]
        for stage, blocks in enumerate(self.heads):
            for block, count in enumerate(blocks):
                rows += [Unit(stage, block, "head", h) for h in range(count)]
                rows.append(Unit(stage, block, "mlp"))
        return tuple(rows)

    @cached_property
    def _position(self) -> dict[Unit, int]:
        return {unit: i for i, unit in enumerate(self.units)}

    def __len__(self) -> int:
        return len(self.units)

    def __getitem__(self, index):
        return self.units[index]

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.units)

    def index(self, unit: Unit | str, *_: object) -> int:
        """The row of a unit or of its label."""
        unit = Unit.parse(unit) if isinstance(unit, str) else unit
        if unit not in self._position:
            raise KeyError(f"this encoder has no unit {unit.label}")
        return self._position[unit]

    def where(self, kind: Kind | None = None, stage: int | None = None, block: int | None = None) -> tuple[Unit, ...]:
        """Units of one kind, stage or block, in the table's order."""
        return tuple(
            u
            for u in self.units
            if (kind is None or u.kind == kind) and (stage is None or u.stage == stage) and (block is None or u.block == block)
        )

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """(stage, block) pairs in the order of computation."""
        return tuple((s, b) for s, blocks in enumerate(self.heads) for b in range(len(blocks)))
