"""The paper's RD_Y: gains on the principal axes of the embedding itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import ShareOptions
from . import method

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method(
    "residual-embedding", ShareOptions, "gains on the principal axes of the embedding; does not fold", trained=True, labels="seen", order=15
)
def residual_embedding(task: FoldTask, options: ShareOptions) -> Adaptation:
    from ..loop import on_shares

    return on_shares(task, options, lambda setting: setting.embeddings[:, None])
