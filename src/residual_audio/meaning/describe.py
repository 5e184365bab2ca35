"""Words for the units of a run: one table of words, one of lists with their scores, and where the coherent heads are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..analysis.groups import group_codes
from ..data.prompts import DEFAULT_TEMPLATE
from ..evaluation.paired import holm
from ..extraction import Run
from ..models import Encoder
from ..options import OptionError
from ..progress import progress
from ..results import Result
from ..units import WRITERS, Unit
from ..workers import one_core_each
from .coherence import count_test
from .dictionary import Dictionary, MeaningError, default_names, load_dictionary
from .lists import APPROXIMATIONS, METHODS, Chooser, Choosing, WordList
from .shares import share_groups, unit_embeddings
from .texts import text_directions

BETWEEN = "; "
FEW = 10  # one unit in so many may be looked at for the time that all will take
MOST_COHERENT = 0.1  # the share of the heads that `coherent_stages` calls the most coherent


@dataclass(frozen=True)
class Description(Result):
    """``tables`` by name: words, descriptions, coherent_stages; with selection also text_alignment, selection, selection_summary."""

    record: ClassVar[str] = "describe"

    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str] = field(default_factory=dict)


def default_dictionary(run: Run) -> tuple[str, ...]:
    """Of the run's model."""
    return default_names(run.info["model"]["name"])


def describe(
    run: Run,
    dictionary: str | Sequence[str] | None = None,
    units: str = "heads",
    *,
    methods: Sequence[str] = METHODS,
    words: int = 5,
    components: int = 5,
    permutations: int = 999,
    resamples: int = 20,
    span: float = 0.99,
    template: str = "plain",
    centre: bool = False,
    select: bool = True,
    class_template: str | None = None,
    seed: int = 0,
    encoder: Encoder | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
) -> Description:
    """Words for every chosen unit (:meth:`.UnitTable.select`) by every method, from its direct shares of the unit-length joint embedding.

    ``words`` are chosen for a unit as a whole (textspan, somp) and for each of its first ``components`` principal components (correlation).
    ``centre`` takes the mean text away first, for models whose texts all lie in one narrow cone. ``select`` adds the alignment of units
    with the class texts and the accuracy with the best k heads. Text embeddings come from the cache or from ``encoder``.
    ``tell(line)`` is told beforehand how long it will take, measured on a few of the units.
    """
    if class_template is not None and not select:
        raise OptionError("--class-template is for the selection of heads, which --no-select leaves out")
    unknown = [m for m in methods if m not in METHODS]
    if unknown or not methods:
        raise MeaningError(f"unknown method {', '.join(unknown)!r}; one or more of {', '.join(METHODS)}")
    how = Choosing(tuple(methods), words, components, permutations, resamples, span, seed)
    opened = cache(lambda: run.open_encoder() if encoder is None else encoder)
    chosen, book = run.units.select(units, only=WRITERS), load_dictionary(default_dictionary(run) if dictionary is None else dictionary)
    if not 2 <= words <= len(book):
        raise MeaningError(f"{words} words per list: at least 2 are needed, and at most the {len(book)} of the dictionary")
    texts = text_directions(run.info, book.words, template, opened)
    if centre:
        texts = F.normalize(texts - texts.mean(0), dim=-1)
    clips = run.clips
    if len(clips) < 3:
        raise MeaningError(f"the run has {len(clips)} readable clips; words need at least 3 to vary over")
    chooser = Chooser(texts, unit_embeddings(run), how, group_codes(clips))
    word_rows: list[dict] = []
    list_rows: list[dict] = []
    runs: list[Tensor] = []

    def lists(shares: Float[Tensor, "clip d"]) -> list[WordList]:
        own = chooser.lists(shares)
        told(1)
        return own

    if tell is not None and (minutes := expected_minutes(run, chosen, chooser)) is not None:
        tell(f"words for {len(chosen)} units: about {minutes:.1f} min, measured on some; --permutations 99 takes a tenth")
    with progress(f"words for {run.info['model']['name']}", len(chosen), advance) as told, one_core_each() as pool:
        for group, shares in share_groups(run, chosen):
            for unit, own in zip(group, pool.map(lists, shares.unbind(1)), strict=True):
                for one in own:
                    word_rows += word_records(unit, one, book, clips)
                    list_rows.append(list_record(unit, one, book, clips, how))
                    runs.append(one.runs)
    if not list_rows:
        raise MeaningError("none of the chosen units varies over these clips, so there is nothing to name")
    tables = {"words": pd.DataFrame(word_rows), "descriptions": pd.DataFrame(list_rows)}
    tables["coherent_stages"] = coherent_stages(tables["descriptions"], torch.stack(runs))
    if select:
        from .selection import selection_tables

        tables |= selection_tables(run, class_template or DEFAULT_TEMPLATE, opened, seed)
    without = "left out: it needs two classes or more, with two clips or more each" if select else "not asked for"
    info = {
        **asdict(how),
        "units": units,
        "dictionary": {"names": sorted(set(book.sources)), "words": len(book), "hash": book.hash},
        "template": template,
        "centre": centre,
        "selection": (class_template or DEFAULT_TEMPLATE) if "selection" in tables else without,
        "clips": len(clips),
        "model": run.info["model"]["name"],
        "dataset": run.info["dataset"]["name"],
        "run": {key: run.info[key] for key in ("model", "dataset", "settings")},
    }
    return Description(tables, info)


