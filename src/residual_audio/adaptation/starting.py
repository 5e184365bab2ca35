"""Gains before training, and gains at work: what the methods that reweight axes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from ..evaluation import EvaluationError
from ..extraction.run import Run
from ..spectra import Basis, Moments
from .gain import ResiDual, gain_set, random_basis
from .learner import GainLearner
from .options import OWN_BASIS
from .select import Place
from .streams import axes_for, place_bases
from .task import FoldTask, Setting


def transferred_bases(task: FoldTask, places: Sequence[Place], folder: str, level: str) -> list[Basis]:
    """The principal axes of another extraction's heads, from its moments."""
    run, encoder = Run.open(folder), task.encoder
    if run.info["model"]["revision"] != encoder.revision:
        raise EvaluationError(f"{folder} was extracted from {run.info['model']['name']}, not from {encoder.name}")
    if any(p.form != "heads" for p in places):
        raise EvaluationError(f"a transferred basis is of heads; {', '.join(p.label for p in places if p.form != 'heads')} is none")
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
    *,
    kept: int | float | None = None,
    start: float | None = None,
    tied: bool = False,
    random: bool = False,
    notes: Mapping[str, object] = {},
) -> ResiDual:
    """Gains at their start; ``tied``: a single one per unit; ``random``: on random axes about the same means."""
    if random:
        bases = [random_basis(b, 1000 * task.seed + i) for i, b in enumerate(bases)]
    sets = tuple(gain_set(p, b, kept, start, tied) for p, b in zip(places, bases, strict=True))
    return ResiDual(sets, mean, {**notes, "seed": task.seed})  # type: ignore[arg-type]


def gains_at_work(residual: ResiDual, whole: bool = False) -> Callable[[Setting], Tensor]:
    """Embed a setting's clips with the gains attached; ``whole``: from the model's inputs."""
    return lambda setting: GainLearner(residual, setting.whole if whole else setting.streams).embed(setting.rows).cpu()
