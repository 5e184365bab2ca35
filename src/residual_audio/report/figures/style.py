"""One look for all figures: stage colours, fonts, column widths, saving. No pyplot, no global state left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, SupportsInt

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ...writing import drafted, own_folder

SINGLE, DOUBLE = 3.4, 7.0  # inches: one column and two columns of a paper
DPI = 200
SMALL = 6.0  # points, the smallest letters in any figure
# Okabe and Ito's colour-blind safe palette, without yellow (too faint on white) and black (used for means and lines).
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
GREY, LIGHT = "#6E6E6E", "#E4E4E4"  # helper lines; cells without a value
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same figure
    "font.size": 7.0,
    "axes.titlesize": 7.0,
    "axes.titlelocation": "left",
    "axes.labelsize": 7.0,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handletextpad": 0.2,
    "legend.columnspacing": 1.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3 fonts
}


def stage_colour(stage: SupportsInt) -> tuple[float, float, float]:
    """The colour of a stage in every figure; each further round through the palette is darker. Grey for what is of no stage (−1)."""
    if int(stage) < 0:
        return to_rgb(GREY)
    turn, place = divmod(int(stage), len(PALETTE))
    red, green, blue = (channel * 0.6**turn for channel in to_rgb(PALETTE[place]))
    return red, green, blue


def stage_colours(stages: Iterable[SupportsInt]) -> list[tuple[float, float, float]]:
    return [stage_colour(stage) for stage in stages]


def plain(text: object, longest: int = 60) -> str:
    """Text of others (class and model names) as matplotlib shows it letter by letter: one line, no mathematics, not endless."""
    line = " ".join(str(text).split())
    line = line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
    return line.replace("$", r"\$")


@contextmanager
def applied() -> Iterator[None]:
    """Our look on top of matplotlib's defaults, whatever the user's matplotlibrc says; gone afterwards."""
    with matplotlib.style.context(["default", RC]):
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure in inches and its axes, ``[rows, columns]`` always."""
    engine = ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.06, wspace=0.03, hspace=0.03)
    figure = Figure(figsize=(width, height), dpi=DPI, layout=engine)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """``folder/name.pdf`` and ``folder/name.png``; the same figure gives the same bytes (no date inside)."""
    paths = [own_folder(folder) / f"{name}.pdf", folder / f"{name}.png"]
    with applied():
        # Straight to the canvas: savefig would draw everything once more to find a layout that is already there.
        with drafted(paths[0]) as draft:
            FigureCanvasPdf(figure).print_pdf(draft, metadata={"CreationDate": None})
        figure.dpi = DPI  # a PDF canvas leaves its 72
        with drafted(paths[1]) as draft:
            FigureCanvasAgg(figure).print_png(draft)
    return paths
