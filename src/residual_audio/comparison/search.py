"""Try many recipes, choose by clips that no test fold scores, report what the choice is worth; resumable trial by trial."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from safetensors import safe_open

from ..adaptation.methods import METHODS
from ..adaptation.recipe import Recipe
from ..data import Dataset
from ..evaluation import EvaluationError
from ..evaluation.metrics import outcome
from ..evaluation.significance import Interval, mean_interval
from ..extraction.extract import identity, open_or_create
from ..extraction.shard import Settings
from ..extraction.store import Store
from ..models import Encoder
from ..options import OptionError, words
from ..progress import progress
from ..results import Result, provenance
from ..units import UnitTable
from ..writing import own_folder
from .compare import STORE, Comparison, compare
from .protocol import Protocol
from .space import Range, Trial, grid_trials, parse_space, stage_trials

TRIALS = "trials"
SPACES = ("stages", "grid", "optuna")
DRAWS = 20  # trials of optuna where no number is given
Cell = tuple[int, int]
Outcomes = dict[Cell, tuple[np.ndarray, np.ndarray]]  # the test clips, and which of them were right


@dataclass(frozen=True)
class Tried:
    """A finished trial. By (fold, repeat): the best accuracy on the stopping part, and which test clips were right."""

    trial: Trial
    comparison: Comparison
    stopping: dict[Cell, float]
    correct: Outcomes

    @property
    def score(self) -> float:
        """What trials are ranked by. The test folds have no part in it."""
        return float(np.mean(list(self.stopping.values())))

    @property
    def trained(self) -> int:
        return int(self.comparison.summary.trained.iloc[-1])

    def row(self) -> dict[str, Any]:
        plain, searched = self.comparison.summary.iloc[0], self.comparison.summary.iloc[-1]
        measured = {c: float(searched[c]) for c in ("accuracy", "low", "high", "fold_mean", "std")}
        return {
            "trial": self.trial.name,
            **self.trial.chosen,
            "trained": self.trained,
            "stop_accuracy": self.score,
            **measured,
            "plain": float(plain.accuracy),
        }


@dataclass(frozen=True)
class Search(Result):
    """``search``: one row per trial, best stopping accuracy first; ``search_picks``: the trial that each fold took for itself.

    ``nested``: accuracy when every fold takes its own winner.
    """

    record: ClassVar[str] = "search"
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str]
    tried: list[Tried]
    nested: Interval
    nested_std: float

    @property
    def table(self) -> pd.DataFrame:
        return self.tables["search"]

    @property
    def picks(self) -> pd.DataFrame:
        return self.tables["search_picks"]

    @property
    def best(self) -> Tried:
        return self.tried[0]


def order(tried: Iterable[Tried], score: Callable[[Tried], float] = lambda t: t.score) -> list[Tried]:
    """Best stopping accuracy first; equals by fewer trained numbers, then by name."""
    return sorted(tried, key=lambda t: (-score(t), t.trained, t.trial.name))


def read_cells(folder: Path, method: str, repeats: int, targets: np.ndarray) -> tuple[dict[Cell, float], Outcomes]:
    """Of a finished comparison: best stopping accuracy and test outcome of each fold and repeat."""
    stopping: dict[Cell, float] = {}
    correct: Outcomes = {}
    store = Store(str(folder / STORE))
    for name in store.names("cells"):
        with safe_open(store.reading(f"cells/{name}"), "pt") as file:
            whose, fold, repeat = json.loads(file.metadata()["cell"])
            if whose != method or repeat >= repeats:
                continue
            known = json.loads(file.metadata().get("stopping", "null"))
            if known is None:  # cells of before kept the history alone
                reached = [h["stop_accuracy"] for h in json.loads(file.metadata()["history"])]
                known = max((value for value in reached if np.isfinite(value)), default=None)
            scores, test = file.get_tensor("scores").numpy(), file.get_tensor("test").numpy()
        if known is None:
            raise EvaluationError(f"{method} keeps no history of a stopping part, so there is nothing to choose by; search with residual")
        stopping[fold, repeat] = known
        correct[fold, repeat] = (test, outcome(scores, targets[test]).correct)
    return stopping, correct


def nested_accuracy(tried: Sequence[Tried], groups: Sequence[str], seed: int = 0) -> tuple[Interval, float, pd.DataFrame]:
    """What the whole search is worth on clips it never saw: in every fold, the trial that was best on that fold's own stopping part.
    The mean over clips with its interval over ``groups`` (one for each clip), and the standard deviation over folds.

    A stopping clip of one fold is a test clip of another, so the winner over all folds has met labels of its test clips; this
    has not. ``picks`` says which trial each fold took.
    """
    cells = sorted(tried[0].stopping)
    repeats = 1 + max(repeat for _, repeat in cells)
    right = np.zeros(len(groups))
    rows = []
    for cell in cells:
        best = order(tried, lambda t, cell=cell: t.stopping[cell])[0]
        test, correct = best.correct[cell]
        right[test] += correct / repeats
        rows.append({"fold": cell[0], "repeat": cell[1], "trial": best.trial.name, "stop_accuracy": best.stopping[cell],
                     "accuracy": float(correct.mean())})  # fmt: skip
    picks = pd.DataFrame(rows)
    by_fold = picks.groupby("fold").accuracy.mean()
    return mean_interval(right, groups, seed=seed), float(by_fold.std()), picks


def plan(
    units: UnitTable,
    space: str,
    recipe: Recipe,
    settings: Sequence[str] = (),
    kind: str | None = None,
    method: str = "residual",
    trials: int | None = None,
) -> tuple[dict[str, Range | list[Any]], list[Trial]]:
    """What varies, and the trials that follow from it; those of ``optuna`` are not known before they are drawn."""
    if space not in SPACES:
        raise EvaluationError(f"unknown space {space!r}; one of {', '.join(SPACES)}")
    if not METHODS[method].searchable:
        able = ", ".join(name for name, m in METHODS.items() if m.searchable)
        raise OptionError(f"{method} has no options, or leaves no stopping part to choose among them by; one of {able}")
    if kind is not None and space != "stages":
        raise OptionError(f"--kind is read by --space stages, not by {space}; name units by --units or --set units=…")
    if trials is not None and space != "optuna":
        raise OptionError(f"--trials is read by --space optuna; {space} tries everything it has")
    if space == "stages":
        if settings:
            raise EvaluationError("subsets of stages take no --set; combine them with other values in --space grid, by units=…")
        if "units" in recipe:
            raise OptionError("--units is what --space stages varies; leave it out, and say what is reweighted by --kind")
        return {}, stage_trials(units, recipe, kind or "heads")
    varied = parse_space(settings, method)
    if space == "optuna":
        return varied, []
    if ranges := [k for k, v in varied.items() if isinstance(v, Range)]:
        raise EvaluationError(f"{', '.join(ranges)}: a grid takes lists (KEY=V1,V2,…); ranges are for --space optuna")
    return varied, grid_trials(recipe, {k: v for k, v in varied.items() if not isinstance(v, Range)})


def search(
    encoder: Encoder,
    dataset: Dataset,
    out: str | Path,
    space: str = "stages",
    recipe: Recipe = Recipe(),
    protocol: Protocol = Protocol(),
    *,
    settings: Sequence[str] = (),
    kind: str | None = None,
    trials: int | None = None,
    method: str = "residual",
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
) -> Search:
    """Each trial is a comparison in ``out/trials/NAME``; finished cells are kept, and the same call resumes.

    ``space``: ``stages`` (all subsets, of a ``kind``), ``grid`` (``settings`` such as ``rate=0.02,0.1``) or ``optuna`` (``trials`` draws
    from ``settings`` such as ``rate=1e-3:1:log``). Trials are ranked by accuracy on the stopping part, inside the training folds.
    """
    if protocol.tune:
        raise OptionError("a search tries values itself; leave out --tune")
    if len(words(protocol.classifier)) > 1:
        raise OptionError(f"--classifier {protocol.classifier}: a search has one; compare the winner with the others")
    varied, planned = plan(encoder.units, space, recipe, settings, kind, method, trials)
    store = Store(str(out))

    def run(trial: Trial) -> Tried:
        folder = own_folder(Path(out) / TRIALS / trial.name, below=Path(out))
        comparison = compare(
            encoder, dataset, folder, ("plain", method), trial.recipe, protocol, workers=workers, advance=advance,
            tell=None if tell is None else lambda line: tell(f"{trial.name}: {line}"),
        )  # fmt: skip
        finished(1)
        readable = dataset.without(comparison.errors)
        return Tried(trial, comparison, *read_cells(folder, method, protocol.repeats, readable.targets))

    choices: dict[str, Any] = {"space": space, "recipe": dict(recipe), "method": method, **asdict(protocol)}
    del choices["margin"]  # it changes what is said of the trials, not the trials
    choices |= {"kind": (kind or "heads") if space == "stages" else None}
    # A grid may grow; what Optuna draws depends on the ranges.
    choices["ranges"] = {k: asdict(v) if isinstance(v, Range) else v for k, v in varied.items()} if space == "optuna" else None
    database = own_folder(Path(out) / "optuna.db")
    with store.locked(), progress("trials", len(planned) or trials or DRAWS) as finished:
        # A search of which nothing was learned claims nothing: neither its settings, nor what was drawn from other ranges.
        vain = not any(Path(out).glob(f"{TRIALS}/*/{STORE}/*/*.safetensors"))
        wanted = {**identity(encoder, dataset, Settings(("embedding",))), "settings": choices}
        if open_or_create(store, wanted, left=(TRIALS, database.name) if vain else ()):
            database.unlink(missing_ok=True)
        done = drawn(varied, recipe, trials or DRAWS, protocol.seed, database, run) if space == "optuna" else map(run, planned)
        ranked = order(done)
    errors = ranked[0].comparison.errors
    groups = [c.own_group for c in dataset.clips if c.id not in errors]
    nested, spread, picks = nested_accuracy(ranked, groups, protocol.seed)
    table = pd.DataFrame([t.row() for t in ranked])
    info = {**provenance(encoder, dataset), "settings": {**choices, "set": list(settings), "trials": len(ranked)},
            "best": table.iloc[0].to_dict(), "nested": {**nested._asdict(), "std": spread}}  # fmt: skip
    return Search({"search": table, "search_picks": picks}, info, errors, ranked, nested, spread)


def drawn(
    varied: Mapping[str, Range | list[Any]], recipe: Recipe, trials: int, seed: int, database: Path, run: Callable[[Trial], Tried]
) -> Iterator[Tried]:
    """TPE. Every draw has its own seed and depends only on finished trials, so that a killed search resumes with the same draws."""
    try:
        import optuna
    except ImportError as error:
        raise EvaluationError('drawing from ranges needs an extra: pip install "residual-audio[sweep]"') from error
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spaces: dict[str, Any] = {}
    for key, values in varied.items():
        if isinstance(values, Range):
            spaces[key] = (
                IntDistribution(int(values.low), int(values.high), values.log)
                if values.whole
                else FloatDistribution(values.low, values.high, values.log)
            )
        else:
            spaces[key] = CategoricalDistribution(values)
    study = optuna.create_study(storage=f"sqlite:///{database.resolve()}", study_name="search", direction="maximize", load_if_exists=True)

    def finish(number: int, chosen: dict[str, Any], told: bool) -> Tried:
        finished = run(Trial(f"trial-{number:04d}", recipe.changed(**chosen), chosen))
        if not told:
            study.tell(number, finished.score)
        return finished

    done = 0
    for old in study.get_trials(deepcopy=False):
        complete = old.state == TrialState.COMPLETE
        if complete and done >= trials:
            break
        if not complete and set(old.params) != set(spaces):
            # Killed while it was drawn: nothing was run for it.
            if not old.state.is_finished():
                study.tell(old.number, state=TrialState.FAIL)
            continue
        yield finish(old.number, {k: old.params[k] for k in spaces}, complete)
        done += 1
    for _ in range(done, trials):
        study.sampler = optuna.samplers.TPESampler(seed=seed + 1000 + len(study.get_trials(deepcopy=False)))
        new = study.ask(spaces)
        yield finish(new.number, {k: new.params[k] for k in spaces}, False)
