"""What attention weights say beside their heads' own rows: how far heads look, and the means over blocks of an earlier report."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from .dimension import estimate_dimensions
from .measures import attention_measures
from .sample import Sample
from .views import StoredRun

MEANS = ("stage_head", "block", "stage")


def attention_form(run: StoredRun) -> dict[str, Any]:
    """What a point is: the mean over a clip's windows, whole or sketched."""
    asked = run.info.get("settings", {}).get("sketch")
    sizes = [int(run.array(f"attention.{stage}").shape[-1]) for stage in range(len(run.units.heads))]
    return {"point": "attention matrix of a clip, mean over its windows", "numbers": sizes, "sketched": [n == asked for n in sizes]}


def attention_tables(run: StoredRun, heads: pd.DataFrame, sample: Sample, how: Any) -> dict[str, pd.DataFrame]:
    """Adds how far each head looks to ``heads``; ``attention_means``: the dimension of mean matrices.

    ``stage_head``: a_l, the mean of a head's matrices over the blocks of its stage; ``block``: over the heads of a block; ``stage``:
    over all heads of a stage. Means of sketches are sketches of means.
    """
    rows = slice(None) if sample.rows is None else sample.rows
    reach = run.array("attention.reach")[rows].to(torch.float64).mean(0)
    for measure in attention_measures():
        heads[measure.name] = reach[:, measure.column_of_reach].numpy()
    tables = []
    for stage, counts in enumerate(run.units.heads):
        points = run.array(f"attention.{stage}")[rows].to(torch.float64).split(list(counts), 1)
        means: dict[str, list[Tensor]] = {"block": [p.mean(1) for p in points], "stage": [torch.cat(points, 1).mean(1)]}
        if len(set(counts)) == 1:
            means["stage_head"] = list(torch.stack(points).mean(0).unbind(1))
        for kind in MEANS:
            tables += [_rows(kind, stage, torch.stack(means[kind], 1), sample, how)] if kind in means else []
    return {"attention_means": pd.concat(tables, ignore_index=True)}


def _rows(kind: str, stage: int, points: Float[Tensor, "clip unit d"], sample: Sample, how: Any) -> pd.DataFrame:
    table = estimate_dimensions(points, how.k, sample.groups, seed=how.seed).table
    number = pd.Series(range(len(table)))
    where = {
        "label": number.map(lambda i: {"block": f"S{stage}B{i}", "stage_head": f"S{stage}H{i}", "stage": f"S{stage}"}[kind]),
        "kind": kind,
        "stage": stage,
        "block": number if kind == "block" else -1,
        "head": number if kind == "stage_head" else -1,
    }
    return pd.concat([pd.DataFrame(where), table], axis=1)
