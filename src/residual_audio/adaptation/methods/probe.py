"""A linear probe on the embeddings of the model as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import MethodOptions
from . import method

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method("probe", MethodOptions, "logistic regression on the embeddings of all clips outside the test", labels="seen", order=1)
def probe(task: FoldTask, options: MethodOptions) -> Adaptation:
    import torch.nn.functional as F

    from ...evaluation.classifiers import fit_probe
    from ..task import Adaptation

    seen, groups = task.parts.seen, task.setting.dataset.groups
    unit = F.normalize(task.setting.embeddings, dim=-1)
    weight, bias, _ = fit_probe(unit[seen], task.targets[seen], task.classes, task.seed, [groups[i] for i in seen])
    return Adaptation(weight.numel() + bias.numel(), scores=unit[task.parts.test] @ weight.T + bias)
