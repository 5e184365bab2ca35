"""``docs/results/real-sounds.md``: the embedded model on four sets of real recordings, beside the published tables for Microsoft's CLAP.

    python scripts/real_sounds_page.py --data ../shared/data --runs runs/real --out docs/results/real-sounds.md

Runs the commands that are on the page (each is resumable, finished ones cost little) and writes what their tables say.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from results_page import fisher_part, stored
from scipy.stats import spearmanr

from residual_audio.analysis import measure_title
from residual_audio.report.tables import to_markdown
from residual_audio.reproduction.published import published_figures

# Folder of the runs → title, and the data as options of a command; {root} is where the recordings lie.
SETS = {
    "nsynth": ("NSynth", "table:{root}/nsynth/clips.csv"),
    "philharmonia": ("Philharmonia", "table:{root}/philharmonia/clips.csv"),
    "nonverbal": ("human sounds", "table:{root}/nonverbal/clips.csv"),
    "esc50": ("ESC-50", "esc50 --data-root {root}/esc50"),
}
STEPS = (
    "extract tiny {data} --granularity head,moments,direct --out {run}",
    "ablate tiny {data} --units blocks --clips 720 --out {run}",
    "ablate tiny {data} --units heads --clips 160 --out {run}",
    "analyze {run}",
)
SHOWN = ("pca_99", "participation_ratio", "twonn", "twonn_one", "evr_1", "l_n", "l_n_one", "entropy")
BY_BLOCK = ("pca_99", "twonn", "l_n", "evr_1", "fisher", "selectivity")
SHOWN_SET = "esc50"
FIGURES = ("htsat_block_metrics", "block_ablation", "entropy_vs_dimension")


def commands(name: str, root: str, runs: str) -> list[str]:
    data = SETS[name][1].format(root=root)
    return [step.format(data=data, run=f"{runs}/{name}") for step in STEPS]


def make(root: Path, runs: Path) -> None:
    for name in SETS:
        for command in commands(name, str(root), str(runs)):
            print(f"$ residual-audio {command}", flush=True)
            subprocess.run(
                [str(Path(sys.executable).parent / "residual-audio"), *shlex.split(command)], check=True, stdout=subprocess.DEVNULL
            )


def by_stage(runs: Path, measure: str) -> list[list[str]]:
    """One row per set: mean ± std over heads, stage by stage; the published ones first."""
    rows = []
    published = published_figures()
    # Where two tables disagree, the first is the one that the published per-head table supports.
    known = published[(published.measure == measure) & (published.level == "stage") & published.table.isin(["1", "4", "5"])]
    for dataset, part in known.sort_values("table").drop_duplicates(["dataset", "index"]).groupby("dataset"):
        part = part.sort_values("index")
        if len(part) == 4:
            cells = [f"{r.published:.3g}" + (f" ± {r.published_std:.2g}" if pd.notna(r.published_std) else "") for r in part.itertuples()]
            rows.append([f"Microsoft CLAP, {dataset} (published)", *cells])
    for name, (title, _) in SETS.items():
        table = stored(runs / name, "stages")
        if measure in table:
            rows.append(
                [f"tiny, {title}", *(f"{getattr(r, measure):.3g} ± {getattr(r, measure + '_std'):.2g}" for r in table.itertuples())]
            )
    return rows


def by_block(runs: Path, measure: str) -> list[list[str]]:
    """One row per set: the mean over a block's heads, block by block; the published ones first."""
    rows, published = [], published_figures()
    known = published[(published.measure == measure) & (published.level == "block") & published.table.isin(["fig2", "3"])]
    for dataset, part in known.groupby("dataset"):
        values = part.assign(place=part["index"].astype(int)).sort_values("place").published
        rows.append([f"Microsoft CLAP, {dataset} (published)", *(f"{v:.3g}" for v in values)])
    for name, (title, _) in SETS.items():
        blocks = stored(runs / name, "blocks")
        means = blocks[measure] if measure in blocks else stored(runs / name, "heads").groupby("depth")[measure].mean()
        rows.append([f"tiny, {title}", *(f"{v:.3g}" for v in means)])
    return rows


