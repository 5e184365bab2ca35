r"""How well does a head separate the classes? Between-class scatter over within-class scatter.

With $m_c$ the mean of the $n_c$ clips of class c and m the mean of all,
$S_B = \sum_c n_c (m_c - m)(m_c - m)^\top$, $S_W = \sum_c \sum_{i \in c} (x_i - m_c)(x_i - m_c)^\top$ and $S_B + S_W = S_T$.

Ratios are unchanged by shift, rotation and scale of a head. Chance is not 0: labels that say nothing give about (k − 1)/(n − k) with k
classes and n clips, so compare numbers of one data set, or take the p-value.

Where a ratio has no value: a head (or axis) that does not vary, or fewer than two classes with clips → NaN; no scatter within the classes
but some between them → inf. "Does not vary" means no more than rounding (``similarity.rounding_floor``). Classes without clips are ignored.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .similarity import rounding_floor

HEADS_AT_ONCE, ORDERS_AT_ONCE = 16, 64  # of the permutation test: a few megabytes, which stay in the cache
SLACK = 1e-9  # labellings with the same partition differ by rounding only; they count as equal


def class_counts(targets: Int[Tensor, " clip"], classes: int) -> Int[Tensor, " class"]:
    """Clips of each class."""
    if len(targets) and not (int(targets.min()) >= 0 and int(targets.max()) < classes):
        raise ValueError(
            f"targets run from {int(targets.min())} to {int(targets.max())}, but {classes} classes are numbered 0 to {classes - 1}"
        )
    return torch.bincount(targets, minlength=classes)


def class_means(values: Float[Tensor, "clip ..."], targets: Int[Tensor, " clip"], classes: int) -> Float[Tensor, "class ..."]:
    """Mean over the clips of each class, in float64; NaN for a class without clips."""
    counts = class_counts(targets, classes)
    values = values.double()
    total = values.new_zeros(classes, *values.shape[1:]).index_add_(0, targets.long(), values)
    return total / counts.reshape(-1, *[1] * (values.ndim - 1))


def _deviations(
    x: Float[Tensor, "clip head d"], targets: Int[Tensor, " clip"], classes: int
) -> tuple[Float[Tensor, "clip head d"], Float[Tensor, "present head d"]]:
    """Rows whose outer products sum to S_W (clip − class mean) and to S_B (√n_c · (class mean − mean))."""
    counts, means = class_counts(targets, classes), class_means(x, targets, classes)
    present = counts > 0
    between = (means[present] - x.double().mean(0)) * counts[present].double().sqrt()[:, None, None]
    return x.double() - means[targets.long()], between


def _ratio(between: Tensor, within: Tensor, nothing: Tensor, comparable: bool) -> Tensor:
    """between / within, each zero where it is no more than ``nothing``: 0/0 is NaN, positive/0 is inf."""
    if not comparable:
        return torch.full_like(between, torch.nan)
    return between.masked_fill(between <= nothing, 0.0) / within.masked_fill(within <= nothing, 0.0)


def _comparable(targets: Int[Tensor, " clip"]) -> bool:
    return len(targets.unique()) > 1


def fisher_ratio(x: Float[Tensor, "clip head d"], targets: Int[Tensor, " clip"], classes: int) -> Float[Tensor, " head"]:
    r"""$F_h = \operatorname{tr} S_B / \operatorname{tr} S_W$ of each head. The share of variance between classes is F / (1 + F)."""
    within, between = (rows.square().sum((0, 2)) for rows in _deviations(x, targets, classes))
    return _ratio(between, within, len(x) * rounding_floor(x), _comparable(targets))


def component_fisher(
    x: Float[Tensor, "clip head d"], axes: Float[Tensor, "head axis d"], targets: Int[Tensor, " clip"], classes: int
) -> Float[Tensor, "head axis"]:
    r"""Between- over within-class variance along each axis, $u^\top S_B u / u^\top S_W u$.

    It is the F of a one-way ANOVA times (k − 1)/(n − k). About which mean the axes were taken does not matter.
    """
    rows = (torch.einsum("nhd,had->nha", part, axes.double()) for part in _deviations(x, targets, classes))
    within, between = (part.square().sum(0) for part in rows)
    return _ratio(between, within, len(x) * rounding_floor(x)[:, None], _comparable(targets))


def _between(centred: Float[Tensor, "clip head d"], orders: Int[Tensor, "some clip"], counts: Tensor) -> Float[Tensor, "some head"]:
    r"""$\operatorname{tr} S_B = \sum_c |\sum_{i \in c} x_i|^2 / n_c$ when an order's first n_0 clips are class 0, the next n_1 class 1 …"""
    some, n = orders.shape
    starts = (n * torch.arange(some)[:, None] + (counts.cumsum(0) - counts)).flatten()
    sums = torch.nn.functional.embedding_bag(orders.flatten(), centred.flatten(1), starts, mode="sum")
    return (sums.reshape(some, len(counts), *centred.shape[1:]).square().sum(-1) / counts[:, None]).sum(1)


def fisher_p_value(
    x: Float[Tensor, "clip head d"], targets: Int[Tensor, " clip"], classes: int, permutations: int = 199, seed: int = 0
) -> Float[Tensor, " head"]:
    r"""How often labels dealt out at random separate the clips as well: (1 + #{F_π ≥ F}) / (1 + permutations).

    S_T does not depend on the labels, so F grows with $\operatorname{tr} S_B$ and this alone is compared. All heads see the same
    permutations. NaN where the ratio is. About 20 ms per permutation for 184 heads, 2000 clips.
    """
    counts = class_counts(targets, classes)
    counts = counts[counts > 0]
    generator = torch.Generator().manual_seed(seed)
    orders = torch.rand(permutations, len(x), generator=generator, dtype=torch.float64).argsort(1)
    reached = []
    for part in (x.double() - x.double().mean(0)).split(HEADS_AT_ONCE, 1):
        part = part.contiguous()
        enough = _between(part, targets.argsort()[None], counts) * (1 - SLACK)
        reached.append(torch.cat([_between(part, some, counts) >= enough for some in orders.split(ORDERS_AT_ONCE)]).sum(0))
    p = (1 + torch.cat(reached).double()) / (1 + permutations)
    return p.masked_fill(fisher_ratio(x, targets, classes).isnan(), torch.nan)