def expected_minutes(run: Run, chosen: Sequence[Unit], chooser: Chooser) -> float | None:
    """How long all units will take, from a few that are spread over them (the first of them warms up); None where there are few anyway."""
    count = min(2 * torch.get_num_threads() + 1, len(chosen) // FEW)
    if count < 2:
        return None
    some = [chosen[i * (len(chosen) - 1) // (count - 1)] for i in range(count)]
    shares = [one for _, group in share_groups(run, some) for one in group.unbind(1)]
    with one_core_each() as pool:
        chooser.lists(shares[0])
        began = time.monotonic()
        list(pool.map(chooser.lists, shares[1:]))
    return (time.monotonic() - began) / (count - 1) * len(chosen) / 60


def place_of(unit: Unit) -> dict[str, Any]:
    return {"label": unit.label, "kind": unit.kind, "stage": unit.stage, "block": unit.block, "head": unit.head}


def word_records(unit: Unit, one: WordList, book: Dictionary, clips: pd.DataFrame) -> list[dict]:
    """One row per word."""
    ids, labels = clips["id"].tolist(), clips["label"].tolist()
    return [
        {
            **place_of(unit),
            "method": one.method,
            "component": one.component,
            "rank": rank + 1,
            "word": book.words[word],
            "dictionary": book.sources[word],
            "explained": float(one.choice.explained[rank]),
            "stability": float(one.stability[rank]),
            "clips": BETWEEN.join(ids[c] for c in one.clips[rank]),
            "clip_labels": BETWEEN.join(labels[c] for c in one.clips[rank]),
        }
        for rank, word in enumerate(one.choice.words.tolist())
    ]


def list_record(unit: Unit, one: WordList, book: Dictionary, clips: pd.DataFrame, how: Choosing) -> dict:
    """One row per list, with its scores and what they rest on."""
    return {
        **place_of(unit),
        "method": one.method,
        "component": one.component,
        "words": BETWEEN.join(book.words[w] for w in one.choice.words.tolist()),
        "explained": float(one.choice.explained[-1]) if len(one.choice.explained) else 0.0,
        "variance": one.variance,
        "coherence": one.coherence,
        "z_dictionary": one.z_dictionary,
        "z_null": one.null.z,
        "p_null": one.null.p,
        "stability": float(one.stability.mean()) if len(one.stability) else float("nan"),
        "approximation": APPROXIMATIONS[one.method],
        "null": "clips permuted" if one.method == "correlation" else "coordinates permuted",
        "permutations": how.permutations,
        "resamples": how.resamples,
        "n": len(clips),
    }


def coherent_stages(descriptions: pd.DataFrame, runs: Float[Tensor, "list run"]) -> pd.DataFrame:
    """Where the coherent heads are, by method (of the correlation route: by first components); stage −1 is all of them.

    ``significant``: heads with p ≤ 0.05; ``expected_significant``: their mean number in permuted runs; ``p_count``: how often a run has as
    many (:func:`.coherence.count_test`, ``runs`` as in :class:`.WordList`); ``p_holm``: after Holm over the methods (of a stage: over
    methods and stages). ``share``: of the most coherent tenth of the heads, in this stage; ``expected``: the stage's part of all heads.
    """
    heads = descriptions[(descriptions.kind == "head") & (descriptions.component <= 1)].dropna(subset=["z_null"])
    rows = []
    for method, lists in heads.groupby("method", sort=False):
        count = max(1, round(MOST_COHERENT * len(lists)))
        best = lists.nlargest(count, "z_null")
        for stage, here in [(-1, lists), *lists.groupby("stage")]:
            inside, expected = count if stage == -1 else int((best.stage == stage).sum()), len(here) / len(lists)
            tested = count_test(runs[here.index.tolist()])
            rows.append(
                {
                    "method": method,
                    "stage": stage,
                    "heads": len(here),
                    "most_coherent": inside,
                    "share": inside / count,
                    "expected": expected,
                    "ratio": inside / count / expected,
                    "mean_z_null": float(here.z_null.mean()),
                    "significant": tested.significant,
                    "expected_significant": tested.expected,
                    "p_count": tested.p,
                }
            )
    columns = ["method", "stage", "heads", "most_coherent", "share", "expected", "ratio", "mean_z_null", "significant",
               "expected_significant", "p_count"]  # fmt: skip
    table = pd.DataFrame(rows, columns=columns)
    table["p_holm"] = np.nan
    for family in (table.stage == -1, table.stage >= 0):
        if family.any():
            table.loc[family, "p_holm"] = holm(table.p_count[family].to_numpy(dtype=float))
    return table
