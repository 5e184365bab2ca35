"""The model as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import Judged
from . import method

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method("plain", Judged, "the model as it is: prompts, or centroids where there is no text side", labels="none", order=0)
def plain(task: FoldTask, options: Judged) -> Adaptation:
    from ..task import Adaptation

    return Adaptation(0, embed=lambda setting: setting.embeddings)
