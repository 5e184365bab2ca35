"""A step of learning gains of the whole network of `tiny`: as it is, in float32 and in what `--precision auto` chooses, and with the
operations it had before; in one run.

Before, torch's fused attention ran in every window, and every change was a product of its own over all tokens: a block's heads head by head
(a batched product between two copies), with offsets added afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from common import alternated, bar, machine
from torch import Tensor

from residual_audio.adaptation import attach, learner
from residual_audio.adaptation.gain import GainSet, MeanRule, ResiDual, Shape, gain_set
from residual_audio.adaptation.learner import GainLearner
from residual_audio.adaptation.objective import Objective
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.streams import cache_streams, first_block, place_bases
from residual_audio.adaptation.train import Course, Lesson, Training, make_optimiser
from residual_audio.data import load_dataset
from residual_audio.models import load_encoder, windows
from residual_audio.models.precision import chosen_precision

BAR, RATE, CLASSES = 1.5, 0.02, 5


def heads_before(gains: GainSet, heads: int, mean: MeanRule, values: Tensor) -> Callable[[Tensor], Tensor]:
    matrix = gains.matrix(values)
    offset = gains.offset(matrix, mean)
    return lambda z: (torch.einsum("...hd,hed->...he", z.unflatten(-1, (heads, -1)), matrix) + offset).flatten(-2)


def vector_before(gains: GainSet, mean: MeanRule, values: Tensor) -> Callable[[Tensor], Tensor]:
    matrix = gains.matrix(values)
    offset = gains.offset(matrix, mean)[0]
    return lambda x: x @ matrix[0].mT + offset


@contextmanager
def before() -> Iterator[None]:
    """Inside, gains are applied as they were."""
    with patch.multiple(attach, head_change=heads_before, vector_change=vector_before), attention_before(), attached_before():
        yield


def attention_before() -> AbstractContextManager[object]:
    """Inside, windows of every size attend fused."""
    return patch.object(windows, "SMALL", 0)


def attached_before() -> AbstractContextManager[object]:
    """Inside, gains are learned beside the weights."""
    return patch.object(learner, "inlaid", attach.attached)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=64, help="of one batch")
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    encoder, rows = load_encoder("tiny"), np.arange(args.clips)
    data = load_dataset("synthetic-voice", per_class=args.clips).limited(args.clips)
    places = choose_places(encoder.units, "heads mlps")
    streams = cache_streams(encoder, [clip.source for clip in data.clips], first_block(encoder, places))
    bases = place_bases(streams, rows, places, "token")
    residual = ResiDual(tuple(gain_set(p, b, Shape("gains")) for p, b in zip(places, bases, strict=True)))
    directions = F.normalize(torch.randn(CLASSES, encoder.dim, generator=torch.Generator().manual_seed(0)), dim=-1)
    lesson = Lesson(rows, rows[:0], torch.arange(args.clips) % CLASSES, CLASSES, Objective(directions, False, encoder.logit_scale))

    def course(precision: str) -> Callable[[], float]:
        made = Course(GainLearner(residual, streams), lesson, Training(decay=0.0, precision=precision))
        optimiser = make_optimiser(made.learner, "adamw", RATE)
        learners.append(made.learner)
        return lambda: made.step(rows, optimiser)

    learners: list[GainLearner] = []
    was, now = course("float32"), course("float32")

    def within(inside: Callable[[], AbstractContextManager[object]], step: Callable[[], float]) -> Callable[[], None]:
        def run() -> None:
            with inside():
                step()

        return run

    runs = {
        "as before": within(before, was),
        "now": now,
        "now, fused attention": within(attention_before, course("float32")),
        "now, changes attached": within(attached_before, course("float32")),
    }
    auto = chosen_precision("auto", encoder.device)
    if auto == "bf16":
        runs["now, bf16"] = course("bf16")
    best = alternated(runs, args.rounds)
    print(f"tiny, {residual.trained:,} gains on all heads and MLPs, a batch of {args.clips}, {machine()}")
    for name, took in best.items():
        faster = f"{best['as before'].cpu / took.cpu:.2f} × faster ({best['as before'].wall / took.wall:.2f} on the clock)"
        print(f"{name:22s} {took.wall:6.2f} s, {took.cpu:6.2f} s of CPU per step   {faster}")
    pairs = zip(learners[0].parameters, learners[1].parameters, strict=True)
    print(f"gains differ by at most {max(float((a - b).detach().abs().max()) for a, b in pairs):.1e} after {args.rounds + 1} steps")
    for precision, name in {"float32": "now", auto: "now" if auto == "float32" else "now, bf16"}.items():
        print(bar(f"whole-network gains on tiny, {precision}", best["as before"].cpu / best[name].cpu, BAR, at_most=False))


if __name__ == "__main__":
    main()
