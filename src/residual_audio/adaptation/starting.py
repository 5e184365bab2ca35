"""A form before training, and at work: what the methods that change units along axes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ..evaluation import EvaluationError
from ..extraction.run import Run
from ..spectra import Basis, Moments
from .fold import fold
from .gain import ResiDual, Shape, gain_set, random_basis
from .learner import GainLearner
from .options import OWN_BASIS
from .select import Place
from .streams import axes_for, place_bases
from .task import Adaptation, FoldTask, Setting
from .train import Epoch


def transferred_bases(task: FoldTask, places: Sequence[Place], folder: str, level: str) -> list[Basis]:
    """The principal axes of another extraction's heads, from its moments."""
    run, encoder = Run.open(folder), task.encoder
    if run.info["model"]["revision"] != encoder.revision:
        raise EvaluationError(f"{folder} was extracted from {run.info['model']['name']}, not from {encoder.name}")
    if any(p.kind != "heads" for p in places):
        raise EvaluationError(f"a transferred basis is of heads; {', '.join(p.label for p in places if p.kind != 'heads')} is none")
    moments = run.moments({"token": "tokens", "clip": "clips"}[level])
    labels = [u.label for u in encoder.units.where("head")]
    rows = [[labels.index(label) for label in place.labels] for place in places]
    return [axes_for(encoder, Moments(moments.count[r], moments.total[r], moments.second[r])) for r in rows]


def bases_of(task: FoldTask, places: Sequence[Place], level: str, basis: str = OWN_BASIS) -> list[Basis]:
    """Of every place: the basis part's principal axes, or those of another run."""
    if basis == OWN_BASIS:
        return place_bases(task.streams, task.parts.basis, places, level)  # type: ignore[arg-type]
    return transferred_bases(task, places, basis, level)


def starting(
    task: FoldTask,
    places: Sequence[Place],
    bases: Sequence[Basis],
    mean: str,
    shape: Shape = Shape(),
    *,
    random: bool = False,
    notes: Mapping[str, object] = {},
) -> ResiDual:
    """A form at its start; ``random``: on random axes about the same means."""
    if random:
        bases = [random_basis(b, 1000 * task.seed + i) for i, b in enumerate(bases)]
    sets = tuple(gain_set(p, b, shape) for p, b in zip(places, bases, strict=True))
    return ResiDual(sets, mean, {**notes, "seed": task.seed})  # type: ignore[arg-type]


def at_work(task: FoldTask, residual: ResiDual, trained: int = 0, history: Sequence[Epoch] = (), whole: bool = False) -> Adaptation:
    """What a method leaves that changes units along axes; ``whole``: its clips run from the model's inputs."""

    def embed(setting: Setting) -> Tensor:
        return GainLearner(residual, setting.whole if whole else setting.streams).embed(setting.rows).cpu()

    return Adaptation(
        trained, embed, residual=residual, history=list(history), fold=lambda: fold(task.encoder, residual),
        scaled=lambda tau: at_work(task, residual.scaled(tau), trained, history, whole),
    )  # fmt: skip
