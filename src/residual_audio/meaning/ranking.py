r"""Which heads carry the task? Rankings of units by their shares of the class scores, and accuracy with the best k kept.

``scores[i, u, c]`` is unit u's direct share of the cosine of clip i and class text c; over all units and the constant they sum to it.
Keeping k units replaces the other units' shares by their means: the *direct* approximation of mean ablation, since what a unit does to
later units stays in theirs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Scores = Float[Tensor, "clip unit class"]
CLIPS_AT_ONCE = 128


def text_correlation(scores: Scores, targets: Int[Tensor, " clip"]) -> Float[Tensor, "unit class"]:
    """For each unit and class: the correlation over clips of its share of the class's score with being of that class."""
    member = F.one_hot(targets, scores.shape[-1]).to(torch.float64)
    x, y = scores.to(torch.float64) - scores.to(torch.float64).mean(0), member - member.mean(0)
    scale = x.square().sum(0).sqrt() * y.square().sum(0).sqrt()
    return torch.einsum("nuc,nc->uc", x, y) / scale


def unit_correlation(scores: Scores, targets: Int[Tensor, " clip"]) -> Float[Tensor, " unit"]:
    """For each unit: the correlation over all clips and classes, leaving aside what all clips or all classes of a clip have in common."""
    member = F.one_hot(targets, scores.shape[-1]).to(torch.float64)

    def centred(values: Tensor) -> Tensor:
        values = values - values.mean(0)
        return values - values.mean(-1, keepdim=True)

    x, y = centred(scores.to(torch.float64)), centred(member)
    return torch.einsum("nuc,nc->u", x, y) / (x.square().sum((0, 2)).sqrt() * y.square().sum().sqrt())


def by_falling(values: Float[Tensor, " unit"]) -> Int[Tensor, " unit"]:
    """Units from the largest value on; those without a value last."""
    return values.nan_to_num(nan=-torch.inf).argsort(descending=True, stable=True)


def margins(scores: Float[Tensor, "*some clip class"], targets: Int[Tensor, " clip"]) -> Float[Tensor, "*some clip"]:
    """The true class's score above the best other one's; not positive where it does not win."""
    place = targets[:, None].expand(*scores.shape[:-1], 1)
    own = scores.gather(-1, place)[..., 0]
    return own - scores.scatter(-1, place, -torch.inf).amax(-1)


def greedy(
    scores: Scores, rest: Float[Tensor, "clip class"], targets: Int[Tensor, " clip"], most: int | None = None
) -> Int[Tensor, " kept"]:
    """Add one unit after the other: the one that gives the best accuracy, and among equals the largest mean margin."""
    mean = scores.mean(0)
    moves = (scores - mean).transpose(0, 1).contiguous()
    now, left, order = rest + mean.sum(0), list(range(len(moves))), []
    for _ in range(len(left) if most is None else min(most, len(left))):
        margin = margins(now + moves[left], targets)
        right, size = (margin > 0).to(torch.float64).mean(-1), margin.to(torch.float64).mean(-1)
        best = left[int(torch.where(right == right.max(), size, -torch.inf).argmax())]
        order.append(best)
        left.remove(best)
        now = now + moves[best]
    return torch.tensor(order, dtype=torch.int64)


def accuracy_by_kept(
    scores: Scores,
    rest: Float[Tensor, "clip class"],
    means: Float[Tensor, "unit class"],
    order: Int[Tensor, " unit"],
    targets: Int[Tensor, " clip"],
) -> Float[Tensor, " kept"]:
    """Accuracy with the first 0, 1, 2, … units of ``order`` kept and the others at ``means``; the last one is the whole model's."""
    right = torch.zeros(len(order) + 1, dtype=torch.float64)
    for some, fixed, truth in zip(*(x.split(CLIPS_AT_ONCE) for x in (scores[:, order], rest, targets)), strict=True):
        steps = torch.cat([(fixed + means.sum(0))[None], (some - means[order]).transpose(0, 1)])
        right += (margins(steps.cumsum(0), truth) > 0).sum(1)
    return right / len(targets)
