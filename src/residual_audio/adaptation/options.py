"""Options that several methods share. A method's own dataclass derives from the groups that it reads, and adds what is its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import OptionError, Options, option

if TYPE_CHECKING:
    from ..units import UnitTable
    from .train import Training

RANKINGS = ("fisher", "ablation", "text")
OWN_BASIS = "own"


@dataclass(frozen=True)
class MethodOptions(Options):
    """What every method's options can do. A method without any options uses this class itself."""

    def settled(self, units: UnitTable) -> MethodOptions:
        """The same with everything spelled out that depends on the encoder; this is what is recorded."""
        return self


@dataclass(frozen=True)
class Judged(MethodOptions):
    """How clips are told apart, in training and in the test."""

    classifier: str = option(
        "auto",
        "How clips are classified, and what is learned towards: prompts, centroids, both (learned from both, judged by prompts); "
        "auto: prompts where the encoder has a text side.",
        choices=("auto", "prompts", "centroids", "both"),
    )


@dataclass(frozen=True)
class Selected(MethodOptions):
    """Which units are adapted."""

    units: str = option(
        "heads",
        'Units to adapt: heads, blocks or stages (attention writes), mlps, embedding; with stages, blocks or labels: "S2 S3 heads".',
    )


@dataclass(frozen=True)
class Axes(MethodOptions):
    """Principal axes of the task's own clips, and what becomes of the mean."""

    level: str = option("token", "PCA of all tokens (token) or of each clip's mean (clip).", choices=("token", "clip"))
    mean: str = option("keep", "keep (gains of one change nothing) or drop (as in the papers).", choices=("keep", "drop"))


@dataclass(frozen=True)
class Basis(MethodOptions):
    """Where the axes come from."""

    basis: str = option(OWN_BASIS, "own (a part of the clips), or the folder of another extraction: a transferred basis.")


@dataclass(frozen=True)
class Kept(MethodOptions):
    """Which axes have a gain, and where the gains start."""

    kept: int | float | None = option(None, "Axes with a gain: a number, or a share of the variance such as 0.99; default: all.")
    start: float | None = option(
        None, "Gains start at one on the axes that explain this share of the variance and at zero elsewhere (the papers: 0.95)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kept is not None and not (self.kept >= 1 if isinstance(self.kept, int) else 0 < self.kept < 1):
            raise OptionError(f"--kept: {self.kept} is neither a number of axes nor a share between 0 and 1")


@dataclass(frozen=True)
class Ranked(Selected):
    """Only the best heads of the selection."""

    by: str | None = option(
        None, f"Gains only for the best heads of --units: by {', '.join(RANKINGS)}, judged on the training part.", choices=RANKINGS
    )
    top: int | None = option(
        None, "How many heads a ranking keeps; default: 20, at most half of them.", least=1, flag="top-heads", needs="by"
    )  # fmt: skip

    def settled(self, units: UnitTable) -> MethodOptions:
        from .ranking import with_number

        return with_number(self, units) if self.by is not None else self


@dataclass(frozen=True)
class Loop(Judged):
    """The training loop, as every trained method shares it."""

    epochs: int = option(40, "Most epochs.", least=1)
    patience: int = option(6, "Epochs without a better stopping accuracy before training ends.", least=1)
    batch_size: int = option(64, "Clips per step.", least=1)
    optimiser: str = option("adamw", "adamw, adam or schedulefree.", choices=("adamw", "adam", "schedulefree"))
    decay: float = option(1e-4, "Pull of what is learned towards where it starts; of gains: towards one.", least=0)
    logit_scale: float | None = option(None, "Scale of the cosines; default: the model's own (1 as in the papers).")

    def training(self, rate: float, seed: int, l1: float = 0.0) -> Training:
        """For the loop; a rate of zero looks for one."""
        from .train import Training

        return Training(
            self.epochs, self.patience, self.batch_size, self.optimiser, rate or None, self.decay, l1, seed
        )  # fmt: skip


@dataclass(frozen=True)
class GainLoop(Loop):
    """The loop of gains in the network."""

    rate: float = option(0.02, "Learning rate of gains; 0 looks for one.", least=0, grid=(0.02, 0.1, 0.5))
    l1: float = option(0.0, "Pull of the gains towards zero (L1).", least=0)


@dataclass(frozen=True)
class PresetOptions(Judged, Axes):
    """What presets read: gains that follow from a spectrum, without training."""


@dataclass(frozen=True)
class ShareOptions(Judged, Kept):
    """Gains on direct shares: what is left to choose where the optimiser is the paper's."""

    share_rate: float = option(
        0.0, "Learning rate of gains on shares; 0 looks for one, as in the paper.", least=0, grid=(0.0, 0.03, 0.3)
    )  # fmt: skip
    mean: str = option("keep", "keep (gains of one change nothing) or drop (as in the papers).", choices=("keep", "drop"))
    epochs: int = option(30, "Most epochs.", least=1)
    batch_size: int = option(64, "Clips per step.", least=1)
    decay: float = option(1e-4, "Pull of what is learned towards where it starts; of gains: towards one.", least=0)
    l1: float = option(0.0, "Pull of the gains towards zero (L1).", least=0)
    logit_scale: float | None = option(None, "Scale of the cosines; default: the model's own (1 as in the papers).")
