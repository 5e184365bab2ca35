"""Publication figures, one a file, drawn from result tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import (
    accuracy_vs_parameters,
    block_ablation,
    class_activation_heatmap,
    entropy_vs_dimension,
    few_shot_curve,
    fisher_discriminability,
    fisher_vs_ablation,
    head_clustering,
    head_similarity_matrix,
    htsat_block_metrics,
    panel_g,
    panel_h,
    panels,
    spectral_fingerprinting,
    stage_subsets,
)
from .drawing import Context, Drawing, MissingTable, Tables
from .style import save

__all__ = ["COMPARISONS", "FIGURES", "Context", "Drawing", "MissingTable", "draw"]

# The figures of an analysis, under the names that the papers gave them.
FIGURES: dict[str, Drawing] = {
    drawing.name: drawing
    for drawing in (
        *panels.FIGURES,
        panel_g.FIGURE,
        panel_h.FIGURE,
        htsat_block_metrics.FIGURE,
        spectral_fingerprinting.FIGURE,
        entropy_vs_dimension.FIGURE,
        head_similarity_matrix.FIGURE,
        head_clustering.FIGURE,
        class_activation_heatmap.FIGURE,
        fisher_discriminability.FIGURE,
        fisher_vs_ablation.FIGURE,
        block_ablation.FIGURE,
    )
}
# The figures of comparisons: the methods, their growth with the clips, the subsets that were searched.
COMPARISONS: dict[str, Drawing] = {
    drawing.name: drawing for drawing in (accuracy_vs_parameters.FIGURE, few_shot_curve.FIGURE, stage_subsets.FIGURE)
}


def draw(tables: Tables, folder: Path, prefix: str = "", caption: Context | Mapping | None = None) -> list[Path]:
    """Write every figure whose tables are there as ``folder/<prefix><name>.pdf`` and ``.png``; returns the paths.

    ``caption`` holds the facts of the footer: model, dataset, clips, regime ("pre", "post" or any text), k.
    Table names are without the regime's prefix. Tables that no figure needs are ignored.
    """
    context = Context.of(caption)
    return [
        path
        for name, drawing in (FIGURES | COMPARISONS).items()
        if not drawing.lack(tables)
        for path in save(drawing(tables, context), folder, f"{prefix}{name}")
    ]
