r"""Steer an encoder by words: gains along text-aligned axes of the units that carry a text. Nothing is trained.

The *gain* of a text that a change realises is the slope of its scores after on those before, over clips: 1 where nothing changed, 1 + α
where all of what the scores vary by was raised by α. Scores are cosines with gap-free directions (:mod:`.concepts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float

from ..adaptation.adapter import save_adapter
from ..adaptation.attach import attached
from ..adaptation.gain import ResiDual
from ..adaptation.streams import Streams, advanced, first_block
from ..data import Dataset
from ..evaluation.significance import mean_intervals
from ..models import Encoder
from ..progress import progress
from ..results import Result, provenance
from .concepts import Concepts
from .dictionary import MeaningError
from .listening import Listening, listen
from .plan import Plan, plan
from .textaxes import steering

CONTROLS = {
    "random axes": "the same units and gains, axes at random",
    "random units": "text-aligned axes of other units of the same stages",
}
STRONGEST = 4.0


@dataclass(frozen=True)
class Steered(Result):
    """``adapter`` attaches, saves and folds like any other. ``tables``: steer_units (what was chosen), steer_concepts (the gain of every
    concept), steer_summary (against the controls; None of them where ``controls`` is 0)."""

    record: ClassVar[str] = "steer"

    adapter: ResiDual
    encoder: Encoder
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str] = field(default_factory=dict)

    def save(self, folder: str | Path, replace: bool = False) -> Path:
        """As an ordinary adapter, for ``attached``, ``fold`` and every ``--adapter``."""
        return save_adapter(folder, self.encoder, self.adapter, replace)

    def write(self, folder: str | Path, replace: bool = False) -> Path:
        """The adapter, and beside it the tables and the record."""
        return super().write(self.save(folder, replace))


def slopes(before: Float[np.ndarray, "clip text"], after: Float[np.ndarray, "clip text"]) -> Float[np.ndarray, "clip text"]:
    r"""Per clip, what it adds to the change of the slope: the mean over clips is the slope of after on before, minus 1.

    $\psi_i = b + [(x_i - \bar x)(\Delta_i - \bar\Delta) - b (x_i - \bar x)^2] / \mathrm{var}(x)$ with $\Delta = y - x$ and b its slope: the
    linearisation by which resampling clips resamples the slope.
    """
    x, change = before - before.mean(0), after - before
    change = change - change.mean(0)
    variance = (x**2).mean(0)
    slope = (x * change).mean(0) / variance
    return slope + (x * change - slope * x**2) / variance


def steered_scores(streams: Streams, rows: np.ndarray, adapter: ResiDual, concepts: Concepts) -> Float[np.ndarray, "clip word"]:
    """Scores of clips with the adapter at work: a whole run of the network from the first changed block on."""
    with attached(streams.encoder, adapter):
        embedded = streams.embed(rows)
    return (F.normalize(embedded, dim=-1).float().cpu() @ concepts.directions.T).double().numpy()


def steer(
    encoder: Encoder,
    more: Sequence[str] = (),
    less: Sequence[str] = (),
    *,
    strength: float = 1.0,
    data: Dataset | str | None = None,
    dictionary: str | Sequence[str] | None = None,
    by: str = "shares",
    units: str = "heads mlps",
    top: int = 24,
    template: str = "plain",
    controls: int = 19,
    seed: int = 0,
    listening: Listening | None = None,
    advance: Callable[[int], object] | None = None,
) -> Steered:
    """Raise what the encoder hears of some texts and lower what it hears of others, without training; measured on clips held out.

    In the ``top`` units of each text (:func:`.plan.rank`), the text-aligned axis gets the gain 1 + ``strength`` or 1 − ``strength``.
    ``data``: the clips (default: sounds of the package); half of them choose, the other half measure. ``controls``: how often each
    control is drawn. Where the encoder has no texts, texts name classes of ``data``. ``listening``: clips heard
    before, instead of ``data``.
    """
    if not 0 <= strength <= STRONGEST:
        raise MeaningError(
            f"a strength of {strength:g}: choose from 0, which changes nothing, to {STRONGEST:g}; 1 doubles more and mutes less"
        )
    if listening is None:
        listening = listen(encoder, data, seed=seed)
    made = plan(listening, more, less, by=by, units=units, top=top, dictionary=dictionary, template=template)
    notes = {"method": "steer", "more": list(made.more), "less": list(made.less), "strength": strength, "by": by, "units": units,
             "top": top, "concepts": made.concepts.source, "dataset": listening.dataset.name}  # fmt: skip
    adapter = made.adapter(strength, notes)
    drawn = {name: [] for name in CONTROLS} if not controls else control_adapters(made, adapter, units, strength, controls, seed)
    tables = {"steer_units": unit_table(made), **effects(made, adapter, drawn, seed, advance)}
    info = {**notes, "controls": controls, "seed": seed, "template": template, "clips_chosen_on": len(listening.fit),
            "clips_measured": len(listening.test), **provenance(encoder, listening.dataset)}  # fmt: skip
    return Steered(adapter, encoder, tables, info, listening.errors)


def unit_table(made: Plan) -> pd.DataFrame:
    """What was ranked; ``alignment``: what part of the text's weight in a chosen unit lies along its one axis."""
    alignment = {key: axis.alignment for key, axis in made.axes.items()}
    found = [alignment.get((text, label), np.nan) for text, label in zip(made.ranked.text, made.ranked.label, strict=True)]
    side = ["more" if text in made.more else "less" for text in made.ranked.text]
    return made.ranked.assign(side=side, alignment=found)


