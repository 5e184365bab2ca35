"""Methods of adaptation, one per file. A method turns the parts of a fold that it may see into an adapted encoder, or into scores.

To add one: a file here with a dataclass of its options and a function under :func:`method`. Heavy imports belong inside the function,
so that ``--help`` does not wait for torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ...options import OptionError
from ...registry import Registry
from ..options import MethodOptions

Work = Callable[[Any, Any], Any]


def any_encoder(encoder: Any) -> None:
    """Most methods suit every encoder."""


@dataclass(frozen=True)
class Method:
    """``run(task, options)`` gives a :class:`~..task.Adaptation`.

    ``whole``: it needs the model's inputs, not only what enters the first adapted block. ``adapter``: what it leaves can be saved and
    folded; ``folds``: it folds, and so has a strength τ. ``trained``: it learns by the loop, with a stopping part. ``labels``: the clips
    whose labels it learns from: ``none``, the ``train`` part, or all that are ``seen`` outside the test. ``suits(encoder)`` raises where it
    cannot work. ``own_scores``: it leaves no encoder but scores, so that no classifier is put on it. ``begins``: it can
    go on from an adapter.
    """

    name: str
    help: str
    options: type[MethodOptions]
    run: Work
    whole: bool = False
    adapter: bool = False
    folds: bool = False
    trained: bool = False
    labels: Literal["none", "train", "seen"] = "train"
    suits: Callable[[Any], object] = any_encoder
    own_scores: bool = False
    begins: bool = False
    order: int = 50

    @property
    def searchable(self) -> bool:
        """Whether it has options, and clips are left that it has not learned from to choose among them by."""
        return self.trained or not (self.own_scores or self.labels == "seen" or self.options is MethodOptions)


METHODS: Registry[Method] = Registry("method", __name__, OptionError)


def method(name: str, options: type[MethodOptions], help: str, **facts: Any) -> Callable[[Work], Work]:
    """Register a function as a method."""

    def register(run: Work) -> Work:
        METHODS.add(Method(name, help, options, run, **{"folds": facts.get("adapter", False), **facts}))
        return run

    return register


def adapters() -> list[str]:
    """The methods that leave an adapter, which can be saved and folded."""
    return [name for name, known in METHODS.items() if known.adapter]
