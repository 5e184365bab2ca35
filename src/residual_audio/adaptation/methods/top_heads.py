"""Keep the heads that matter, silence the others. Nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import option
from ..options import RANKINGS, Aimed, MethodOptions, Ranked
from . import method

if TYPE_CHECKING:
    from ...units import UnitTable
    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class TopHeadsOptions(Aimed, Ranked):
    """A ranking is always asked for here."""

    by: str = option("fisher", f"What heads are ranked by on the training part: {', '.join(RANKINGS)}.", choices=RANKINGS)
    top: int | None = option(None, "How many heads a ranking keeps; default: 20, at most half of them.", least=1, flag="top-heads")

    def settled(self, units: UnitTable) -> MethodOptions:
        from ..ranking import with_number

        return with_number(self, units)


@method("top-heads", TopHeadsOptions, "the best heads by a ranking, the others at their mean; nothing is trained", adapter=True, order=20)
def top_heads(task: FoldTask, options: TopHeadsOptions) -> Adaptation:
    import torch

    from ..gain import Shape
    from ..ranking import head_places, head_scores, how_many
    from ..starting import at_work, bases_of, starting

    places = head_places(task.encoder.units, options.units)
    scores = head_scores(task, options.by, places, options.towards)
    kept = torch.zeros(len(scores)).scatter(0, scores.topk(how_many(options.top, len(scores))).indices, 1.0)
    notes = {"units": options.units, "by": options.by}
    start = starting(task, places, bases_of(task, places, "token"), "keep", Shape("scalar"), notes=notes)
    gains = [g[:, None].to(s.values) for g, s in zip(kept.split([len(s.values) for s in start.sets]), start.sets, strict=True)]
    chosen = start.with_values(gains)
    return at_work(task, chosen)