def control_adapters(made: Plan, adapter: ResiDual, units: str, strength: float, count: int, seed: int) -> dict[str, list[ResiDual]]:
    """Seeded: random orthonormal axes in the same units with the same gains; each text's own axes in as many other units of its stages."""
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    listening = made.listening
    turned = [replace(adapter, sets=tuple(replace(s, axes=random_axes(s.axes, generator)) for s in adapter.sets)) for _ in range(count)]
    stages = set(made.chosen.stage)
    pool = [u.label for u in listening.encoder.units.select(units, only=("head", "mlp")) if u.stage in stages]
    pairs = []
    for _ in range(count):
        own = []
        for text, chosen in made.chosen.groupby("text", sort=False):
            free = [label for label in pool if label not in set(chosen.label)] or pool
            own += [(str(text), label) for label in rng.choice(free, min(len(chosen), len(free)), replace=False)]
        pairs.append(own)
    axes = made.axes_of(list(dict.fromkeys(pair for own in pairs for pair in own)))
    others = [steering(listening, made.changes({p: axes[p].axis for p in own}, strength), strength) for own in pairs]
    return dict(zip(CONTROLS, (turned, others), strict=True))


def random_axes(like: Float[torch.Tensor, "unit axis d"], generator: torch.Generator) -> Float[torch.Tensor, "unit axis d"]:
    """Orthonormal, of the same shape."""
    units, count, d = like.shape
    return torch.linalg.qr(torch.randn(units, d, d, generator=generator, dtype=torch.float64)).Q.mT[:, :count].to(like)


def effects(
    made: Plan, adapter: ResiDual, drawn: dict[str, list[ResiDual]], seed: int, advance: Callable[[int], object] | None = None
) -> dict[str, pd.DataFrame]:
    """The gain that every concept got on the clips of ``test``, and the targets against the others, for the adapter and each control."""
    listening, concepts = made.listening, made.concepts
    every = [adapter, *(one for some in drawn.values() for one in some)]
    held = replace(listening.inputs, values=listening.inputs.values[listening.test], longer=listening.inputs.longer[listening.test])
    rows, groups = np.arange(len(held)), [listening.dataset.groups[i] for i in listening.test]
    before = (listening.embeddings[listening.test] @ concepts.directions.T).double().numpy()
    with progress(f"steered {listening.encoder.name}", len(every), advance) as told:
        streams: dict[int, Streams] = {}
        changed = []
        for one in every:
            block = first_block(listening.encoder, [s.place for s in one.sets])
            usable = max((b for b in streams if b <= block), default=None)
            if usable is None:
                usable, streams[block] = block, advanced(held, block)
            changed.append(slopes(before, steered_scores(streams[usable], rows, one, concepts)))
            told(1)
    targets = np.array([concepts.index(t) for t in (*made.more, *made.less)])
    signs = np.array([made.sign(t) for t in (*made.more, *made.less)])
    value, low, high = mean_intervals(changed[0], groups, seed=seed)
    asked = dict(zip(targets.tolist(), signs, strict=True))
    near = concepts.directions @ concepts.directions[targets].T
    table = pd.DataFrame(
        {
            "concept": concepts.words,
            "side": ["more" if asked.get(i) == 1 else "less" if asked.get(i) == -1 else "other" for i in range(len(concepts))],
            "gain": 1 + value,
            "low": 1 + low,
            "high": 1 + high,
            "nearest_target": [concepts.words[targets[i]] for i in near.abs().argmax(1).tolist()],
            "cosine": near.gather(1, near.abs().argmax(1, keepdim=True))[:, 0].double().numpy(),
        }
    ).sort_values("gain", ascending=False, ignore_index=True)
    rows_of = {"steered": changed[:1]}
    for name, some in drawn.items():
        start = 1 + sum(len(drawn[n]) for n in list(drawn)[: list(drawn).index(name)])
        rows_of[name] = changed[start : start + len(some)]
    return {"steer_concepts": table, "steer_summary": summary(rows_of, targets, signs, groups, seed)}


def summary(changed: dict[str, list[np.ndarray]], targets: np.ndarray, signs: np.ndarray, groups: Sequence[str], seed: int) -> pd.DataFrame:
    """One row for the steered model and one per control. ``target``: the mean change of the targets' gains in the wanted sense; ``others``:
    the mean size of the change of all other concepts; ``difference`` of the two, with a 95 % interval over groups of clips (steered) or
    over the draws of a control. ``p``: the share of draws, this one included, whose difference reaches that of the steered model."""
    rows, best = [], np.nan
    for name, some in changed.items():
        if not some:
            continue
        parts = np.array([apart(psi, targets, signs) for psi in some])  # [draw, (target, others, difference), clip]
        means = parts.mean(2)
        if name == "steered":
            value, low, high = mean_intervals(parts[0].T, groups, seed=seed)
            best = value[2]
        else:
            value, (low, high) = means.mean(0), np.quantile(means, [0.025, 0.975], axis=0)
        reached = (1 + (means[:, 2] >= best).sum()) / (1 + len(some)) if name != "steered" else np.nan
        rows.append({"model": name, "draws": len(some), "target": value[0], "target_low": low[0], "target_high": high[0],
                     "others": value[1], "difference": value[2], "low": low[2], "high": high[2], "p": reached})  # fmt: skip
    return pd.DataFrame(rows)


def apart(psi: Float[np.ndarray, "clip word"], targets: np.ndarray, signs: np.ndarray) -> Float[np.ndarray, "3 clip"]:
    """Per clip: of the targets in the wanted sense, of the size of the others, and their difference."""
    rest = np.delete(np.arange(psi.shape[1]), targets)
    wanted = (psi[:, targets] * signs).mean(1)
    size = (psi[:, rest] * np.sign(psi[:, rest].mean(0))).mean(1) if len(rest) else np.zeros(len(psi))
    return np.stack([wanted, size, wanted - size])
