"""Steering by words and explanations of a sound, asked for by a page."""

from __future__ import annotations

import io
import math
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import soundfile

from ..audio import Waveform, read
from ..data import Dataset
from ..data.clip import make_dataset
from ..evaluation import EvaluationError
from ..meaning.dictionary import MeaningError
from ..meaning.explain import Explanation, explain
from ..meaning.listening import Listening, listen
from ..meaning.steer import steer
from ..models.encoder import Source
from ..report.page.audio import RATE
from ..report.page.pack import base64_of, digits, quantised
from .board import judged
from .entry import Entry
from .problems import Problem

CONCEPTS, UNITS = 10, 6  # others of the dictionary, and units of a concept, that are told
LOUD = 0.7  # of full scale, at the peak of the original


def heard(entry: Entry) -> Listening:
    """The page's clips (or sounds of the package), run once for all that is steered and explained."""
    if "listening" not in entry.kept:
        try:
            entry.kept["listening"] = listen(entry.encoder, clips_of(entry))
        except (MeaningError, EvaluationError) as error:
            raise Problem(422, str(error)) from error
    return entry.kept["listening"]


def clips_of(entry: Entry) -> Dataset | None:
    run = entry.run
    if run is None:
        return None
    clips = [entry.clip(row) for row in entry.page_rows]
    return make_dataset(run.info["dataset"]["name"], clips, names=run.class_names)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON: five digits, and null for what is no number."""
    return [{str(k): plain(v) for k, v in row.items()} for row in table.to_dict("records")]


def plain(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return digits([value], 5)[0] if math.isfinite(value) else None
    return str(value)


def steered(entry: Entry, more: Sequence[str], less: Sequence[str], strength: float, controls: int) -> dict[str, Any]:
    """Gains along text-aligned axes: what they change of these texts and of others; kept under a name that settings take."""
    if not more and not less:
        raise Problem(422, "name a text that should be heard more, or less")
    try:
        found = steer(entry.encoder, more, less, strength=strength, controls=controls, listening=heard(entry))
    except MeaningError as error:
        raise Problem(422, str(error)) from error
    name = f"steered-{secrets.token_hex(4)}"
    entry.lend(name, found.adapter)
    concepts = found.tables["steer_concepts"]
    others = concepts[concepts["side"] == "other"]
    order = (others["gain"] - 1).abs().sort_values(ascending=False).index[:CONCEPTS]
    units = found.tables["steer_units"]
    before = after = None
    if entry.first is not None:
        rows = entry.first.part
        targets = entry.targets[rows.rows]
        before, after = judged(rows.base, targets), judged(entry.bench.scores(found.adapter), targets)
    return {
        "adapter": name,
        "units": records(units[units["chosen"]]),
        "concepts": records(pd.concat([concepts[concepts["side"] != "other"], others.loc[order]])),
        "summary": records(found.tables["steer_summary"]),
        "before": before,
        "after": after,
        "clips": int(found.info["clips_measured"]),
    }


def explained(entry: Entry, source: Source, text: str | None, number: int | None, curves: bool) -> dict[str, Any]:
    """What a sound is made of, concept by concept and unit by unit, and the part of it that speaks for a text, to be heard."""
    if number is not None:
        entry.towards(None, number)
        text = entry.titles[number]
    try:
        given = source.waveform() if hasattr(source, "waveform") else source
        wave = (given.samples, given.sample_rate) if isinstance(given, Waveform) else (given, None)
        found = explain(
            entry.encoder, wave[0], [text] if text else [], sample_rate=wave[1], listening=heard(entry), curves=curves, draws=2
        )  # fmt: skip
    except MeaningError as error:
        raise Problem(422, str(error)) from error
    asked = next(iter(found.sounds))
    sounds, shown = found.sounds[asked], found.maps[asked]
    return {
        "text": asked,
        "score": shown.score,
        "concepts": coded(found),
        "map": quantised(shown.total.float().cpu().numpy(), (0, 1)),
        **{name: heard_as(found, getattr(sounds, name)) for name in ("kept", "removed", "against")},
        "original": heard_as(found, found.original),
        "faithfulness": records(found.tables["explain_faithfulness"]) if curves else [],
        "explained": plain(float(found.info["explained"])),
    }


def coded(found: Explanation) -> list[dict[str, Any]]:
    """The concepts of the code, strongest first, each with the units that give most of its weight."""
    code, units = found.tables["explain_code"], found.tables["explain_units"]
    rows = []
    for row in code.sort_values("weight", ascending=False).to_dict("records"):
        own = units[units["concept"] == row["concept"]]
        best = own.reindex(own["weight"].abs().sort_values(ascending=False).index[:UNITS])
        parts = [
            {"label": str(u["label"]), "share": plain(float(u["weight"])), "score": plain(float(u["score"]))}
            for u in best.to_dict("records")
        ]
        rows.append({**{str(k): plain(v) for k, v in row.items()}, "units": parts})
    return rows


def heard_as(found: Explanation, samples: np.ndarray) -> str:
    """WAV as a data address; all of one explanation at the same volume, so that what is left out is missing."""
    peak = max(float(np.abs(found.original).max()), 1e-9)
    small = read(Waveform(np.asarray(samples, np.float32), found.sample_rate), RATE)
    file = io.BytesIO()
    soundfile.write(file, np.clip(small * (LOUD / peak), -1, 1), RATE, format="WAV", subtype="PCM_16")
    return f"data:audio/wav;base64,{base64_of(np.frombuffer(file.getvalue(), np.uint8))}"
