"""How methods are judged: the choices that comparisons, few-shot curves and searches share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..adaptation.tuning import Learning
from ..options import option

# What is compared where nothing else is asked for; the first is the baseline.
COMPARED = ("plain", "plain+probe", "residual", "residual-random", "scalar", "top-heads", "fisher-gains", "aligner")
FEW_SHOT = ("plain", "plain+probe", "residual")
JOINED = "+"  # between a method and its classifier


def bare(methods: Sequence[str]) -> list[str]:
    """The methods of ``METHOD`` and ``METHOD+CLASSIFIER``, each once."""
    return list(dict.fromkeys(name.partition(JOINED)[0] for name in methods))


@dataclass(frozen=True)
class Protocol(Learning):
    """Classifiers, folds, prompts, repeats, margin and seed. ``template=None``: the default prompts where the encoder has a text side."""

    classifier: str = option("auto", "How test clips are classified; several by commas, the first for every method's own line.")
    folds: str = option(
        "official",
        "official (the dataset's own; else stratified, keeping groups together) or stratified (random).",
        choices=("official", "stratified"),
    )
    parts: str = option(
        "disjoint",
        "Of each training split: disjoint parts for basis, training and stopping; or report: the first 250 clips give the basis, the "
        "others are learned from and say when to stop, as in a published report.",
        choices=("disjoint", "report"),
    )
    template: str | None = option(
        None, "A set of prompts (sound-of, laion, msclap, plain, instrument, ensemble) or your own text with {}; default: sound-of."
    )
    repeats: int = option(1, "Repeat everything with other seeds.", least=1)
    strengths: str | None = option(
        None, "Score methods that fold at these strengths τ too, comma-separated: 0,0.25,0.5,0.75,1 gives accuracy against cost elsewhere."
    )
    margin: float = option(0.02, "Methods whose difference is shown to be smaller than this share of clips count as equally good.")
    seed: int = option(0, "Seed of splits, random axes and the order of clips.")
