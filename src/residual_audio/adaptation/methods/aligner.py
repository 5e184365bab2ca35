"""A square matrix on the embedding, from the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import option
from ..options import Loop
from . import method

if TYPE_CHECKING:
    from torch import Tensor

    from ..task import Adaptation, FoldTask, Setting


@dataclass(frozen=True)
class AlignerOptions(Loop):
    """Its own rate: a matrix is no gain."""

    aligner_rate: float = option(1e-3, "Learning rate of `aligner`; 0 looks for one.", least=0, grid=(1e-3, 5e-3, 2.5e-2))


@method("aligner", AlignerOptions, "a learned square matrix on the embedding", trained=True, order=40)
def aligner(task: FoldTask, options: AlignerOptions) -> Adaptation:
    import torch.nn.functional as F

    from ..learner import MatrixLearner
    from ..loop import learned
    from ..task import Adaptation

    learner = MatrixLearner(F.normalize(task.setting.every, dim=-1).to(task.encoder.device))

    def embed(setting: Setting) -> Tensor:
        return F.normalize(setting.embeddings, dim=-1) @ learner.matrix.detach().cpu().T

    trained, history = learned(task, options, learner, options.aligner_rate)
    return Adaptation(trained, embed, history=history)
