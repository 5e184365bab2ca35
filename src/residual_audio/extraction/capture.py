"""One batch through the encoder, and everything that was asked for of it, as arrays with one row per window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..decomposition.joint import JointWeights
from ..models import Encoder, EncoderError
from ..models.attention import Reader
from ..models.pathways import Pathways
from ..models.readings import (
    attention_reach,
    attention_sketches,
    direct_shares,
    end_mean,
    entry_means,
    head_map,
    mlp_means,
    pooled_heads,
    token_moments,
)
from ..models.recording import Keep, Recording, recorded
from ..spectra import Moments
from ..units import Unit

# Numbers to which the attention matrix of a head on a clip is sketched; matrices that have fewer stay whole.
SKETCH = 512
GRANULARITIES = ("head", "mlp", "block", "stage", "embedding", "moments", "direct", "tokens", "attention")


@dataclass(frozen=True)
class Captured:
    """What one batch gave: arrays by name with one row per window, and moments over all tokens."""

    arrays: dict[str, Tensor]
    moments: Moments | None


class Capture:
    """Runs batches; prepares once what every batch needs (:class:`Pathways`)."""

    def __init__(self, encoder: Encoder, granularity: Sequence[str], token_units: Sequence[Unit] = (), sketch: int = SKETCH) -> None:
        self.encoder, self.wanted = encoder, frozenset(granularity)
        if encoder.replays is not None and (absent := [g for g in granularity if g not in encoder.replays]):
            raise EncoderError(
                f"{encoder.name}: {', '.join(absent)} cannot be had of this exported file, which recorded {', '.join(encoder.replays)}; "
                "export it again with --record, or use the checkpoint itself"
            )
        readers = {site.key: Reader(encoder, site, sketch) for site in encoder.sites}
        self.readers = readers if "attention" in self.wanted else None
        self.token_units = tuple(token_units) if "tokens" in self.wanted else ()
        self.ways = Pathways(encoder)

    @property
    def joint(self) -> JointWeights | None:
        """The projection into the joint space, or None where the pooled output is the embedding."""
        return self.ways.joint

    @property
    def keep(self) -> Keep:
        """What a recording must hold: token maps only where shares or maps need them, means otherwise."""

        def level(mean: bool, tokens: bool) -> Literal["tokens", "mean"] | None:
            return "tokens" if tokens else "mean" if mean else None

        wanted, direct = self.wanted, "direct" in self.wanted
        return Keep(
            heads=level(bool(wanted & {"head", "moments"}), direct or "tokens" in wanted),
            mlps=level("mlp" in wanted, direct),
            entries=level("block" in wanted, False),
            ends=level("stage" in wanted, direct),
            input=direct,
            moments="moments" in wanted,
            attention=self.readers,
        )

    @torch.inference_mode()
    def run(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Captured:
        """Encode a batch and read off what was asked for."""
        if self.encoder.replays is not None:
            return Captured(*self.encoder.replay(features, self.wanted))
        recording = recorded(self.encoder, features, longer, self.keep)
        moments = token_moments(recording, self.encoder.units) if "moments" in self.wanted else None
        return Captured(self.arrays(recording), moments)

    def arrays(self, recording: Recording) -> dict[str, Tensor]:
        """What was asked for, read off a recording that keeps :attr:`keep`."""
        units, wanted = self.encoder.units, self.wanted
        arrays = {"embedding.joint": recording.embedding, "embedding.pooled": recording.pooled}
        if "head" in wanted:
            arrays["head"] = pooled_heads(recording, units)
        for stage in range(len(self.encoder.stages)):
            if "mlp" in wanted:
                arrays[f"mlp.{stage}"] = mlp_means(recording, units, stage)
            if "block" in wanted:
                arrays[f"block.{stage}"] = entry_means(recording, units, stage)
            if "stage" in wanted:
                arrays[f"stage.{stage}"] = end_mean(recording, units, stage)
            if "attention" in wanted:
                arrays[f"attention.{stage}"] = attention_sketches(recording, units, stage)
        if "attention" in wanted:
            arrays["attention.reach"] = attention_reach(recording, units)
        if "direct" in wanted:
            shares = direct_shares(recording, self.ways)
            arrays |= {"direct.units": shares.units, "direct.constant": shares.constant}
            if shares.held is not None:
                arrays |= {"direct.ratio": shares.held.ratio, "direct.scale": shares.held.scale}
        return arrays | {f"tokens.{unit.label}": head_map(recording, self.ways, unit) for unit in self.token_units}
