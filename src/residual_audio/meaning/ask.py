"""Which units move a clip towards a text, which clips show it, and where in a clip's spectrogram it is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from ..data import Clip
from ..extraction import Run
from ..models import Encoder
from ..results import Result
from ..units import WRITERS, Unit
from .describe import BETWEEN, place_of
from .dictionary import MeaningError
from .shares import APPROXIMATION, share_groups, text_shares
from .span import principal_span
from .texts import text_directions
from .tokens import TokenMap, token_map

TOP_CLIPS = 3
CONSTANT = {"label": "constant", "kind": "constant", "stage": -1, "block": -1, "head": -1}


@dataclass(frozen=True)
class Answer(Result):
    """``tables``: ask_units, ask_components, and with a clip ask_map; ``map`` and ``mel``: of that clip."""

    record: ClassVar[str] = "ask"

    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    map: TokenMap | None = None
    mel: pd.DataFrame | None = None
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.info["text"]


def movement(values: Float[Tensor, "clip part"], score: Float[Tensor, " clip"]) -> pd.DataFrame:
    """Of each part: mean, standard deviation, its share of the score's variance, cov(part, score) / var(score), and their correlation.

    Invariant: parts that sum to the score have shares that sum to one.
    """
    x, y = values.double() - values.double().mean(0), score.double() - score.double().mean()
    covariance = y @ x
    norm = x.square().sum(0).sqrt() * y.norm()
    parts = {
        "mean": values.double().mean(0),
        "std": x.square().mean(0).sqrt(),
        "share": covariance / y.square().sum(),
        "correlation": torch.where(norm > 0, covariance / norm, torch.nan),
    }
    return pd.DataFrame({k: v.numpy() for k, v in parts.items()})


def showing(values: Float[Tensor, "clip part"], clips: pd.DataFrame) -> pd.DataFrame:
    """The clips in which each part is largest."""
    ids, labels = clips["id"].tolist(), clips["label"].tolist()
    best = values.topk(min(TOP_CLIPS, len(values)), dim=0).indices.T.tolist()
    rows = [{"clips": BETWEEN.join(ids[i] for i in some), "clip_labels": BETWEEN.join(labels[i] for i in some)} for some in best]
    return pd.DataFrame(rows, columns=["clips", "clip_labels"])


def ask(
    run: Run,
    text: str,
    units: str = "all",
    *,
    components: int = 3,
    top: int = 8,
    clip: str | None = None,
    template: str = "plain",
    encoder: Encoder | None = None,
) -> Answer:
    """The units of a run by their share of the variation of the clips' cosines with ``text``, and the components of the ``top`` ones.

    With ``clip`` (an id) the run's model is opened and that clip is run, for its map over time and frequency.
    """
    opened = cache(lambda: run.open_encoder() if encoder is None else encoder)
    chosen = run.units.select(units, only=WRITERS)
    direction = text_directions(run.info, [text], template, opened)
    values, constant = (part[..., 0] for part in text_shares(run, direction))
    clips, score = run.clips, values.sum(1) + constant
    if float(score.std()) == 0 or len(clips) < 3:
        raise MeaningError(f"the scores of {len(clips)} clips do not vary, so no unit can be said to move them; extract more clips")
    index = [run.units.index(u) for u in chosen]
    parts = torch.cat([values[:, index], constant[:, None]], 1)
    table = pd.concat([pd.DataFrame([*map(place_of, chosen), CONSTANT]), movement(parts, score), showing(parts, clips)], axis=1)
    table["approximation"] = APPROXIMATION
    table = table.sort_values("share", ascending=False, ignore_index=True)
    best = [Unit.parse(label) for label in table.label[table.kind != "constant"].head(top)]
    tables = {"ask_units": table, "ask_components": component_table(run, best, direction[0], score, components)}
    info = {"text": text, "template": template, "units": units, "clips": len(clips), "score_mean": float(score.mean()),
            "score_std": float(score.std()), "model": run.info["model"]["name"], "dataset": run.info["dataset"]["name"],
            "run": {key: run.info[key] for key in ("model", "dataset", "settings")}}  # fmt: skip
    if clip is None:
        return Answer(tables, info)
    written, mel, seconds = clip_map(run, clip, direction[0], opened())
    return Answer({**tables, "ask_map": map_table(written, text, clip, seconds)}, {**info, "clip": clip}, written, mel)


def component_table(run: Run, units: list[Unit], direction: Float[Tensor, " d"], score: Float[Tensor, " clip"], count: int) -> pd.DataFrame:
    """The same measures for the first principal components of some units; ``along``: the cosine of the component's axis with the text."""
    rows = []
    for group, shares in share_groups(run, units):
        for i, unit in enumerate(group):
            span = principal_span(shares[:, i])
            along = span.axes[:count] @ direction.double()
            moved = span.scores[:, :count] * along
            part = pd.concat([movement(moved, score).drop(columns="mean"), showing(moved, run.clips)], axis=1)
            part.insert(0, "along", along.numpy())
            part.insert(0, "variance", span.ratio[:count].numpy())
            part.insert(0, "component", range(1, len(part) + 1))
            rows.append(pd.concat([pd.DataFrame([place_of(unit)] * len(part)), part], axis=1))
    return pd.concat(rows).sort_values("share", ascending=False, ignore_index=True)


def clip_map(run: Run, clip: str, direction: Float[Tensor, " d"], encoder: Encoder) -> tuple[TokenMap, pd.DataFrame, float]:
    """One clip through the run's model: its map, the mel spectrogram, and its length in seconds."""
    rows = run.clips[run.clips["id"] == clip]
    if rows.empty:
        raise MeaningError(f"the run has no readable clip {clip!r}; ids are in its clips.parquet, such as {run.clips['id'].iloc[0]}")
    row = rows.iloc[0]
    prepared = encoder.prepare(Clip(row["id"], row["path"], row["label"]).source)
    seconds = getattr(encoder.policy, "seconds", None)
    if len(prepared.features) != 1 or seconds is None:
        raise MeaningError("a map needs a sound in one window; extract without --crop windows")
    written = token_map(encoder, prepared.features, torch.tensor([prepared.longer]), direction)
    mel = pd.DataFrame(prepared.features[0, 0].numpy(), columns=[str(i) for i in range(prepared.features.shape[-1])])
    return written, mel, seconds


def map_table(written: TokenMap, text: str, clip: str, seconds: float) -> pd.DataFrame:
    """One row per cell: ``value`` sums to the score over all cells; ``units`` is the part of it that units wrote."""
    total, units = written.total, written.of()
    rows, columns = total.shape
    table = pd.DataFrame(
        {
            "frequency": [f for f in range(rows) for _ in range(columns)],
            "time": list(range(columns)) * rows,
            "seconds": [seconds * t / columns for t in range(columns)] * rows,
            "value": total.flatten().double().cpu().numpy(),
            "units": units.flatten().double().cpu().numpy(),
        }
    )
    return table.assign(text=text, clip=clip, score=written.score, window=seconds)
