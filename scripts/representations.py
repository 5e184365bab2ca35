"""Findings of an earlier report, asked again: does the dimension of attention weights fall with depth? Have MLPs more than heads?

    python scripts/representations.py tiny notes --out runs/notes
    python scripts/representations.py openai/whisper-tiny.en esc50 --data-root ~/data/ESC-50 --seconds 5 --each 1 --out runs/whisper

Extracts (resumable), analyses where the tables are not there yet, and prints the answers as Markdown.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd

import residual_audio as ra
from residual_audio.analysis.keys import select
from residual_audio.analysis.statistics import trend
from residual_audio.data import Dataset
from residual_audio.report.tables import to_markdown

GRANULARITY = ["head", "mlp", "block", "stage", "moments", "direct", "attention"]
OF = ("heads", "mlps", "writes", "blocks", "stages", "joint", "attention")
SHOWN = ("pca_99", "participation_ratio", "twonn", "mle")


def each(dataset: Dataset, count: int | None) -> Dataset:
    """The first ``count`` clips of every class in every fold; all of them without a count."""
    if count is None:
        return dataset
    seen: Counter[tuple[str, int]] = Counter()
    kept = []
    for clip in dataset.clips:
        seen[clip.label, clip.fold] += 1
        if seen[clip.label, clip.fold] <= count:
            kept.append(clip)
    return replace(dataset, clips=tuple(kept))


def answers(tables: dict[str, pd.DataFrame]) -> None:
    weights = select(tables, "attention")
    means = weights["attention_means"]
    own = means[means["kind"] == "stage_head"]
    by = "stage" if own["stage"].nunique() > 1 else "depth"
    rows = own if by == "stage" else weights["heads"]
    table = rows.groupby(by)[["pca_99", "participation_ratio"]].agg(["mean", "std"])
    table.columns = [f"{name} {what}" for name, what in table.columns]
    print(f"Attention weights, {'a_l head by head' if by == 'stage' else 'head by head'}, by {by}:\n")
    print(to_markdown(table.reset_index(), decimals=dict.fromkeys(table.columns, 1)))
    found = trend(weights["heads"], ["participation_ratio", "pca_99"])
    for row in found.itertuples():
        print(f"- {row.measure} of heads with depth: Spearman {row.spearman:.2f}, p = {row.p:.3f} over {row.blocks} blocks")
    blocks = tables["blocks"]
    blocks = blocks[(blocks["level"] == "clip") & (blocks["block"] >= 0)]
    wide = blocks.groupby("regime")[list(SHOWN)].mean().reindex(["pre", "post", "joint", "writes", "mlps", "blocks"]).dropna(how="all")
    print("\nMeans over blocks:\n")
    print(to_markdown(wide.reset_index(), decimals=dict.fromkeys(SHOWN, 1)))
    tests = tables["representation_tests"]
    for a in ("post", "writes"):
        for row in tests[(tests["a"].isin([a, "mlps"])) & (tests["b"].isin([a, "mlps"])) & tests["measure"].isin(SHOWN)].itertuples():
            sign = 1 if row.b == "mlps" else -1
            higher = 100 * (row.b_higher if sign > 0 else 1 - row.b_higher)
            told = f"{sign * row.difference:+.1f}, higher in {higher:.0f} % of {row.blocks} blocks, p = {row.p:.4f}"
            print(f"- MLPs against {a}, {row.measure}: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("dataset")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--each", type=int, help="clips of each class in each fold; default: all")
    asked = parser.parse_args()
    encoder = ra.load_encoder(asked.model, seconds=asked.seconds)
    data = each(ra.load_dataset(asked.dataset, root=asked.data_root), asked.each)
    run = ra.extract(encoder, data, asked.out, GRANULARITY)
    if not (asked.out / "tables" / "attention_means.parquet").exists():
        ra.analyze(run, "post", of=OF, draws=0).write(asked.out)
    answers({p.stem: pd.read_parquet(p) for p in (asked.out / "tables").glob("*.parquet")})


if __name__ == "__main__":
    main()
