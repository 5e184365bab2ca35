"""Everything that is measured of a head, one file per measure or close family; what reads them loops over :data:`MEASURES`.

A file declares what the measure is called and holds the function that computes it:

| class | computed of | gives |
|---|---|---|
| :class:`SpectrumMeasure` | the variances along the principal axes | a value for every spectrum, and by a bootstrap over groups its error |
| :class:`NeighbourMeasure` | distances to the nearest neighbours | a value and its standard error |
| :class:`ClassMeasure` | points and their classes | a value for every head |
| :class:`AttentionMeasure` | what was read off the attention weights | a value for every head |
| :class:`DerivedMeasure` | other columns of the same table | a column, and its error |
| :class:`TableMeasure` | nothing here: it stands in a table of another command | |
| :class:`OneMeasure` | one clip per recording; made by itself for every measure that siblings change | the mean over several draws |

Adding a file adds the measure to the tables of `analyze`, its screen and its help, to figures, paper tables and the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import pandas as pd
from jaxtyping import Float, Int
from torch import Tensor

from ...registry import Registry
from ..errors import AnalysisError
from ..neighbours import Neighbours
from ..specialisation import class_activation

Spectrum = Float[Tensor, "*unit axis"]
Values = Float[Tensor, "*unit"]
Source = Literal["spectrum", "neighbours", "classes", "attention", "columns", "tables", "draws"]
ONE, CONTROL = "one", "control"  # ends of columns: one clip per recording, and as many clips whatever their recordings
Shown = Literal["everywhere", "figures", "tables"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """``name``: its column in tables. ``title``: in figures and on the page; ``short``: at the head of a narrow column; ``unit``: on axes.

    ``counts``: it counts dimensions, so it has a ceiling and a column ``NAME_rel`` relative to it. ``about_zero``: colours run both ways
    from zero. ``shown``: ``everywhere``, not in summaries (``figures``), or only in ``tables``, since it repeats another one.
    ``tested``: averaged over blocks and stages, and tested between them. ``paper``: has its place in the papers' tables.
    ``siblings``: several clips of one recording change it, so it is also measured with one clip per recording (:class:`OneMeasure`).
    """

    name: str
    title: str
    short: str
    help: str
    unit: str = ""
    order: int = 50
    counts: bool = False
    about_zero: bool = False
    shown: Shown = "everywhere"
    tested: bool = True
    paper: bool = True
    siblings: bool = False
    of: ClassVar[Source]

    @property
    def axis(self) -> str:
        """The title of an axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def table(self) -> str:
        """The table that has it, one row per head."""
        return "heads"

    @property
    def column(self) -> str:
        """Its column there."""
        return self.name


@dataclass(frozen=True, kw_only=True)
class SpectrumMeasure(Measure):
    """Of ``variance [..., axis]``, falling; NaN where all of it is zero (constant data)."""

    compute: Callable[[Spectrum], Values]
    of: ClassVar[Source] = "spectrum"


@dataclass(frozen=True, kw_only=True)
class NeighbourMeasure(Measure):
    """Of the distances to the nearest neighbours of every point: (value, standard error)."""

    compute: Callable[[Neighbours], tuple[float, float]]
    siblings: bool = True
    of: ClassVar[Source] = "neighbours"


@dataclass(frozen=True)
class Labelled:
    """Heads' points and the classes of their clips; ``rest``: the length of what the points leave out (see ``class_activation``)."""

    points: Float[Tensor, "clip head d"]
    rest: Float[Tensor, " head"]
    targets: Int[Tensor, " clip"]
    classes: int

    @cached_property
    def activation(self) -> Float[Tensor, "head class"]:
        return class_activation(self.points, self.targets, self.classes, self.rest)


@dataclass(frozen=True, kw_only=True)
class ClassMeasure(Measure):
    """Of points and classes; there only where a run has two classes at least."""

    compute: Callable[[Labelled], Float[Tensor, " head"]]
    of: ClassVar[Source] = "classes"


@dataclass(frozen=True, kw_only=True)
class AttentionMeasure(Measure):
    """The mean over clips of a column of ``attention.reach``; there only where attention weights are looked at."""

    column_of_reach: int
    of: ClassVar[Source] = "attention"


@dataclass(frozen=True, kw_only=True)
class DerivedMeasure(Measure):
    """Of other columns, of heads or of means over heads: of a block, it is the measure of the means and not the mean of the measures."""

    compute: Callable[[pd.DataFrame], pd.Series]
    error: Callable[[pd.DataFrame], pd.Series]
    siblings: bool = True
    of: ClassVar[Source] = "columns"


@dataclass(frozen=True, kw_only=True)
class TableMeasure(Measure):
    """A column of a table that another command writes."""

    source: str
    source_column: str = ""
    tested: bool = False
    paper: bool = False
    of: ClassVar[Source] = "tables"

    @property
    def table(self) -> str:
        return self.source

    @property
    def column(self) -> str:
        return self.source_column or self.name


@dataclass(frozen=True, kw_only=True)
class OneMeasure(Measure):
    """Another measure with one clip per recording, mean over draws; there only where a run has recordings with several clips."""

    base: Measure
    paper: bool = False
    of: ClassVar[Source] = "draws"

    @classmethod
    def version(cls, base: Measure) -> OneMeasure:
        return cls(
            name=f"{base.name}_{ONE}",
            title=f"{base.title}, one clip per recording",
            short=f"{base.short} ¹",
            help=f"{base.short} with one clip per recording (group), mean over draws; there where a recording has several clips",
            unit=base.unit,
            order=base.order,
            shown=base.shown,
            tested=base.tested,
            base=base,
        )


class Measures(Registry[Measure]):
    """A measure that siblings change is registered with its version of one clip per recording."""

    def add(self, thing: Measure) -> Measure:
        if thing.siblings:
            super().add(OneMeasure.version(thing))
        return super().add(thing)


MEASURES = Measures("measure", __name__, AnalysisError)


def spectrum_measures() -> list[SpectrumMeasure]:
    return [m for m in MEASURES.values() if isinstance(m, SpectrumMeasure)]


def neighbour_measures() -> list[NeighbourMeasure]:
    return [m for m in MEASURES.values() if isinstance(m, NeighbourMeasure)]


def class_measures() -> list[ClassMeasure]:
    return [m for m in MEASURES.values() if isinstance(m, ClassMeasure)]


def attention_measures() -> list[AttentionMeasure]:
    return [m for m in MEASURES.values() if isinstance(m, AttentionMeasure)]


def derived_measures() -> list[DerivedMeasure]:
    return [m for m in MEASURES.values() if isinstance(m, DerivedMeasure)]


def one_measures() -> list[OneMeasure]:
    return [m for m in MEASURES.values() if isinstance(m, OneMeasure)]


def dimension_measures() -> list[Measure]:
    """Those that need no classes: they have a standard error, and a spread over heads."""
    return [*spectrum_measures(), *neighbour_measures(), *derived_measures()]


def measure_title(name: str) -> str:
    """What a measure is called; a name that is none of them stands for itself."""
    return MEASURES[name].title if name in MEASURES else name
