"""The one index and the one grammar: which units a model has, in which order, under which label, and how to name some of them.

A unit is a place that can be looked at or changed. The additive writers into the residual stream are the input embedding ``E``, the heads
(``S2B1H7``: head 7 of block 1 of stage 2, zero-based) and the MLPs (``S2B1M``). Beside them, the attention write of a block as a whole
(``S2B1``), those of a stage together (``S2``), and the final ``embedding`` can be changed or replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

Kind = Literal["input", "head", "mlp", "block", "stage", "embedding"]
KINDS: tuple[Kind, ...] = ("input", "head", "mlp", "block", "stage", "embedding")
WRITERS: tuple[Kind, ...] = ("input", "head", "mlp")
LABEL = re.compile(r"S(\d+)(?:B(\d+)(?:H(\d+)|(M))?)?")
# The words of a selection and the kinds they name.
WORDS: dict[str, tuple[Kind, ...]] = {
    "heads": ("head",),
    "mlps": ("mlp",),
    "blocks": ("block",),
    "stages": ("stage",),
    "embedding": ("embedding",),
    "all": WRITERS,
}
# A place of every encoder: its last blocks (of HTS-AT, the last stage).
LAST, LAST_BLOCKS = "last", 2


class SelectionError(ValueError):
    """A selection that names what this encoder does not have, or what cannot be used here."""


@dataclass(frozen=True, order=True)
class Unit:
    """One unit. ``stage``, ``block`` and ``head`` are −1 where they mean nothing."""

    stage: int
    block: int
    kind: Kind
    head: int = -1

    @property
    def label(self) -> str:
        if self.kind == "input":
            return "E"
        if self.kind == "embedding":
            return "embedding"
        place = f"S{self.stage}" + (f"B{self.block}" if self.block >= 0 else "")
        return place + {"head": f"H{self.head}", "mlp": "M"}.get(self.kind, "")

    @classmethod
    def parse(cls, label: str) -> Unit:
        """The unit of a label; ``Unit.parse(u.label) == u``."""
        if label == "E":
            return INPUT
        if label == "embedding":
            return EMBEDDING
        match = LABEL.fullmatch(label)
        if match is None:
            raise SelectionError(f"{label!r} is not a unit label; expected something like S2B1H7, S2B1M, S2B1, S2 or E")
        stage, block, head, mlp = match.groups()
        kind: Kind = "stage" if block is None else "mlp" if mlp else "block" if head is None else "head"
        return cls(int(stage), -1 if block is None else int(block), kind, -1 if head is None else int(head))


INPUT = Unit(-1, -1, "input")
EMBEDDING = Unit(-1, -1, "embedding")


@dataclass(frozen=True)
class UnitTable(Sequence[Unit]):
    """The additive writers of an encoder in the order of computation.

    ``heads[s][b]`` is the number of heads of block b of stage s; ``d_head`` and ``d_model`` are per stage.
    Invariant: ``table[table.index(u)] == u``, and the input embedding comes first.
    """

    heads: tuple[tuple[int, ...], ...]
    d_head: tuple[int, ...]
    d_model: tuple[int, ...]

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        rows = [INPUT]
        for stage, blocks in enumerate(self.heads):
            for block, count in enumerate(blocks):
                rows += [Unit(stage, block, "head", h) for h in range(count)]
                rows.append(Unit(stage, block, "mlp"))
        return tuple(rows)

    @cached_property
    def _position(self) -> dict[Unit, int]:
        return {unit: i for i, unit in enumerate(self.units)}

    @cached_property
    def _every(self) -> dict[Unit, int]:
        """All that can be selected, in the order of computation; a block's attention write after its heads, a stage's before its blocks."""
        rows: list[Unit] = [INPUT]
        for stage, blocks in enumerate(self.heads):
            rows.append(Unit(stage, -1, "stage"))
            for block in range(len(blocks)):
                rows += [*self.where("head", stage, block), Unit(stage, block, "block"), Unit(stage, block, "mlp")]
        return {unit: i for i, unit in enumerate([*rows, EMBEDDING])}

    def __len__(self) -> int:
        return len(self.units)

    @overload
    def __getitem__(self, index: int) -> Unit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Unit, ...]: ...
    def __getitem__(self, index: int | slice) -> Unit | tuple[Unit, ...]:
        return self.units[index]

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.units)

    def index(self, unit: Unit | str, *_: object) -> int:
        """The row of a writer or of its label."""
        unit = Unit.parse(unit) if isinstance(unit, str) else unit
        if unit not in self._position:
            raise KeyError(f"this encoder has no unit {unit.label}")
        return self._position[unit]

    def where(self, kind: Kind | None = None, stage: int | None = None, block: int | None = None) -> tuple[Unit, ...]:
        """Writers of one kind, stage or block, in the table's order."""
        return tuple(
            u
            for u in self.units
            if (kind is None or u.kind == kind) and (stage is None or u.stage == stage) and (block is None or u.block == block)
        )

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """(stage, block) pairs in the order of computation."""
        return tuple((s, b) for s, blocks in enumerate(self.heads) for b in range(len(blocks)))

    @property
    def hint(self) -> str:
        """How this encoder's units are named."""
        last = len(self.heads) - 1
        return f"{', '.join(WORDS)}; {LAST}, stages S0–S{last}, blocks such as S{last}B0, labels such as S{last}B0H1, S{last}B0M or E"

    def _named(self, word: str) -> Unit:
        """The unit of a label, of those that this encoder has."""
        try:
            unit = Unit.parse(word)
            self._every[unit]
        except (SelectionError, KeyError) as error:
            raise SelectionError(f"{word!r} names no unit of this encoder; it has {self.hint}") from error
        return unit

    def select(self, text: str, only: Collection[Kind] = KINDS) -> tuple[Unit, ...]:
        """The units that ``text`` names, each once, in the order of computation: the same for every command.

        - kinds: ``heads``, ``mlps``, ``blocks`` and ``stages`` (their attention writes), ``embedding`` (the final one),
          ``all`` (every writer);
        - places: ``S2``, ``S2B1`` limit the kinds named with them; without a kind, their heads are meant: ``"S2 S3 heads mlps"``;
          ``last`` is the place of the last two blocks;
        - labels: ``S2B1H7``, ``S2B1M``, ``E``. Blanks, commas or plus signs stand between words.

        ``only``: the kinds that can be used here; others are refused.
        """
        kinds: list[Kind] = []
        places: list[Unit] = []
        chosen: set[Unit] = set()
        words = [word for word in re.split(r"[\s,+]+", text.strip()) if word]
        for word in words:
            if word.lower() in WORDS or f"{word.lower()}s" in WORDS:
                kinds += WORDS.get(word.lower(), WORDS.get(f"{word.lower()}s", ()))
                continue
            if word.lower() == LAST:
                places += [Unit(stage, block, "block") for stage, block in self.blocks[-LAST_BLOCKS:]]
                continue
            unit = self._named(word)
            if unit.kind in ("stage", "block"):
                places.append(unit)
            else:
                chosen.add(unit)
        if not words:
            raise SelectionError(f"no units are named; say which: {self.hint}")
        if kinds or places:
            wanted = set(kinds or ("head",))
            chosen |= {u for u in self._every if u.kind in wanted and (not places or any(_inside(u, p) for p in places))}
        if refused := sorted({u.kind for u in chosen} - set(only)):
            raise SelectionError(f"{text!r} names units of the kind {', '.join(refused)}; here only {', '.join(only)} can be used")
        if not chosen:
            raise SelectionError(f"{text!r} names no unit of this encoder; it has {self.hint}")
        return tuple(sorted(chosen, key=self._every.__getitem__))


def _inside(unit: Unit, place: Unit) -> bool:
    """Whether a unit lies in a stage or block; the final embedding, which lies in none, is not limited by places."""
    if unit.kind == "embedding":
        return True
    return unit.stage == place.stage and (place.kind == "stage" or unit.block == place.block)
