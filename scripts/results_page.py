"""A page of results from an analysed run: the commands that made it, and its tables as they are in the run's files.

python scripts/results_page.py runs/whisper-esc50 --out docs/results/whisper-esc50.md --figures htsat_block_metrics head_similarity_matrix
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pandas as pd
from scipy.stats import spearmanr

from residual_audio.analysis import measure_title, select
from residual_audio.analysis.permutation import partial_correlation
from residual_audio.extraction import Run
from residual_audio.report.tables import to_markdown


def stored(folder: Path, name: str) -> pd.DataFrame:
    """A table of the analysis: what it says about head outputs of clips."""
    return select({name: pd.read_parquet(folder / "tables" / f"{name}.parquet")})[name]


def relative(command: str) -> str:
    """A command, or a dataset's name, without the writer's own folders; a file keeps the folder that it is in."""
    return " ".join(
        "/".join(Path(word).parts[-2 if Path(word).suffix == ".csv" else -1 :])
        if word.removeprefix("table:").startswith(("../", "/"))
        else word
        for word in command.split()
    )


def commands(folder: Path) -> list[str]:
    records = [json.loads(p.read_text()) for p in [*sorted(folder.glob("ablation_*.json")), folder / "analysis.json"] if p.exists()]
    return [relative(r["command"]) for r in records]


def ablation_part(folder: Path, unit: str, top: int = 12) -> str:
    path = folder / "tables" / f"ablation_{unit}.parquet"
    if not path.exists():
        return ""
    record = json.loads((folder / f"ablation_{unit}.json").read_text())
    table = pd.read_parquet(path).sort_values("margin_drop", ascending=False)
    rho, p = record["first_order_spearman"]
    shown = pd.DataFrame(
        {
            "unit": table.label,
            "accuracy drop, points [95 %]": [
                f"{100 * r.accuracy_drop:+.1f} [{100 * r.accuracy_low:+.1f}, {100 * r.accuracy_high:+.1f}]" for r in table.itertuples()
            ],
            "margin drop [95 %]": [f"{r.margin_drop:+.4f} [{r.margin_low:+.4f}, {r.margin_high:+.4f}]" for r in table.itertuples()],
            "first order": [f"{v:+.4f}" for v in table.first_order],
        }
    ).head(top)
    settings = record["settings"]
    classifier = settings.get("classifier") or settings["metric"]  # its name in older records
    text = (
        f"\n## Ablation: {unit}, {settings['how']}, {classifier}\n\n"
        f"{record['dataset']['clips']} clips, accuracy of the whole model {100 * record['accuracy']:.1f} %. "
        f"First-order estimate against the true drop in margin over all {len(table)}: Spearman ρ = {rho:.3f} (p = {p:.1e}).\n\n"
    )
    return text + to_markdown(shown) + "\n"


def fisher_part(folder: Path) -> str:
    path = folder / "tables" / "ablation_head.parquet"
    if not path.exists():
        return ""
    both = stored(folder, "heads").merge(pd.read_parquet(path)[["label", "margin_drop"]], on="label")
    rank = spearmanr(both.fisher, both.margin_drop).statistic
    within = partial_correlation(both.fisher, both.margin_drop, both.depth)
    numbers = f"Spearman ρ = {rank:.2f}; within blocks {within.value:.2f} (p = {within.p:.2g})"
    return f"\n{measure_title('fisher')} against the {measure_title('margin_drop')} over {len(both)} heads: {numbers}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--machine", default="2 cores of an AMD EPYC (AVX2), CPU only")
    parser.add_argument("--extracted-by", default="", help="the `extract` command, which a run does not record")
    parser.add_argument("--figures", nargs="*", default=[])
    parser.add_argument("--note", type=Path, help="Markdown that stands below the title, such as what changed since an earlier page")
    args = parser.parse_args()
    run = Run.open(args.run)
    model = Path(run.info["model"]["name"]).name
    note = [args.note.read_text().strip() + "\n"] if args.note else []
    lines = [f"# {model} on {run.info['dataset']['name']}\n", *note, f"{run.info['clips']['ok']} clips. Made on {args.machine} by\n", "```"]
    lines += [c for c in [args.extracted_by, *commands(args.run)] if c]
    lines += [
        "```\n",
        "and written here by `python scripts/results_page.py`. Measures and their definitions: [analysis](../analysis.md).\n",
    ]
    for path in sorted((args.run / "tables" / "paper").glob("table_*.md")) + sorted(
        (args.run / "tables" / "paper").glob("postproj_table_*.md")
    ):
        title = "## Post-projection\n" if path.name == "postproj_table_1.md" else ""
        lines.append(title + path.read_text().strip().replace(run.info["model"]["name"], model) + "\n")
    trend = stored(args.run, "trend")
    lines += ["## Trend with depth\n", to_markdown(trend[["measure", "spearman", "p", "n"]]) + "\n"]
    text = "\n".join(lines) + "".join(ablation_part(args.run, unit) for unit in ("stage", "block", "mlp", "head")) + fisher_part(args.run)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for name in args.figures:
        target = args.out.parent / f"{args.out.stem}-{name}.png"
        shutil.copyfile(args.run / "figures" / f"{name}.png", target)
        text += f"\n![{name}]({target.name})\n"
    args.out.write_text(text)


if __name__ == "__main__":
    main()
