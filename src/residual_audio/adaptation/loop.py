"""What is learned but is not gains in the network: one way to train it, and gains on shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import Tensor

from .direct import ShareBasis, ShareLearner
from .learner import Learner
from .options import Loop, ShareOptions
from .task import Adaptation, FoldTask, Setting
from .train import Epoch, Training, best_epoch, train


def learned(task: FoldTask, options: Loop, learner: Learner, rate: float) -> tuple[int, list[Epoch]]:
    """Train a learner in the same way and on the same parts as gains: how many numbers, and what happened."""
    lesson = task.lesson(options.towards, options.logit_scale, options.keep_answers)
    history, _ = train(learner, lesson, options.training(rate, task.seed), task.tell)
    return sum(p.numel() for p in learner.parameters), history


def on_shares(task: FoldTask, options: ShareOptions, shares: Callable[[Setting], Tensor]) -> Adaptation:
    """Gains on what ``shares`` gives for every clip, learned as in the paper: schedule-free, the rate looked for.

    Seconds are enough, so the parts only choose the rate and the number of epochs; basis and gains then come from all clips outside the
    test, as a probe's weights do.
    """
    x = shares(task.setting)

    def learner(rows: np.ndarray) -> ShareLearner:
        basis = ShareBasis.of(x[rows], options.kept, options.start)
        return ShareLearner(basis, task.setting.embeddings, x, options.mean)  # type: ignore[arg-type]

    how = Training(
        options.epochs, patience=5, batch_size=options.batch_size, optimiser="schedulefree", rate=options.share_rate or None,
        decay=options.decay, l1=options.l1, seed=task.seed,
    )  # fmt: skip
    lesson = task.lesson(options.towards, options.logit_scale)
    history, rate = train(learner(task.parts.basis), lesson, how, task.tell)
    best = int(best_epoch(history)["epoch"])
    final, seen = learner(task.parts.seen), task.parts.seen
    if best:
        train(final, replace(lesson, train=seen, stop=seen[:0]), replace(how, rate=rate, epochs=best))

    def embed(setting: Setting) -> Tensor:
        adapted = ShareLearner(final.basis, setting.embeddings, shares(setting), options.mean, final.gain)  # type: ignore[arg-type]
        return adapted.embed(setting.rows)

    return Adaptation(final.gain.numel(), embed, history=history)
