"""Options that several methods share. A method's own dataclass derives from the groups that it reads, and adds what is its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import OptionError, Options, option
from . import defaults

if TYPE_CHECKING:
    from ..units import UnitTable
    from .train import Training

RANKINGS = ("fisher", "ablation", "text")
OWN_BASIS = "own"
PULL = "Pull of what is learned towards where it starts (gains: towards one), by the square of the change."
DECAYS = (1e-6, 1e-4)


@dataclass(frozen=True)
class MethodOptions(Options):
    """What every method's options can do. A method without any options uses this class itself."""

    def settled(self, units: UnitTable) -> MethodOptions:
        """The same with everything spelled out that depends on the encoder; this is what is recorded."""
        return self


@dataclass(frozen=True)
class Aimed(MethodOptions):
    """What clips are moved towards; how they are classified afterwards is no matter of the method."""

    towards: str = option(
        "auto",
        "What is learned towards: prompts, centroids (of the classes, which move along) or both; auto: prompts where the encoder has a "
        "text side.",
        choices=("auto", "prompts", "centroids", "both"),
    )


@dataclass(frozen=True)
class Selected(MethodOptions):
    """Which units are adapted."""

    units: str = option(
        defaults.UNITS,
        "Units to adapt: heads, blocks or stages (attention writes), mlps, embedding; with stages, blocks, labels or `last` (the last two "
        'blocks): "S2 S3 heads".',
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


def check_axes(flag: str, number: int | float | None) -> None:
    """All, a number of axes, or a share of the variance."""
    if number is not None and not (number >= 1 if isinstance(number, int) else 0 < number < 1):
        raise OptionError(f"{flag}: {number} is neither a number of axes nor a share between 0 and 1")


def first_to_last(flag: str, text: str, least: int) -> tuple[int, int]:
    """``"5-15"`` → (5, 15), both included; a single number stands for itself."""
    first, dash, last = text.strip().partition("-")
    if not first.isdigit() or not (last if dash else first).isdigit() or not least <= int(first) <= int(last or first):
        raise OptionError(f"{flag}: {text!r} is no FIRST-LAST such as {least}-{least + 2}, counted from {least}")
    return int(first), int(last or first)


@dataclass(frozen=True)
class Kept(MethodOptions):
    """Which axes are changed."""

    kept: int | float | None = option(
        None, "Axes that are changed: a number, or a share of the variance such as 0.99; others pass unchanged. Default: all."
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_axes("--kept", self.kept)


@dataclass(frozen=True)
class Retained(Kept):
    """Which axes are changed, and what becomes of the others."""

    retain: int | float | None = option(
        None, "Axes that are changed, as with --kept, while the others are dropped, as in the paper. Default: nothing is dropped."
    )
    components: str | None = option(
        None, "Change only the axes FIRST-LAST, counted from one, such as 5-15; others pass unchanged. Default: all."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_axes("--retain", self.retain)
        if self.kept is not None and self.retain is not None:
            raise OptionError("--kept lets other axes pass and --retain drops them; give one of the two")
        if self.components is not None:
            first_to_last("--components", self.components, 1)
            if self.kept is not None or self.retain is not None:
                raise OptionError("--components names the axes that --kept and --retain count; give one of them")

    @property
    def band(self) -> tuple[int, int] | None:
        """The axes that are changed, where they are named: first and last, counted from one."""
        return None if self.components is None else first_to_last("--components", self.components, 1)


@dataclass(frozen=True)
class Started(MethodOptions):
    """Where gains start."""

    start: float | None = option(
        None, "Gains start at one on the axes that explain this share of the variance and at zero elsewhere (the papers: 0.95)."
    )


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
class Loop(Aimed):
    """The training loop, as every trained method shares it."""

    epochs: int = option(defaults.EPOCHS, "Most epochs.", least=1)
    patience: int = option(defaults.PATIENCE, "Epochs without a better stopping accuracy before training ends.", least=1)
    batch_size: int = option(defaults.BATCH, "Clips per step.", least=1)
    optimiser: str = option("adamw", "adamw, adam or schedulefree.", choices=("adamw", "adam", "schedulefree"))
    decay: float = option(defaults.DECAY, PULL, least=0, grid=DECAYS)
    logit_scale: float | None = option(None, "Scale of the cosines; default: the model's own (1 as in the papers).")
    keep_answers: float = option(
        0.0, "Weight of the squared distance of clips' embeddings from the old model's: keeps its other answers.", least=0
    )

    weight_decay: float = option(
        0.0, "The optimiser's own decay, towards zero, as in a published report (adamw, schedulefree); --decay pulls towards the start.",
        least=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight_decay and self.optimiser == "adam":
            raise OptionError("--weight-decay is of adamw and schedulefree; Adam has none of its own")

    def training(self, rate: float, seed: int, l1: float = 0.0) -> Training:
        """For the loop; a rate of zero looks for one."""
        from .train import Training

        return Training(
            self.epochs, self.patience, self.batch_size, self.optimiser, rate or None, self.decay, l1, seed, weight_decay=self.weight_decay
        )  # fmt: skip


@dataclass(frozen=True)
class EncoderLoop(Loop):
    """The loop of what runs the encoder at every step."""

    precision: str = option(
        "float32", "Of products while learning: float32, bf16, or auto (bf16 where this machine is faster with it). Tests run in float32.",
        choices=("float32", "bf16", "auto"),
    )  # fmt: skip

    drop_tokens: float = option(
        0.0, "Share of a clip's tokens that a step of learning leaves out, drawn anew each time: steps get cheaper, and less is learned by "
        "heart. For encoders without windows (Whisper, AST, ViT …).", least=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drop_tokens >= 1:
            raise OptionError(f"--drop-tokens: {self.drop_tokens:g} leaves nothing to learn from; give less than 1, such as 0.6")

    def training(self, rate: float, seed: int, l1: float = 0.0) -> Training:
        from dataclasses import replace

        return replace(super().training(rate, seed, l1), precision=self.precision, drop_tokens=self.drop_tokens)


@dataclass(frozen=True)
class GainLoop(EncoderLoop):
    """The loop of forms in the network."""

    rate: float = option(
        defaults.RATE, "Learning rate of gains; matrices learn at a tenth of it. 0 looks for one.", least=0, grid=(0.02, 0.1, 0.5)
    )
    l1: float = option(0.0, "Pull of the gains, or of a matrix's entries, towards zero (L1).", least=0)


@dataclass(frozen=True)
class PresetOptions(Axes):
    """What presets read: gains that follow from a spectrum, without training. Every preset has blocks of its own to start with."""

    blocks: str = option("0-1", "Blocks whose heads a preset changes, FIRST-LAST, counted from zero through all stages.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.block_range  # noqa: B018

    @property
    def block_range(self) -> tuple[int, int]:
        return first_to_last("--blocks", self.blocks, 0)


@dataclass(frozen=True)
class LouderOptions(PresetOptions):
    """Of presets that amplify."""

    factor: float = option(1.5, "Gain of the axes that a preset makes louder; the report names no number.", least=0)


@dataclass(frozen=True)
class ShareOptions(Aimed, Kept, Started):
    """Gains on direct shares: what is left to choose where the optimiser is the paper's."""

    share_rate: float = option(
        0.0, "Learning rate of gains on shares; 0 looks for one, as in the paper.", least=0, grid=(0.0, 0.03, 0.3)
    )  # fmt: skip
    mean: str = option("keep", "keep (gains of one change nothing) or drop (as in the papers).", choices=("keep", "drop"))
    epochs: int = option(30, "Most epochs.", least=1)
    batch_size: int = option(64, "Clips per step.", least=1)
    decay: float = option(1e-4, PULL, least=0, grid=DECAYS)
    l1: float = option(0.0, "Pull of the gains towards zero (L1).", least=0)
    logit_scale: float | None = option(None, "Scale of the cosines; default: the model's own (1 as in the papers).")