def over_blocks(heads: pd.DataFrame, x: str, y: str) -> str:
    """The 95 % interval of a rank correlation over heads, by resampling whole blocks."""
    blocks = [part[[x, y]].dropna().to_numpy() for _, part in heads.groupby("depth")]
    rng = np.random.default_rng(0)
    drawn = [np.concatenate([blocks[i] for i in rng.integers(len(blocks), size=len(blocks))]) for _ in range(1000)]
    low, high = np.nanquantile([spearmanr(d[:, 0], d[:, 1]).statistic for d in drawn], [0.025, 0.975])
    return f"[{low:+.2f}, {high:+.2f}]"


def trend_of(runs: Path, name: str, measure: str) -> str:
    """The rank correlation with depth, its interval by resampling whole blocks, and p by permuting them."""
    row = stored(runs / name, "trend").set_index("measure").loc[measure]
    return f"{row.spearman:+.2f} {over_blocks(stored(runs / name, 'heads'), 'depth', measure)} (p = {row.p:.2g})"


def dimension_part(runs: Path) -> str:
    text = "\n## Dimension and spectra by stage\n\nMean ± standard deviation over the heads of a stage.\n"
    for measure in SHOWN:
        rows = by_stage(runs, measure)
        table = pd.DataFrame(rows, columns=[measure_title(measure), "S0", "S1", "S2", "S3"])
        text += "\n" + to_markdown(table) + "\n"
    return text


def block_part(runs: Path) -> str:
    text = "\n## By block\n\nMeans over the heads of a block; L/N is the ratio of the means, as published.\n"
    columns = [f"S{s}B{b}" for s, b in stored(runs / SHOWN_SET, "blocks")[["stage", "block"]].itertuples(index=False)]
    for measure in BY_BLOCK:
        text += "\n" + to_markdown(pd.DataFrame(by_block(runs, measure), columns=[measure_title(measure), *columns])) + "\n"
    return text


def specialisation_part(runs: Path) -> str:
    """How alike the spectra of heads are inside stages and between them, and which classes heads prefer."""
    published = published_figures()
    theirs = published[published.table == "fig5"].set_index("measure").published
    rows = [["Microsoft CLAP, ESC-50 (published)", *(f"{theirs[f'similarity_{w}']:.3f}" for w in ("within", "between", "ratio")), "", ""]]
    for name, (title, _) in SETS.items():
        alike = stored(runs / name, "similarity_summary").set_index("kind").loc["spectra"]
        heads = stored(runs / name, "heads")
        preferred = heads.preferred.value_counts()
        most = f"{preferred.index[0]} ({preferred.iloc[0]} of {len(heads)})"
        rows.append([f"tiny, {title}", *(f"{alike[w]:.3f}" for w in ("within", "between", "ratio")), str(len(preferred)), most])
    columns = ["spectral cosine", "within stages", "between stages", "ratio", "classes that some head prefers", "most often preferred"]
    return "\n## Specialisation\n\n" + to_markdown(pd.DataFrame(rows, columns=columns)) + "\n"


def findings_part(runs: Path) -> str:
    """Trends with depth, and what ablation says of the ends."""
    rows = []
    for measure, claim in (
        ("pca_99", "dimension grows with depth (PCA99)"),
        ("participation_ratio", "dimension grows with depth (PR)"),
        ("twonn_one", "nonlinear dimension grows with depth (TwoNN, one clip per group)"),
        ("evr_1", "EVR₁ falls with depth"),
        ("l_n", "L/N rises with depth"),
        ("l_n_one", "L/N rises with depth (one clip per group)"),
    ):
        rows.append([claim, *(trend_of(runs, name, measure) for name in SETS)])
    rows.append(["entropy goes with dimension (PCA99), over heads", *(entropy_dimension(runs / name) for name in SETS)])
    rows.append(["the first block matters most: largest drop in accuracy", *(largest(runs / name) for name in SETS)])
    rows.append(["… S0B0's own drop in accuracy, points", *(drop(runs / name, "S0B0") for name in SETS)])
    for label in ("S3B0", "S3B1"):
        rows.append([f"the last stage is neutral: {label}'s drop in accuracy, points", *(drop(runs / name, label) for name in SETS)])
    text = "\n## The reports' findings\n\n"
    text += "Correlations are of ranks over heads; intervals (95 %) resample whole blocks, p permutes them.\n\n"
    return text + to_markdown(pd.DataFrame(rows, columns=["finding", *(t for t, _ in SETS.values())])) + "\n"


