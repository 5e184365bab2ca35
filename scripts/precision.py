"""What bf16 costs: the same clips in float32 and in bf16, side by side. Writes docs/results/precision.md.

    python scripts/precision.py --whisper openai/whisper-tiny.en --esc50 ~/data/ESC-50 --limit 250 --out runs/precision \\
        --page docs/results/precision.md

Extracts both precisions of each model (resumable) and compares them: heads, embeddings, whether shares still sum to the whole, measures of
dimension, and accuracy with intervals over groups, clip by clip. Needs a machine that multiplies bf16.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor

import residual_audio as ra
from residual_audio.analysis.dimension import estimate_dimensions
from residual_audio.data import Dataset, load_dataset
from residual_audio.evaluation import choose_classifier
from residual_audio.evaluation.directions import class_directions
from residual_audio.evaluation.folds import with_folds
from residual_audio.evaluation.metrics import outcome
from residual_audio.evaluation.significance import Interval, mean_interval
from residual_audio.extraction import Run
from residual_audio.models import Encoder
from residual_audio.models.precision import bf16_ratio, cpu_flags, cpu_name
from residual_audio.writing import drafted

PRECISIONS = ("float32", "bf16")
GRANULARITY = ("head", "mlp", "moments", "direct")
MEASURES = ("pca_99", "participation_ratio", "effective_rank", "twonn", "mle")


def error(x: Tensor, reference: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Relative: the norm of the difference over that of the reference."""
    return (x - reference).norm(dim=dims) / reference.norm(dim=dims)


def heads_part(runs: dict[str, Run]) -> list[str]:
    """Relative error of each head's pooled output over all clips, as it is and about its mean, by stage."""
    exact, rounded = (runs[p].heads[:].double() for p in PRECISIONS)
    plain = error(rounded, exact, (0, 2))
    varying = error(rounded - rounded.mean(0), exact - exact.mean(0), (0, 2))
    stages = torch.tensor([u.stage for u in runs["bf16"].units.where("head")])
    lines = ["| stage | heads | error, median | worst head | error about the mean, median | worst head |", "|---|---|---|---|---|---|"]
    for stage in stages.unique().tolist():
        own = stages == stage
        numbers = [plain[own].median(), plain[own].max(), varying[own].median(), varying[own].max()]
        lines.append(f"| {stage} | {int(own.sum())} | " + " | ".join(f"{100 * float(n):.2f} %" for n in numbers) + " |")
    return lines


def whole_part(runs: dict[str, Run]) -> list[str]:
    """How far the shares of all units are from the pooled output that they sum to."""
    lines = ["| | mean over clips | worst clip |", "|---|---|---|"]
    for name, run in runs.items():
        shares, constant = run.shares()
        off = error((shares.double().sum(1) + constant), run.array("embedding.pooled")[:].double(), (1,))
        lines.append(f"| {name} | {off.mean():.1e} | {off.max():.1e} |")
    return lines


def dimension_part(runs: dict[str, Run]) -> list[str]:
    """Measures of every head's pooled output, float32 against bf16, and whether heads are ranked alike."""
    tables = {name: estimate_dimensions(run.heads[:].double()).table for name, run in runs.items()}
    lines = ["| measure | mean, float32 | mean, bf16 | change, median | worst head | rank correlation |", "|---|---|---|---|---|---|"]
    for measure in MEASURES:
        exact, rounded = (tables[p][measure].to_numpy(dtype=float) for p in PRECISIONS)
        known = np.isfinite(exact) & np.isfinite(rounded)
        change = np.abs(rounded - exact)[known] / exact[known]
        figures = f"{exact[known].mean():.2f} | {rounded[known].mean():.2f} | {100 * np.median(change):.1f} % | {100 * change.max():.1f} %"
        lines.append(f"| {measure} | {figures} | {spearmanr(exact[known], rounded[known]).statistic:.4f} |")
    return lines


