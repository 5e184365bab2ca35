"""Where a clip's score for a text is written: the map of token-level direct shares over the mel spectrogram."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .drawing import FIGURES, Context, Drawing, Tables, footer
from .style import DIVERGING, DOUBLE, new_figure, plain


def plot(tables: Tables, context: Context) -> Figure:
    cells, mel = tables["ask_map"], tables["mel"].to_numpy(float)
    values = cells.pivot(index="frequency", columns="time", values="value").to_numpy(float)
    first, seconds = cells.iloc[0], float(cells["window"].iloc[0])
    shown = 1000 * values
    # A clip that fits the text moves towards it nearly everywhere: white is the score spread evenly, so that colours show where it is not.
    even = shown.mean()
    limit = np.abs(shown - even).max() or 1.0
    figure, grid = new_figure(DOUBLE, 3.3, 2, 1, sharex=True)
    upper, lower = grid[:, 0]
    extent = (0.0, seconds, 0.0, float(mel.shape[1]))
    low, high = np.quantile(mel, [0.02, 0.995])
    upper.imshow(mel.T, aspect="auto", origin="lower", extent=extent, cmap="magma", vmin=low, vmax=high, interpolation="nearest")
    lower.imshow(mel.T, aspect="auto", origin="lower", extent=extent, cmap="Greys", vmin=low, vmax=high, interpolation="nearest")
    image = lower.imshow(
        shown, aspect="auto", origin="lower", extent=extent, cmap=DIVERGING, vmin=even - limit, vmax=even + limit, interpolation="nearest",
        alpha=np.clip(np.abs(shown - even) / limit, 0.1, 0.9),
    )  # fmt: skip
    upper.set_title(f"(a) {plain(first['clip'])}: mel spectrogram")
    lower.set_title(f"(b) towards “{plain(first['text'])}”: cosine {first['score']:+.3f} = sum over all {values.size} cells")
    for axes in (upper, lower):
        axes.set_ylabel("mel band")
    lower.set_xlabel("seconds")
    figure.colorbar(image, ax=lower, pad=0.01, label="cosine × 1000 per cell")
    footer(
        figure,
        tables,
        context,
        f"{values.shape[0]} × {values.shape[1]} cells, white: their mean, {even:+.2f}",
        "tokens of later stages are spread evenly over the cells they cover",
        "a token lies where units write, which is not always where they listen",
    )
    return figure


FIGURE = FIGURES.add(Drawing("token_map", {"ask_map": ("value",), "mel": ()}, plot, order=44, default=False))
