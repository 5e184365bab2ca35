"""FiLM, as in ASPL: a scale and a shift per channel at the end of stages; folds into patch merges and the final norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import option
from ..options import EncoderLoop, Selected
from . import method

if TYPE_CHECKING:
    from ...models import Encoder
    from ..modulation import Tap
    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class FilmOptions(EncoderLoop, Selected):
    """Units name the stages; the rate is its own."""

    film_rate: float = option(0.02, "Learning rate of `film`; 0 looks for one.", least=0, grid=(4e-3, 0.02, 0.1))


def stage_ends(encoder: Encoder, stages: set[int]) -> list[Tap]:
    """Behind the patch merge of a stage, behind the final norm of the last one: what the next stage, or the pooling, reads."""
    from ..modulation import Tap

    taps = []
    for number in sorted(stages):
        stage = encoder.stages[number]
        if stage.merge_linear is not None:
            taps.append(Tap(stage.merge_linear, encoder.linear(stage.merge_linear).out_features, norm=stage.merge_norm))
    if len(encoder.stages) - 1 in stages:
        taps.append(Tap(encoder.readout.norm, int(encoder.readout.final_norm.normalized_shape[0])))
    return taps


@method("film", FilmOptions, "a scale and a shift per channel at the end of the units' stages", trained=True, folds=True, order=43)
def film(task: FoldTask, options: FilmOptions) -> Adaptation:
    from ..modulation import learned_modulation
    from ..select import choose_places

    places = choose_places(task.encoder.units, options.units)
    last = len(task.encoder.stages) - 1
    stages = {stage for p in places for stage, _ in p.blocks or ((last, 0),)}
    return learned_modulation(task, options, stage_ends(task.encoder, stages), options.film_rate)