def entropy_dimension(run: Path) -> str:
    heads = stored(run, "heads")
    return f"{spearmanr(heads.entropy, heads.pca_99).statistic:+.2f} {over_blocks(heads, 'entropy', 'pca_99')}"


def drop(run: Path, label: str) -> str:
    row = pd.read_parquet(run / "tables" / "ablation_block.parquet").set_index("label").loc[label]
    return f"{100 * row.accuracy_drop:+.1f} [{100 * row.accuracy_all_low:+.1f}, {100 * row.accuracy_all_high:+.1f}]"


def largest(run: Path) -> str:
    table = pd.read_parquet(run / "tables" / "ablation_block.parquet")
    label = table.sort_values("accuracy_drop").label.iloc[-1]
    return f"{label}: {drop(run, label)}"


def ablation_part(runs: Path) -> str:
    text = "\n## Ablation\n\nEach unit replaced by its mean over the data; drops in accuracy in points. "
    text += "Intervals: 95 %, simultaneous, over groups.\n"
    for name, (title, _) in SETS.items():
        blocks = pd.read_parquet(runs / name / "tables" / "ablation_block.parquet")
        record = json.loads((runs / name / "ablation_block.json").read_text())
        heads = pd.read_parquet(runs / name / "tables" / "ablation_head.parquet").sort_values("margin_drop").iloc[::-1]
        sure = int((heads.margin_all_low > 0).sum())
        text += f"\n**{title}**, accuracy of the whole model {100 * record['accuracy']:.1f} % on {blocks.clips.iloc[0]} clips:\n\n"
        text += to_markdown(pd.DataFrame([[drop(runs / name, label) for label in blocks.label]], columns=list(blocks.label))) + "\n"
        best = ", ".join(heads.label.head(5))
        above = f"{sure} {'has' if sure == 1 else 'have'} a drop in margin above zero at once with all others"
        text += f"\nOf {len(heads)} heads ({heads.clips.iloc[0]} clips), {above}; the largest five: {best}.\n"
        text += fisher_part(runs / name)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--said", type=Path, help="Markdown to put before the tables: what they show")
    parser.add_argument("--machine", default="2 cores of an AMD EPYC, CPU only")
    args = parser.parse_args()
    make(args.data, args.runs)
    lines = [
        "# The embedded model on real recordings\n",
        f"Made on {args.machine} by `python scripts/real_sounds_page.py`, which runs\n",
        "```",
    ]
    lines += [f"residual-audio {command}" for name in SETS for command in commands(name, "recordings", "runs/real")]
    lines += ["```\n", "Measures and their definitions: [analysis](../analysis.md); intervals and p: [statistics](../statistics.md).\n"]
    text = "\n".join(lines)
    if args.said:
        text += "\n" + args.said.read_text().strip() + "\n"
    log = json.loads((Path(__file__).parents[1] / "src/residual_audio/models/tiny/training.json").read_text())
    heard = [[r["data"], f"{r['clips']:,}", f"{100 / r['classes']:.1f}", r["top1"]] for r in log.get("real_recordings", [])]
    if heard:
        text += "\n## Zero-shot\n\nBy `python scripts/hear_real_sounds.py`, prompts `this is the sound of …`.\n\n"
        text += to_markdown(pd.DataFrame(heard, columns=["data", "clips", "chance %", "top-1 % [95 %, over groups]"])) + "\n"
    text += (
        findings_part(args.runs)
        + dimension_part(args.runs)
        + block_part(args.runs)
        + specialisation_part(args.runs)
        + ablation_part(args.runs)
    )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        target = args.out.parent / f"{args.out.stem}-{figure}.png"
        shutil.copyfile(args.runs / SHOWN_SET / "figures" / f"{figure}.png", target)
        text += f"\n![{figure}, {SETS[SHOWN_SET][0]}]({target.name})\n"
    args.out.write_text(text)


if __name__ == "__main__":
    main()
