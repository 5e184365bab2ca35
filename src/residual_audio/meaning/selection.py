"""How few heads carry a task: alignment of units with the class texts, and accuracy against the number of heads kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..analysis.discriminability import fisher_ratio
from ..data import grouped_folds
from ..extraction import Run
from ..models import Encoder
from .ranking import accuracy_by_kept, by_falling, greedy, text_correlation, unit_correlation
from .shares import APPROXIMATION, share_groups, text_shares
from .texts import text_directions

RANDOM_ORDERS = 20
NEAR = 0.95  # of the whole model's accuracy: "near the original"
FEW = 0.05  # of the heads: what the ResiDual paper keeps
Halves = list[tuple[Tensor, Tensor]]


def selection_tables(run: Run, template: str, opened: Callable[[], Encoder], seed: int = 0) -> dict[str, pd.DataFrame]:
    """text_alignment, selection, selection_summary; nothing where a run has fewer than two classes, or a class has one group.

    Rankings that see labels rank on one half of the clips and are tested on the other, both ways round. Each class is split evenly, and
    clips of one group (speaker, recording, instrument) stay in one half.
    """
    names, labels = run.class_names, run.clips["label"].tolist()
    count = Counter(label for label, _ in set(zip(labels, run.groups, strict=True)))
    classes = [label for label in names if label in count]
    if len(classes) < 2 or min(count[label] for label in classes) < 2:
        return {}
    number = {label: i for i, label in enumerate(classes)}
    targets = torch.tensor([number[label] for label in labels])
    scores, constant = text_shares(run, text_directions(run.info, [names[c] for c in classes], template, opened))
    alignment = pd.DataFrame(text_correlation(scores, targets).numpy(), columns=classes)
    alignment.insert(0, "correlation", unit_correlation(scores, targets).numpy())
    alignment.insert(0, "label", [u.label for u in run.units])

    heads = run.units.where("head")
    index = [run.units.index(u) for u in heads]
    others = [i for i in range(len(run.units)) if i not in set(index)]
    by_head = scores[:, index]
    rest = {"kept": constant + scores[:, others].sum(1), "at their mean": constant + scores[:, others].mean(0).sum(0)}
    half = torch.tensor(grouped_folds(labels, run.groups.tolist(), 2, seed)) - 1
    halves = [(torch.where(half == a)[0], torch.where(half != a)[0]) for a in (0, 1)]
    fisher = half_fisher(run, halves, targets, len(classes))
    rows: list[dict] = []
    for setting, fixed in rest.items():
        rankings = {
            "greedy": lambda h, fixed=fixed: greedy(by_head[halves[h][0]], fixed[halves[h][0]], targets[halves[h][0]]),
            "correlation": lambda h: by_falling(unit_correlation(by_head[halves[h][0]], targets[halves[h][0]])),
            "Fisher": lambda h: by_falling(fisher[h]),
        }
        curve = partial(tested, by_head, fixed, targets, halves)
        for name, order in rankings.items():
            rows += curve_rows(name, setting, [curve([order(0), order(1)])], len(heads))
        random = torch.Generator().manual_seed(seed)
        dice = [torch.randperm(len(heads), generator=random) for _ in range(RANDOM_ORDERS)]
        rows += curve_rows("random", setting, [curve([order, order]) for order in dice], len(heads))
    selection = pd.DataFrame(rows)
    return {"text_alignment": alignment, "selection": selection, "selection_summary": summary(selection, 1 / len(classes))}


def half_fisher(run: Run, halves: Halves, targets: Int[Tensor, " clip"], classes: int) -> list[Float[Tensor, " head"]]:
    """Fisher ratio of every head's direct shares, on each half."""
    parts: list[list[Tensor]] = [[], []]
    for _, shares in share_groups(run, run.units.where("head")):
        for h, (ranked, _) in enumerate(halves):
            parts[h].append(fisher_ratio(shares[ranked], targets[ranked], classes))
    return [torch.cat(p) for p in parts]


def tested(scores: Tensor, rest: Tensor, targets: Tensor, halves: Halves, orders: list[Tensor]) -> Float[np.ndarray, " kept"]:
    """Accuracy over all clips; each half is tested with the order and the means of the other."""
    total = np.zeros(scores.shape[1] + 1)
    for (ranked, test), order in zip(halves, orders, strict=True):
        accuracy = accuracy_by_kept(scores[test], rest[test], scores[ranked].mean(0), order, targets[test])
        total += accuracy.numpy() * len(test)
    return total / len(targets)


def curve_rows(ranking: str, setting: str, curves: list[np.ndarray], heads: int) -> list[dict]:
    """One row per number of heads; of several random orders the mean and the range of the middle 90 %."""
    several = np.stack(curves)
    low, high = np.quantile(several, [0.05, 0.95], axis=0) if len(curves) > 1 else (np.full(heads + 1, np.nan),) * 2
    return [
        {"ranking": ranking, "others": setting, "k": k, "share": k / heads, "accuracy": several[:, k].mean(), "low": low[k],
         "high": high[k], "orders": len(curves), "approximation": APPROXIMATION}
        for k in range(heads + 1)
    ]  # fmt: skip


def summary(selection: pd.DataFrame, chance: float) -> pd.DataFrame:
    """By ranking: accuracy with no head, with 5 % of them, with all; ``reached``: the fewest heads that come within 5 % of the accuracy
    with all, ``needed``: the fewest from which on it stays there."""
    rows = []
    for (setting, ranking), curve in selection.groupby(["others", "ranking"], sort=False):
        accuracy, heads = curve.accuracy.to_numpy(), len(curve) - 1
        few = max(1, round(FEW * heads))
        below = np.flatnonzero(accuracy < NEAR * accuracy[-1])
        need = int(below[-1]) + 1 if len(below) else 0
        reached = int(np.flatnonzero(accuracy >= NEAR * accuracy[-1])[0])
        rows.append(
            {"others": setting, "ranking": ranking, "accuracy_none": accuracy[0], "few": few, "accuracy_few": accuracy[few],
             "accuracy_best": accuracy.max(), "accuracy_all": accuracy[-1], "reached": reached, "needed": need, "heads": heads,
             "chance": chance}
        )  # fmt: skip
    return pd.DataFrame(rows)
