"""A page of comparisons: the commands that made them and their tables, as they are in the files of `residual-audio compare`.

python scripts/comparison_page.py runs/compare-timbre runs/compare-voice --title "tiny, two tasks" --out docs/results/adaptation-tiny.md
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pandas as pd
from results_page import relative

from residual_audio.evaluation.paired import against_first
from residual_audio.report.tables import to_markdown


def summary(folder: Path) -> pd.DataFrame:
    """Methods with what they train, reach and cost."""
    rows = pd.read_parquet(folder / "tables" / "comparison_summary.parquet")
    paired = against_first(pd.read_parquet(folder / "tables" / "comparison_paired.parquet"))
    first = rows.method.iloc[0]
    shown = pd.DataFrame(
        {
            "method": rows.method,
            "trained": [f"{n:,}" for n in rows.trained],
            "accuracy %, mean ± std over folds": [f"{100 * r.accuracy:.1f} ± {100 * r.std:.1f}" for r in rows.itertuples()],
            "95 % over groups": [f"[{100 * r.low:.1f}, {100 * r.high:.1f}]" for r in rows.itertuples()],
            f"points over {first} [95 %]": [
                ""
                if m not in paired.index
                else f"{100 * paired.difference[m]:+.1f} [{100 * paired.low[m]:+.1f}, {100 * paired.high[m]:+.1f}]"
                for m in rows.method
            ],
            "corrected p, Holm": ["" if m not in paired.index else f"{paired.p_holm[m]:.3f}" for m in rows.method],
            "s / fold": [f"{v:.0f}" for v in rows.seconds],
            "peak MB": [f"{v:.0f}" for v in rows.peak_mb],
        }
    )
    if "other" in rows:
        shown["zero-shot elsewhere %"] = [f"{100 * v:.1f}" if v == v else "–" for v in rows.other]
    return shown


def selection(settings: dict) -> str:
    """The units that the compared methods adapt."""
    chosen = [options["units"] for options in settings["methods"].values() if "units" in options]
    return ", ".join(dict.fromkeys(chosen)) or "no units"


def part(folder: Path, page: Path, language: str = "") -> str:
    """One comparison: its command, its table and its figure."""
    record = json.loads((folder / "comparison.json").read_text())
    settings, data = record["settings"], record["dataset"]
    cells = pd.read_parquet(folder / "tables" / "comparison_cells.parquet")
    other = f"; zero-shot elsewhere: on {settings['other']}" if settings.get("other") else ""
    text = f"\n## {data['name']}, {selection(settings)}\n\n```{language}\n{relative(record['command'])}\n```\n\n"
    text += f"{data['clips']} clips, {data['classes']} classes, {cells.fold.nunique()} folds ({data['folds']}){other}. "
    text += f"All cells together took {cells.seconds.sum() / 60:.0f} minutes.\n\n"
    text += to_markdown(summary(folder)) + "\n"
    figure = folder / "figures" / "accuracy_vs_parameters.png"
    if figure.exists():
        target = page.parent / f"{page.stem}-{folder.name}.png"
        shutil.copyfile(figure, target)
        text += f"\n![accuracy against trained numbers]({target.name})\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("comparisons", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", required=True)
    parser.add_argument("--said", type=Path, help="Markdown to put before the tables: what they show.")
    parser.add_argument("--commit", help="The commit whose code and model made the comparisons, where it is not the present one.")
    parser.add_argument("--machine", default="2 cores of an AMD EPYC (AVX2), CPU only")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    text = f"# {args.title}\n\nMade on {args.machine} by the commands below, and written here by `python scripts/comparison_page.py`.\n"
    text += "Methods and parts: [adaptation](../adaptation.md). "
    text += "Seconds and memory were measured on a machine that was busy with other work too.\n"
    if args.commit:
        text += f"\nThe commands are those of commit {args.commit}: its methods, its options and its `tiny` are not the present ones.\n"
    if args.said:
        text += "\n" + args.said.read_text().strip() + "\n"
    args.out.write_text(text + "".join(part(folder, args.out, "text" if args.commit else "") for folder in args.comparisons))


if __name__ == "__main__":
    main()
