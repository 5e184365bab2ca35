r"""Why does a clip sound like that to a model? A sparse code over concepts, split by unit; where it is written; and how that sounds.

The clip's unit-length embedding about the mean one, $x = (\hat e - m)/|\hat e - m|$, is what direct shares about their means sum to, so
every unit has an exact part of x, of each concept's score and (:func:`.sparse.split`) of each weight of the code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import soundfile
import torch
from jaxtyping import Float
from torch import Tensor

from ..adaptation.adapter import load_adapter
from ..adaptation.fold import fold
from ..adaptation.gain import ResiDual
from ..audio import Preprocessing
from ..data import Clip, Dataset
from ..models import Encoder
from ..models.pathways import Pathways
from ..results import Result, identity
from ..writing import drafted
from .ask import CONSTANT
from .concepts import Concepts, concepts_for
from .describe import place_of
from .dictionary import MeaningError, default_names
from .faithfulness import Heard, areas, curve_table, evidence, silence_of
from .listening import Listening, default_data, listen, shares_of
from .masks import Grid, largest_cells, masked
from .sparse import Code, sparse_code, split
from .tokens import TokenMap, token_map

PENALTY = {**CONSTANT, "label": "penalty", "kind": "penalty"}


@dataclass(frozen=True)
class Sounds:
    """Windows of sound. ``kept`` is what speaks for a text, ``removed`` the rest, ``against`` what speaks against it."""

    kept: Float[np.ndarray, " sample"]
    removed: Float[np.ndarray, " sample"]
    against: Float[np.ndarray, " sample"]


@dataclass(frozen=True)
class Explanation(Result):
    """``tables``: explain_code, explain_units and, with curves, explain_curves and explain_faithfulness.

    By text: ``maps`` (sum to the cosine with the text's gap-free direction), ``masks`` (1: kept) and ``sounds``; ``original`` is the window
    that the model heard. Invariant: ``sounds[text].kept + sounds[text].removed`` is ``original``.
    """

    record: ClassVar[str] = "explain"

    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    code: Code
    maps: dict[str, TokenMap]
    masks: dict[str, Grid]
    sounds: dict[str, Sounds]
    original: Float[np.ndarray, " sample"]
    sample_rate: int
    errors: dict[str, str] = field(default_factory=dict)

    def write(self, folder: str | Path) -> Path:
        """The tables and, in ``folder/sounds``, WAVs of 32-bit floats: the window, and for each text what is kept, removed and against."""
        folder = super().write(folder)
        waves = {"original": self.original}
        for number, (text, sounds) in enumerate(self.sounds.items()):
            name = file_name(text, number)
            waves |= {f"{name}-kept": sounds.kept, f"{name}-removed": sounds.removed, f"{name}-against": sounds.against}
        for name, wave in waves.items():
            with drafted(folder / "sounds" / f"{name}.wav") as path:
                soundfile.write(path, wave, self.sample_rate, format="WAV", subtype="FLOAT")
        return folder


def file_name(text: str, number: int) -> str:
    """A name that no text can lead out of the folder, and that no two texts share."""
    return f"{number + 1}-{re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')[:40] or 'text'}"


def with_adapter(
    encoder: Encoder, adapter: ResiDual | str | Path, dictionary: str | Sequence[str] | None
) -> tuple[Encoder, list[str] | None]:
    """The model with an adapter folded in, and the dictionary: what is chosen by a model's name is chosen before it gets another."""
    names = default_names(encoder.name) if dictionary is None and encoder.has_text else dictionary
    listed = None if names is None else [names] if isinstance(names, str) else list(names)
    return fold(encoder, adapter if isinstance(adapter, ResiDual) else load_adapter(adapter, encoder)), listed


def explain(
    encoder: Encoder,
    clip: object,
    texts: Sequence[str] = (),
    *,
    sample_rate: int | None = None,
    data: Dataset | str | None = None,
    dictionary: str | Sequence[str] | None = None,
    words: int = 8,
    keep: float = 0.2,
    template: str = "plain",
    curves: bool = True,
    draws: int = 3,
    seed: int = 0,
    adapter: ResiDual | str | Path | None = None,
    listening: Listening | None = None,
) -> Explanation:
    """One sound: a path, a ``synthetic:`` address, or an array with its ``sample_rate``.

    The code has at most ``words`` concepts. Each text of ``texts`` (none: the first concept of the code) gets a map, a mask of the share
    ``keep`` of its cells, and sounds; with ``curves`` also deletion and insertion against other orders, two of them drawn ``draws`` times.
    ``data`` (or ``listening``, clips heard before) gives the mean sound, and the classes of an encoder without texts.
    ``adapter``: folded in first, so that the adapted model is explained.
    """
    if adapter is not None:
        if listening is not None:
            raise MeaningError("listening is of the model without the adapter; fold it first, and listen with the result")
        data = default_data(encoder) if data is None else data
        encoder, dictionary = with_adapter(encoder, adapter, dictionary)
    policy = encoder.policy
    if not isinstance(policy, Preprocessing):
        raise MeaningError(f"{encoder.name} takes images; only sounds can be explained")
    if not 0 < keep < 1 or words < 1:
        raise MeaningError(f"keep {keep:g} of the cells (between 0 and 1) and at least one word, not {words}")
    source = Clip("", clip, "").source if isinstance(clip, str) else encoder.as_sources([clip], sample_rate)[0]
    prepared = encoder.prepare(source)
    if len(prepared.features) != 1 or (policy.fusion and prepared.longer):
        raise MeaningError("an explanation needs a sound in one window; use --crop start or centre, or cut the sound")
    if listening is None:
        listening = listen(encoder, data, seed=seed)
    concepts = concepts_for(listening, texts, dictionary, template)
    features, longer = prepared.features, torch.tensor([prepared.longer])
    parts, labels = centred_parts(listening, features, longer)
    code = sparse_code(parts.sum(0), concepts.directions.numpy(), words)
    asked = [concepts.index(t) for t in texts] or code.support[:1].tolist()
    if not asked:
        raise MeaningError("no concept of the dictionary speaks for this sound; ask for a text (--text), or give another --dictionary")
    tables = code_tables(code, concepts, parts, labels, asked)
    wave = policy.waveforms(source)[0][0]
    silence = silence_of(encoder)
    maps, masks, sounds, found = {}, {}, {}, []
    for index in dict.fromkeys(asked):
        text, direction = concepts.words[index], concepts.directions[index]
        maps[text] = token_map(encoder, features, longer, direction)
        heard = Heard(encoder, features, silence, longer, direction)
        values = evidence(maps[text], heard)
        masks[text], against = largest_cells(values, keep), largest_cells(-values, keep)
        kept = masked(wave, masks[text], policy)
        sounds[text] = Sounds(kept, wave - kept, masked(wave, against, policy))
        if curves:
            found.append(curve_table(heard, values, draws, seed).assign(text=text))
    if found:
        tables["explain_curves"] = pd.concat(found, ignore_index=True)
        by_text = tables["explain_curves"].groupby("text", sort=False)
        tables["explain_faithfulness"] = pd.concat([areas(one).assign(text=text) for text, one in by_text], ignore_index=True)
    info = {"texts": [concepts.words[i] for i in asked], "words": words, "keep": keep, "penalty": code.penalty, "explained": code.explained,
            "concepts": concepts.source, "dictionary_size": len(concepts), "template": template,
            "adapter": str(adapter) if isinstance(adapter, str | Path) else None, "clip": str(clip) if isinstance(clip, str | Path) else "",
            "draws": draws if curves else 0, "seed": seed, "mean_of": {"dataset": listening.dataset.name, "clips": len(listening.dataset)},
            **identity(encoder)}  # fmt: skip
    return Explanation(tables, info, code, maps, masks, sounds, wave, policy.sample_rate, listening.errors)


def centred_parts(listening: Listening, features: Tensor, longer: Tensor) -> tuple[Float[np.ndarray, "part d"], list[dict]]:
    """Every unit's part of x, and the constant's: they sum to the clip's gap-free embedding, of unit length."""
    encoder = listening.encoder
    with torch.no_grad():
        heard = shares_of(encoder, Pathways(encoder), features.to(encoder.device), longer.to(encoder.device))
    parts = torch.cat([heard.shares[0] - listening.shares.mean(0), heard.constant - listening.constant.mean(0)]).double().numpy()
    length = float(np.linalg.norm(parts.sum(0)))
    if length < 1e-9:
        raise MeaningError("this sound is the mean sound, so nothing speaks for or against it")
    return parts / length, [*map(place_of, encoder.units), CONSTANT]


def code_tables(
    code: Code, concepts: Concepts, parts: Float[np.ndarray, "part d"], labels: list[dict], asked: list[int]
) -> dict[str, pd.DataFrame]:
    """``explain_code``: weights and scores; ``explain_units``: what each unit adds to either; each sums to the former over its rows."""
    shown = list(dict.fromkeys([*code.support.tolist(), *asked]))
    directions = concepts.directions.double().numpy()
    scores = parts @ directions[shown].T
    shares, penalty = split(code, parts, directions)
    weights, fixed = np.zeros((len(parts), len(shown))), np.zeros(len(shown))
    weights[:, : len(code.support)], fixed[: len(code.support)] = shares, penalty
    table = pd.DataFrame({"concept": [concepts.words[i] for i in shown], "weight": code.weights[shown], "score": scores.sum(0)})
    units = [
        pd.DataFrame([*labels, PENALTY]).assign(
            concept=concepts.words[index], weight=[*weights[:, j], fixed[j]], score=[*scores[:, j], 0.0]
        )
        for j, index in enumerate(shown)
    ]
    table["asked"] = [i in asked for i in shown]
    return {"explain_code": table, "explain_units": pd.concat(units, ignore_index=True)}
