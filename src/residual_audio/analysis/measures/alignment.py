"""Whether a head writes towards the texts of its clips' classes: a column of `residual-audio describe`, which computes it."""

from __future__ import annotations

from . import MEASURES, TableMeasure

MEASURES.add(
    TableMeasure(
        name="alignment",
        title="alignment with class texts",
        short="alignment",
        help="correlation, over clips and classes, of the head's share of a class's score with being of the class",
        order=70,
        about_zero=True,
        source="text_alignment",
        source_column="correlation",
    )
)
