"""Keep the heads that matter, silence the others. Nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import option
from ..options import RANKINGS, Judged, MethodOptions, Ranked
from . import method

if TYPE_CHECKING:
    from ...units import UnitTable
    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class TopHeadsOptions(Judged, Ranked):
    """A ranking is always asked for here."""

    by: str = option("fisher", f"What heads are ranked by on the training part: {', '.join(RANKINGS)}.", choices=RANKINGS)
    top: int | None = option(None, "How many heads a ranking keeps; default: 20, at most half of them.", least=1, flag="top-heads")

    def settled(self, units: UnitTable) -> MethodOptions:
        from ..ranking import with_number

        return with_number(self, units)


@method("top-heads", TopHeadsOptions, "the best heads by a ranking, the others at their mean; nothing is trained", adapter=True, order=20)
def top_heads(task: FoldTask, options: TopHeadsOptions) -> Adaptation:
    import torch

    from ..ranking import head_places, head_scores, how_many
    from ..starting import bases_of, gains_at_work, starting
    from ..task import Adaptation

    places = head_places(task.encoder.units, options.units)
    scores = head_scores(task, options.by, places, options.classifier)
    kept = torch.zeros(len(scores)).scatter(0, scores.topk(how_many(options.top, len(scores))).indices, 1.0)
    start = starting(task, places, bases_of(task, places, "token"), "keep", tied=True, notes={"units": options.units, "by": options.by})
    gains = [g[:, None].to(s.gain) for g, s in zip(kept.split([len(s.gain) for s in start.sets]), start.sets, strict=True)]
    chosen = start.with_gains(gains)
    return Adaptation(0, gains_at_work(chosen), residual=chosen)
