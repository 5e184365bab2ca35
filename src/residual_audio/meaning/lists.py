"""The lists of words of one unit: chosen, compared with both nulls, and chosen again from resampled clips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from .coherence import Dealt, Null, against, coherences, dealt, word_stability, z_score
from .correlation import matching_pursuits, score_directions
from .shares import APPROXIMATION
from .somp import pursuits
from .span import Span, principal_span
from .textspan import Choice, Choices, textspans

METHODS = ("textspan", "somp", "correlation")
APPROXIMATIONS = {
    "textspan": APPROXIMATION,
    "somp": APPROXIMATION,
    "correlation": "correlation: whole embeddings weighted by a component's scores; nothing held, no cause claimed",
}
TOP_CLIPS = 3
NUMBERS_AT_ONCE = 2**19  # of words in the coordinates of permuted runs: 4 MB, which stay near the processor


@dataclass(frozen=True)
class Choosing:
    """How words are chosen and judged. ``span``: the share of a unit's variance that is looked at."""

    methods: tuple[str, ...] = METHODS
    words: int = 5
    components: int = 5
    permutations: int = 999
    resamples: int = 20
    span: float = 0.99
    seed: int = 0


@dataclass(frozen=True)
class WordList:
    """``component`` 0 is the unit as a whole, else its principal component of that number. ``clips``: those that show each word most.

    ``runs``: the coherence of the observed list and of those of the permuted runs, the same permutations for all units.
    """

    method: str
    component: int
    choice: Choice
    runs: Float[Tensor, " run"]
    z_dictionary: float
    null: Null
    stability: Float[Tensor, " word"]
    clips: list[list[int]] = field(default_factory=list)
    variance: float = 1.0

    @property
    def coherence(self) -> float:
        """Mean cosine of its words."""
        return float(self.runs[0])


class Chooser:
    """Chooses for one unit after the other from the same dictionary; prepares once what all units need.

    Permutations and resamples are the same for all units. ``groups``: the number of each clip's recording; resamples draw recordings.
    """

    def __init__(
        self,
        texts: Float[Tensor, "text d"],
        embeddings: Float[Tensor, "clip d"],
        how: Choosing,
        groups: Int[np.ndarray, " clip"] | None = None,
    ) -> None:
        self.texts, self.how = texts.to(torch.float64), how
        self.embeddings = embeddings.to(torch.float64) - embeddings.to(torch.float64).mean(0)
        self.gram = self.texts @ self.texts.T
        (clips, d), rng = embeddings.shape, np.random.default_rng(how.seed)
        # The first order is the data as they are: the observed run is computed like all others.
        self.orders = orders(d, how.permutations, rng)
        self.clip_orders = orders(clips, how.permutations, rng)
        of = np.arange(clips) if groups is None else groups
        members = [np.flatnonzero(of == g) for g in range(int(of.max()) + 1)]
        drawn = [np.concatenate([members[g] for g in rng.integers(len(members), size=len(members))]) for _ in range(how.resamples)]
        self.draws = [torch.from_numpy(d) for d in drawn]
        self._dealt: dict[int, Dealt] = {}

    def lists(self, shares: Float[Tensor, "clip d"]) -> list[WordList]:
        """Every method's lists for a unit; none for a unit that does not vary."""
        span = principal_span(shares, self.how.span)
        if not len(span.axes):
            return []
        lists: list[WordList] = []
        lists += self._whole(span)
        if "correlation" in self.how.methods:
            lists += self._components(span)
        return lists

    def _choose(self, method: str, words: Float[Tensor, "run text axis"], span: Span) -> Choices:
        if method == "textspan":
            return textspans(words, span.second, self.how.words, span.total)
        return pursuits(words, span.scores, self.gram, self.how.words, span.total)

    def _whole(self, span: Span) -> list[WordList]:
        """A list by each method for the unit as a whole.

        Rows count in any order, so permuting clips changes nothing. The coordinates of the shares are permuted: the spectrum stays, but
        its directions mean nothing to the texts any more.
        """
        methods = [m for m in self.how.methods if m != "correlation"]
        parts: dict[str, list[Choices]] = {m: [] for m in methods}
        at_once = max(1, NUMBERS_AT_ONCE // (len(self.texts) * len(span.axes)))
        for some in self.orders.split(at_once) if methods else ():
            words = self.texts @ span.axes[:, some].permute(1, 2, 0)
            for method in methods:
                parts[method].append(self._choose(method, words, span))
        again: dict[str, list[Tensor]] = {m: [] for m in methods}
        for draw in self.draws if methods else ():
            drawn = span.drawn(draw)
            for method in methods:
                again[method].append(self._choose(method, (self.texts @ drawn.axes.T)[None], drawn).one(0).words)
        shown = (span.scores @ span.axes) @ self.texts.T
        return [
            self._judged(m, 0, parts[m][0].one(0), torch.cat([part.words for part in parts[m]]), again[m], lambda word: shown[:, word])
            for m in methods
        ]

    def _components(self, span: Span) -> list[WordList]:
        """A list for each leading component. Null: its scores belong to other clips."""
        judged: list[WordList] = []
        counts = [torch.bincount(draw, minlength=len(self.embeddings)) for draw in self.draws]
        drawn = torch.stack(counts).to(self.gram) if counts else self.gram.new_zeros(0, len(self.embeddings))
        for k in range(min(self.how.components, len(span.axes))):
            scores = span.scores[:, k]
            signals = torch.cat(
                [
                    score_directions(scores[self.clip_orders], self.embeddings),
                    score_directions(scores.expand(len(drawn), -1), self.embeddings, drawn),
                ]
            )
            choices = matching_pursuits(signals @ self.texts.T, signals.square().sum(1), self.gram, self.how.words)
            runs = len(self.clip_orders)
            again = [choices.one(i).words for i in range(runs, len(choices.words))]
            # A word is shown by clips with high scores where it lies along the direction, with low ones where it lies against it.
            lean = torch.sign(self.texts @ signals[0])
            one = self._judged("correlation", k + 1, choices.one(0), choices.words[:runs], again, lambda w, s=scores, up=lean: s * up[w])
            judged.append(replace(one, variance=float(span.ratio[k])))
        return judged

    def _judged(
        self, method: str, component: int, choice: Choice, words: Tensor, again: list[Tensor], shown: Callable[[int], Tensor]
    ) -> WordList:
        """``words[run]``: of the observed and the permuted runs; ``shown(word)``: how much each clip shows a word."""
        runs, size = coherences(self.gram, words), len(choice.words)
        if size not in self._dealt:
            self._dealt[size] = dealt(self.texts, size)
        clips = [shown(word).topk(min(TOP_CLIPS, len(self.embeddings))).indices.tolist() for word in choice.words.tolist()]
        return WordList(
            method, component, choice, runs, z_score(float(runs[0]), *self._dealt[size]), against(runs),
            word_stability(choice.words, again), clips,
        )  # fmt: skip


def orders(n: int, permutations: int, rng: np.random.Generator) -> Int[Tensor, "run n"]:
    """The given order, then random ones."""
    return torch.from_numpy(np.vstack([np.arange(n), rng.permuted(np.tile(np.arange(n), (permutations, 1)), axis=1)]))
