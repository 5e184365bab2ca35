"""How far an adapter has turned a head: read off its gains."""

from __future__ import annotations

from . import MEASURES, TableMeasure

MEASURES.add(
    TableMeasure(
        name="gain",
        title="gain change",
        short="gain",
        help="mean distance of the learned gains from one; empty: no gains here",
        order=80,
        source="adapter",
    )
)
