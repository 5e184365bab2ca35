"""The model as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import MethodOptions
from . import method

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method("plain", MethodOptions, "the model as it is", labels="none", order=0)
def plain(task: FoldTask, options: MethodOptions) -> Adaptation:
    from ..task import Adaptation

    return Adaptation(0, embed=lambda setting: setting.embeddings)
