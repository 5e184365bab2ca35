"""The protocols behind published accuracies: gains by subset of stages, and the baselines beside them.

The final report's (its appendices A and D): up to 2,000 clips, evenly over the classes; shuffled stratified folds; of each training split
the first 250 clips give the bases, the others train the gains and say when to stop; gains of one on the axes that explain 0.95 of a head's
variance, of zero elsewhere; AdamW, rate 5e-3, weight decay 5e-2, at most 40 epochs, patience 5; "this is the sound of {}".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from ..adaptation.recipe import Recipe
from ..comparison.compare import Comparison, compare
from ..comparison.protocol import Protocol
from ..comparison.search import search
from ..comparison.space import MOST_BLOCKS, stage_trials
from ..comparison.sweep import place_of
from ..units import UnitTable
from . import rows as made
from .bench import Bench
from .draws import evenly, in_random_folds
from .rows import AS_PUBLISHED, Row

MOST = 2000
EARLIER = "arcioni-earlier"
HEADS_RECIPE = Recipe(
    form="gains", start=0.95, mean="drop", logit_scale=1.0, optimiser="adamw", rate=5e-3, decay=0.0, weight_decay=5e-2, epochs=40,
    patience=5,
)  # fmt: skip
# One basis per stage, mean dropped, cosines without a scale; all of its epochs.
STAGE_RECIPE = Recipe(form="gains", mean="drop", logit_scale=1.0, optimiser="adam", rate=0.01, decay=0.0, epochs=30, patience=30)
OURS_RECIPE = Recipe(form="gains")


def last_groups(units: UnitTable) -> dict[str, str]:
    """The published subsets (the last stage, the last two, all), by their published names; of blocks, where there is one stage."""
    places = [f"S{s}" for s in range(len(units.heads))]
    if len(places) == 1:
        places = [f"S0B{b}" for b in range(len(units.heads[0]))]
    sizes = dict.fromkeys(min(size, len(places)) for size in (1, 2, len(places)))
    return {short(" ".join(places[-size:])): f"{' '.join(places[-size:])} heads" for size in sizes}


def short(selection: str) -> str:
    """``"S2 S3 heads"`` → ``2+3``; blocks keep their labels."""
    return "+".join(re.sub(r"^S(\d+)$", r"\1", word) for word in selection.split() if word.startswith("S"))


def stage_sets(units: UnitTable) -> dict[str, str]:
    """Every set of stages, one basis per stage; of an encoder of one stage, of its blocks: all sets of up to four, else each and all."""
    if len(units.heads) > 1 or len(units.heads[0]) <= MOST_BLOCKS:
        kind = "stages" if len(units.heads) > 1 else "blocks"
        selections = [trial.recipe["units"] for trial in stage_trials(units, Recipe(), kind)]
    else:
        every = [f"S0B{b}" for b in range(len(units.heads[0]))]
        selections = [*(f"{block} blocks" for block in every), f"{' '.join(every)} blocks"]
    return {short(selection): selection for selection in selections}


def stage_subsets(bench: Bench, names: Sequence[str]) -> list[Row]:
    """Gains on the heads of the published subsets of stages, cross-validated; and what choosing among them is worth (nested)."""
    name, rows, subsets = names[0], list[Row](), last_groups(bench.encoder.units)
    data = evenly(bench.datasets[name], MOST, bench.seed)
    for protocol in bench.protocols:
        theirs = protocol == AS_PUBLISHED
        recipe, judged = (HEADS_RECIPE, in_random_folds(data, bench.seed)) if theirs else (OURS_RECIPE, data)
        how = Protocol(seed=bench.seed, again=not theirs, parts="report" if theirs else "disjoint")
        folder = bench.out / "kfold" / f"{place_of(data.name)}-{'report' if theirs else 'ours'}"
        searched = search(
            bench.encoder, judged, folder, "grid", bench.recipe(recipe), how, settings=["units=" + ",".join(subsets.values())],
            workers=bench.workers, tell=bench.tell,
        )  # fmt: skip
        by_units = {t.trial.recipe["units"]: t.comparison.cells for t in searched.tried}
        plain = next(iter(by_units.values()))
        rows += made.method_rows(plain, name, protocol, {"plain": "zero-shot"})
        for index, selection in subsets.items():
            rows += made.method_rows(by_units[selection], name, protocol, {"residual": f"residual-heads {index}"})
        place = {"dataset": name, "level": "method", "index": "residual-heads nested", "measure": "accuracy", "protocol": protocol}
        rows.append({**place, "ours": 100 * searched.nested.value, "std": 100 * searched.picks.accuracy.std(ddof=0)})
        pair = list(subsets.values())[min(1, len(subsets) - 1)]
        rows.append(made.gain_row(by_units[pair], {**place, "source": EARLIER, "index": "residual-heads, earlier run"}))
    return rows


def on_stages(bench: Bench, name: str, protocol: str, selection: str, methods: Sequence[str]) -> Comparison:
    """Gains on one basis per stage, on the dataset's own folds."""
    data, theirs = bench.datasets[name], protocol == AS_PUBLISHED
    recipe = (STAGE_RECIPE if theirs else OURS_RECIPE).changed(units=selection)
    prompts = "laion" if bench.encoder.has_text else None
    folder = bench.out / "stages" / f"{place_of(data.name)}-{'report' if theirs else 'ours'}" / selection.replace(" ", "_")
    return compare(
        bench.encoder, data, folder, methods, bench.recipe(recipe), Protocol(template=prompts, seed=bench.seed, again=not theirs),
        workers=bench.workers, tell=bench.tell,
    )  # fmt: skip


def baselines(bench: Bench, names: Sequence[str]) -> list[Row]:
    """As it is, gains on one basis of the first stage, and a linear layer: as it was trained there, and our probe."""
    name, rows = names[0], list[Row]()
    index, selection = next(iter(stage_sets(bench.encoder.units).items()))
    for protocol in bench.protocols:
        linear = "plain+linear" if protocol == AS_PUBLISHED else "plain+probe"
        methods = {"plain": "zero-shot", "residual": f"residual-stage {index}", linear: "linear-probe"}
        cells = on_stages(bench, name, protocol, selection, ["plain", "residual", "plain+linear", "plain+probe"]).cells
        rows += made.method_rows(cells, name, protocol, methods)
    return rows


def sets_of_stages(bench: Bench, names: Sequence[str]) -> list[Row]:
    """Gains on one basis per stage for every set of stages: the accuracy of each fold, their median and their spread."""
    name, rows = names[0], list[Row]()
    for protocol in bench.protocols:
        cells: dict[str, pd.DataFrame] = {}
        for index, selection in stage_sets(bench.encoder.units).items():
            cells[index] = on_stages(bench, name, protocol, selection, ["plain", "residual"]).cells
            rows += made.fold_rows(cells[index], "residual", f"residual-stage {index}", name, protocol)
        rows += made.fold_rows(next(iter(cells.values())), "plain", "zero-shot", name, protocol)
    return rows
