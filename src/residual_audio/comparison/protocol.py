"""How methods are judged: the choices that comparisons, few-shot curves and searches share."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Options, option

# What is compared where nothing else is asked for; the first is the baseline.
COMPARED = ("plain", "probe", "residual", "residual-random", "head-scalar", "top-heads", "fisher-gains", "aligner")
FEW_SHOT = ("plain", "probe", "residual")


@dataclass(frozen=True)
class Protocol(Options):
    """Folds, prompts, repeats, tuning, margin and seed. ``template=None``: the default prompts where the encoder has a text side."""

    folds: str = option(
        "official",
        "official (the dataset's own; else stratified, keeping groups together) or stratified (random).",
        choices=("official", "stratified"),
    )
    template: str | None = option(
        None, "A set of prompts (sound-of, laion, msclap, plain, instrument, ensemble) or your own text with {}; default: sound-of."
    )
    repeats: int = option(1, "Repeat everything with other seeds.", least=1)
    tune: bool = option(False, "Choose the rate of every trained method in each fold, on its stopping part, from a grid of equal size.")
    again: bool = option(False, "Learn once more from all clips outside the test, for as long as the stopping part said.")
    margin: float = option(0.02, "Methods whose difference is shown to be smaller than this share of clips count as equally good.")
    seed: int = option(0, "Seed of splits, random axes and the order of clips.")
