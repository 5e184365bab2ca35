"""A scale and a shift per mel band, behind HTS-AT's batch norm of the spectrogram, into which they fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import OptionError, option
from ..options import EncoderLoop
from . import method

if TYPE_CHECKING:
    from ...models import Encoder
    from ..modulation import Tap
    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class MelOptions(EncoderLoop):
    """Its own rate."""

    mel_rate: float = option(0.02, "Learning rate of `mel`; 0 looks for one.", least=0, grid=(4e-3, 0.02, 0.1))


def band_norm(encoder: Encoder) -> Tap:
    """The batch norm whose channels are the mel bands."""
    from torch import nn

    from ...audio import Preprocessing
    from ..modulation import Tap

    bands = encoder.policy.mel.mels if isinstance(encoder.policy, Preprocessing) else None
    for name, part in encoder.module.named_modules():
        if isinstance(part, nn.BatchNorm2d) and part.num_features == bands and name.endswith("batch_norm"):
            return Tap(name, part.num_features, axis=1)
    raise OptionError(f"{encoder.name} has no batch norm over mel bands, so `mel` cannot be folded there: leave it out; it is for HTS-AT")


@method("mel", MelOptions, "a scale and a shift per mel band (HTS-AT)", whole=True, trained=True, folds=True, suits=band_norm, order=44)
def mel(task: FoldTask, options: MelOptions) -> Adaptation:
    from ..modulation import learned_modulation

    return learned_modulation(task, options, [band_norm(task.encoder)], options.mel_rate, whole=True)