def accuracy_part(runs: dict[str, Run], encoder: Encoder, dataset: Dataset) -> list[str]:
    """Accuracy by prompts, or by centroids where there are no texts; the difference is paired, clip by clip."""
    chosen = choose_classifier("auto", encoder, None)
    directions = class_directions(encoder, dataset, None).cpu() if chosen.reads_text(encoder) else None
    data = with_folds(dataset, "official", 0)
    right, angles, vectors = {}, {}, {}
    for name, run in runs.items():
        vectors[name] = F.normalize(run.array("embedding.joint")[:], dim=-1)
        scores = chosen.fit_folds(vectors[name], data, directions, encoder.logit_scale, 0).scores(vectors[name])
        right[name] = outcome(scores.numpy(), data.targets).correct
        angles[name] = scores.argmax(1)
    cosine = (vectors["float32"] * vectors["bf16"]).sum(1)
    difference = right["bf16"].astype(float) - right["float32"].astype(float)
    moved = 100 * np.array(mean_interval(difference, data.groups))
    changed = int((angles["float32"] != angles["bf16"]).sum())
    lines = [f"| {chosen.name} | top-1, percent [95 %] |", "|---|---|"]
    lines += [f"| {name} | {Interval(*mean_interval(values.astype(float), data.groups)).percent()} |" for name, values in right.items()]
    lines.append(f"| bf16 − float32, points, paired | {moved[0]:+.2f} [{moved[1]:+.2f}, {moved[2]:+.2f}] |")
    told = f"Cosine of the two embeddings of a clip: mean {cosine.mean():.6f}, lowest {cosine.min():.6f}."
    return [*lines, "", f"{told} The answer changes on {changed} of {len(data)} clips."]


def study(model: str, dataset: Dataset, out: Path, **loading: object) -> list[str]:
    """One model on one dataset, as Markdown."""
    encoders = {p: ra.load_encoder(model, precision=p, **loading) for p in PRECISIONS}
    runs = {p: ra.extract(encoder, dataset, out / p, GRANULARITY, batch_size=8) for p, encoder in encoders.items()}
    exact = encoders["float32"]
    return [
        f"## {Path(exact.name).name} on {dataset.name}: {len(dataset)} clips, {len(dataset.labels)} classes", "",
        "Heads, relative error of the pooled output (what is analysed is how it varies from clip to clip, so also about the mean):", "",
        *heads_part(runs), "",
        "Σ shares of all units + constant against the pooled output, relative:", "", *whole_part(runs), "",
        "Dimension of the heads:", "", *dimension_part(runs), "",
        "Accuracy:", "", *accuracy_part(runs, exact, dataset), "",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whisper", help="Whisper's encoder; without it, only the embedded model")
    parser.add_argument("--esc50", help="where ESC-50 lies")
    parser.add_argument("--limit", type=int, default=250, help="clips of ESC-50, evenly over classes and folds")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path, help="write the page here; otherwise it is printed")
    args = parser.parse_args()
    if bf16_ratio() is None:
        sys.exit("error: this machine cannot multiply in bf16, so there is nothing to compare")
    parts = study("tiny", load_dataset("notes"), args.out / "tiny")
    if args.whisper:
        data = load_dataset("esc50", root=args.esc50).limited(args.limit)
        parts += study(args.whisper, data, args.out / "whisper", seconds=5.0)
    told = [w for w in ("avx512_bf16", "amx_bf16") if w in cpu_flags()]
    whisper = "--whisper openai/whisper-tiny.en --esc50 ~/data/ESC-50 " if args.whisper else ""
    lines = [
        "# What bf16 costs",
        "",
        "The same clips in float32 and in bf16 (`--precision bf16`): products in bf16; the stream, norms, softmax, pooling,",
        "moments and shares in float32 or float64. Made by",
        "",
        "```",
        f"python scripts/precision.py {whisper}--limit {args.limit} --out runs/precision",
        "```",
        "",
        f"on {torch.get_num_threads()} thread(s) of an {cpu_name()} ({', '.join(told) or 'no bf16 instructions'}), "
        f"torch {torch.__version__}. Intervals are over groups of clips.",
        "",
        *parts,
    ]
    text = "\n".join(lines)
    if args.page is None:
        print(text)
    else:
        with drafted(args.page) as draft:
            draft.write_text(text.rstrip() + "\n")
        print(f"written to {args.page}")


if __name__ == "__main__":
    main()
