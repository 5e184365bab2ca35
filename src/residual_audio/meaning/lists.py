"""The lists of words of one unit: chosen, compared with both nulls, and chosen again from resampled clips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from .coherence import Dealt, Null, against, coherence, dealt, word_stability, z_score
from .correlation import matching_pursuits, score_directions
from .shares import APPROXIMATION
from .somp import pursue
from .span import Span, principal_span, square_root
from .textspan import Choice, textspan_inside

METHODS = ("textspan", "somp", "correlation")
APPROXIMATIONS = {
    "textspan": APPROXIMATION,
    "somp": APPROXIMATION,
    "correlation": "correlation: whole embeddings weighted by a component's scores; nothing held, no cause claimed",
}
TOP_CLIPS = 3


@dataclass(frozen=True)
class Choosing:
    """How words are chosen and judged. ``span``: the share of a unit's variance that is looked at."""

    methods: tuple[str, ...] = METHODS
    words: int = 5
    components: int = 5
    permutations: int = 50
    resamples: int = 20
    span: float = 0.99
    seed: int = 0


@dataclass(frozen=True)
class WordList:
    """``component`` 0 is the unit as a whole, else its principal component of that number. ``clips``: those that show each word most."""

    method: str
    component: int
    choice: Choice
    coherence: float
    z_dictionary: float
    null: Null
    stability: Float[Tensor, " word"]
    clips: list[list[int]] = field(default_factory=list)
    variance: float = 1.0


class Chooser:
    """Chooses for one unit after the other from the same dictionary; prepares once what all units need."""

    def __init__(self, texts: Float[Tensor, "text d"], embeddings: Float[Tensor, "clip d"], how: Choosing) -> None:
        self.texts, self.embeddings, self.how = texts.to(torch.float64), embeddings.to(torch.float64), how
        self._dealt: dict[int, Dealt] = {}

    def lists(self, shares: Float[Tensor, "clip d"], number: int) -> list[WordList]:
        """Every method's lists for a unit. ``number`` seeds its permutations and resamples, whichever other units are asked for."""
        random = torch.Generator().manual_seed(1_000_003 * self.how.seed + number)
        span = principal_span(shares, self.how.span)
        if not len(span.axes):
            return []
        clips, d = shares.shape
        draws = [torch.randint(clips, (clips,), generator=random) for _ in range(self.how.resamples)]
        orders = [torch.randperm(d, generator=random) for _ in range(self.how.permutations)]
        dealt_clips = [torch.randperm(clips, generator=random) for _ in range(self.how.permutations)]
        lists: list[WordList] = []
        if "textspan" in self.how.methods:
            lists.append(self._whole("textspan", span, draws, orders, self._textspan))
        if "somp" in self.how.methods:
            lists.append(self._whole("somp", span, draws, orders, self._somp))
        if "correlation" in self.how.methods:
            lists += self._components(span, draws, dealt_clips)
        return lists

    def _textspan(self, span: Span) -> Callable[[Tensor], Choice]:
        rows = square_root(span.scores)
        return lambda texts: textspan_inside(rows, texts @ span.axes.T, self.how.words, span.total)

    def _somp(self, span: Span) -> Callable[[Tensor], Choice]:
        return lambda texts: pursue((texts @ span.axes.T) @ span.scores.T, texts, self.how.words, span.total)

    def _whole(
        self, method: str, span: Span, draws: list[Tensor], orders: list[Tensor], method_of: Callable[[Span], Callable[[Tensor], Choice]]
    ) -> WordList:
        """A list for the unit as a whole.

        Rows count in any order, so permuting clips changes nothing. The coordinates of the shares can be permuted (here: those of the
        texts, which is the same): the spectrum stays, but its directions mean nothing to the texts any more.
        """
        choose = method_of(span)
        permuted = [coherence(self.texts[choose(self.texts[:, order]).words]) for order in orders]
        again = [method_of(span.drawn(draw))(self.texts).words for draw in draws]
        shares = span.scores @ span.axes
        return self._judged(method, 0, choose(self.texts), permuted, again, lambda word: shares @ self.texts[word])

    def _components(self, span: Span, draws: list[Tensor], orders: list[Tensor]) -> list[WordList]:
        """A list for each leading component. Null: its scores belong to other clips."""
        e = self.embeddings - self.embeddings.mean(0)
        judged: list[WordList] = []
        counts = torch.stack([torch.bincount(d, minlength=len(e)) for d in draws]).to(e) if draws else e.new_zeros(0, len(e))
        for k in range(min(self.how.components, len(span.axes))):
            scores = span.scores[:, k]
            own = score_directions(scores[None], e)
            dealt_out = score_directions(torch.stack([scores[order] for order in orders]), e) if orders else own[:0]
            drawn = score_directions(scores.expand(len(counts), -1), e, counts)
            words, explained = matching_pursuits(torch.cat([own, dealt_out, drawn]), self.texts, self.how.words)
            lists = [row[row >= 0] for row in words]
            permuted = [coherence(self.texts[chosen]) for chosen in lists[1 : 1 + len(orders)]]
            choice = Choice(lists[0], explained[0][words[0] >= 0])
            # A word is shown by clips with high scores where it lies along the direction, with low ones where it lies against it.
            lean = torch.sign(self.texts @ own[0])
            one = self._judged("correlation", k + 1, choice, permuted, lists[1 + len(orders) :], lambda w, s=scores, up=lean: s * up[w])
            judged.append(replace(one, variance=float(span.ratio[k])))
        return judged

    def _judged(
        self, method: str, component: int, choice: Choice, permuted: list[float], again: list[Tensor], shown: Callable[[int], Tensor]
    ) -> WordList:
        """``shown(word)``: how much each clip shows a word."""
        value, size = coherence(self.texts[choice.words]), len(choice.words)
        if size not in self._dealt:
            self._dealt[size] = dealt(self.texts, size)
        clips = [shown(word).topk(min(TOP_CLIPS, len(self.embeddings))).indices.tolist() for word in choice.words.tolist()]
        return WordList(
            method, component, choice, value, z_score(value, *self._dealt[size]), against(value, permuted),
            word_stability(choice.words, again), clips,
        )  # fmt: skip
