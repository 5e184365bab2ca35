"""A linear probe on what the direct form reads: every unit's share of the embedding, side by side, not their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import Selected
from . import method

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method(
    "probe-shares",
    Selected,
    "logistic regression on the units' direct shares, side by side",
    whole=True,
    labels="seen",
    own_scores=True,
    order=2,
)
def probe_shares(task: FoldTask, options: Selected) -> Adaptation:
    from ...evaluation.classifiers import fit_probe
    from ..task import Adaptation

    table = task.encoder.units
    units = tuple(table.index(u) for u in table.select(options.units, only=("head", "mlp")))
    shares = task.setting.shares(units).flatten(1)
    shares = shares / task.setting.embeddings.norm(dim=-1, keepdim=True)
    seen = task.parts.seen
    groups = [task.setting.dataset.groups[i] for i in seen]
    weight, bias, _ = fit_probe(shares[seen], task.targets[seen], task.classes, task.seed, groups)
    return Adaptation(weight.numel() + bias.numel(), scores=shares[task.parts.test] @ weight.T + bias)
