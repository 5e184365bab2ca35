"""What only a served page has: a start page of several runs and models, and the page of a model without a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from ...models import Encoder
from .audio import SHAPE
from .page import about, counted, filled, head_places


def start_page(title: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Links to runs and models, without a script. An entry has ``url`` and ``title``, and what is known of the rest."""
    return filled("start.html", title, (), entries=entries)


def model_data(encoder: Encoder, title: str, *, media: str = "sound", notes: Sequence[str] = ()) -> dict[str, Any]:
    """The same of a model without a run: its heads, and nothing about clips."""
    policy = {**asdict(encoder.policy), "hash": encoder.policy.hash}
    info = {
        "model": {"name": encoder.name, "revision": encoder.revision},
        "preprocessing": policy,
        "dataset": {"name": "no data"},
        "versions": {name: version(name) for name in ("residual-audio", "torch")},
    }
    extract = f"residual-audio extract {shlex.quote(encoder.name)} DATA --granularity head,moments,direct --out RUN"
    return {
        "meta": {
            **about(info, title, media),
            "dataset": {"name": "no data", "readable": 0, "classes": 0},
            **{"errors": [], "failed": 0, "units": counted(encoder.units), "accuracy": None, "model_notes": [], "name": "live"},
            "notes": [*notes, "There is a model here and no run: no clips, no measures of heads, no classes."],
        },
        "commands": [extract, "residual-audio serve RUN"],
        "missing": dict.fromkeys(("heads", "components", "direct", "ablation_head", "descriptions"), extract),
        "heads": head_places(encoder.units),
        **{name: [] for name in ("classes", "measures", "comparisons", "outcomes", "clips")},
        **dict.fromkeys(("stages", "components", "near", "words", "clusters", "equaliser", "ask")),
        "by_class": {},
        "spectrogram": list(SHAPE),
    }
