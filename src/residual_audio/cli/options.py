"""Options of the command line, made from dataclass fields: what is said there (type, default, help, limits) is said once."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..adaptation.methods import METHODS
from ..adaptation.recipe import Recipe, all_options
from ..options import OptionError, Options, OptionSpec, option, option_specs
from ..sampling import SAMPLES
from .checks import check_device, check_model

if TYPE_CHECKING:
    from ..data import Dataset
    from ..models import Encoder

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="`tiny`, a hub repository, a checkpoint directory or Microsoft's .pth; see `residual-audio models`."
    ),
]
DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A dataset name, `folder:PATH`, a CSV/Parquet file or `hf:REPO` (images for a vision tower); see `residual-audio datasets`.",
    ),
]
ClipsOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DATASET",
        help="The clips to compare with, as `residual-audio datasets` names them. Default: sounds of the package (for `tiny` 160 synthetic "
        "ones, for others 100 notes). Where a model has no texts, their classes stand in.",
    ),
]
DictionaryOption = Annotated[
    list[str] | None,
    typer.Option(
        help="audioset, esc50, instruments, voice, attributes, synthetic, or a text file with one concept per line; may be given "
        "several times. Default: audioset and attributes; for `tiny` synthetic, the words it knows."
    ),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A finished run of `residual-audio extract`.")]


COLUMNS = ("group", "path", "label", "fold")


@dataclass(frozen=True)
class Data(Options):
    """Where clips come from, and how many of them."""

    data_root: str | None = option(None, "Where the dataset lies on disk; for a table: where its clips lie.")
    download: bool = option(False, "Fetch the dataset if it is not there (checksums are verified).")
    limit: int | None = option(None, "Use at most so many clips: evenly over the classes and their folds, see --sample.", least=1)
    sample: str = option(
        "stratified", "What --limit keeps: stratified, drawn with --sample-seed; or first, the first of each class.", choices=tuple(SAMPLES)
    )
    sample_seed: int = option(0, "Seed of the stratified draw.", least=0)
    group: str | None = option(
        None, "Which clips belong together: the column of a table or hf: dataset, or for folder: a pattern whose brackets match the group."
    )

    path: str | None = option(None, "The column of a table that names the files; default: path.")
    label: str | None = option(None, "The column of a table or hf: dataset that names the classes; default: label.")
    fold: str | None = option(
        None, "The column of a table or hf: dataset with the folds, numbers or words; default: fold, where there is one."
    )

    def open(self, name: str, **options: Any) -> Dataset:
        from ..data import load_dataset
        from .screen import warnings_told

        self.check_sample()
        options |= {key: value for key in COLUMNS if (value := getattr(self, key)) is not None}
        with warnings_told():
            loaded = load_dataset(name, root=self.data_root, download=self.download, **options)
        return self.limited(loaded)

    def clips(self, name: str | None, encoder: Encoder) -> Dataset:
        """The named clips, or the package's own for this encoder."""
        if name is not None:
            return self.open(name)
        if given := [key for key in ("data_root", "download", *COLUMNS) if getattr(self, key)]:
            raise OptionError(f"--{given[0].replace('_', '-')} says how --data is read; give --data too")
        from ..meaning.listening import default_data

        self.check_sample()
        return self.limited(default_data(encoder))

    def limited(self, dataset: Dataset) -> Dataset:
        return dataset if self.limit is None else dataset.limited(self.limit, self.sample, self.sample_seed)

    def check_sample(self) -> None:
        """Refuse a way to draw where nothing is drawn."""
        if self.limit is None and (self.sample, self.sample_seed) != (Data.sample, Data.sample_seed):
            raise OptionError("--sample and --sample-seed say which clips --limit keeps; give --limit too")
        if self.sample == "first" and self.sample_seed != Data.sample_seed:
            raise OptionError("--sample-seed is of --sample stratified; the first clips are not drawn")


@dataclass(frozen=True)
class Machine(Options):
    """What the work runs on."""

    device: str = option("cpu", "cpu, cuda, mps, …")
    workers: int | None = option(None, "Threads that decode ahead of the model; default: one per core, at most 8.", least=1)


@dataclass(frozen=True)
class Group:
    """Options that become one argument of a verb's function: ``make(given values by name)``."""

    specs: Mapping[str, OptionSpec]
    make: Callable[[dict[str, Any]], Any]
    helps: Mapping[str, str]
    panel: str | None = None


def of_class(kind: type[Options]) -> Group:
    """The fields of one dataclass."""
    specs = option_specs(kind)
    return Group(specs, lambda given: kind(**given), {name: with_default(spec.help, [spec.default]) for name, spec in specs.items()})


def of_methods(names: Iterable[str] | None = None) -> Group:
    """The options of all methods, or of some; what is given becomes a :class:`Recipe`."""
    chosen = list(METHODS if names is None else names)
    specs, helps = {}, {}
    for name, owners in all_options().items():
        owned = {m: s for m, s in owners.items() if m in chosen}
        if owned:
            specs[name] = next(iter(owned.values()))
            others = [m for m in chosen if m not in owned]
            readers = f"all but {', '.join(others)}" if len(others) < len(owned) - 1 else ", ".join(owned)
            helps[name] = with_default(specs[name].help, [s.default for s in owned.values()]) + f" For: {readers if others else 'all'}."
    return Group(specs, lambda given: Recipe(**given), helps, "Options of methods")


def with_default(text: str, defaults: list[Any]) -> str:
    """The help with the default, unless it says so itself."""
    known = list(dict.fromkeys(d for d in defaults if d is not None and d is not False))
    return text if "default" in text or not known else f"{text} Default: {' or '.join(str(d) for d in known)}."


def parameter(spec: OptionSpec, help: str, panel: str | None) -> inspect.Parameter:
    """One option of typer. All are None until they are given, so that what was given can be told from what was not."""
    kinds, _ = spec.kinds
    kind: Any = kinds[0] if len(kinds) == 1 else str
    flags = [f"{spec.flag}/--no-{spec.flag.removeprefix('--')}"] if kind is bool and spec.default else [spec.flag]
    made = typer.Option(*flags, help=help, rich_help_panel=panel, show_default=False)
    return inspect.Parameter(spec.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, made])


def takes(**groups: Group | type[Options]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let options stand on the command line in the place of the named arguments of a verb's function."""
    given = {name: group if isinstance(group, Group) else of_class(group) for name, group in groups.items()}

    def wrap(verb: Callable[..., None]) -> Callable[..., None]:
        own = [
            p.replace(annotation=eval(p.annotation, vars(sys.modules[verb.__module__])) if isinstance(p.annotation, str) else p.annotation)
            for name, p in inspect.signature(verb).parameters.items()
            if name not in given
        ]
        added = {
            spec.name: parameter(spec, group.helps[spec.name], group.panel) for group in given.values() for spec in group.specs.values()
        }
        signature = inspect.Signature([*own, *added.values()])

        @wraps(verb)
        def called(*args: Any, **named: Any) -> None:
            bound = signature.bind(*args, **named)
            bound.apply_defaults()
            values = dict(bound.arguments)
            for name, group in given.items():
                read = {key: value_of(spec, values.pop(key)) for key, spec in group.specs.items() if values.get(key) is not None}
                for key in group.specs:
                    values.pop(key, None)
                values[name] = group.make(read)
            verb(**values)

        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return called

    return wrap


def value_of(spec: OptionSpec, value: Any) -> Any:
    """Text where an option takes several types; everything else comes as it is."""
    return spec.parse(value) if isinstance(value, str) and len(spec.kinds[0]) > 1 else value


def open_model(model: str, machine: Machine, loading: Any = None) -> Encoder:
    """Load an encoder quietly; say that it takes a moment when it does."""
    check_model(model)
    check_device(machine.device)
    from contextlib import nullcontext
    from dataclasses import asdict

    from rich.text import Text

    from ..models import load_encoder
    from .screen import errors, quiet_libraries

    quiet_libraries()
    choices = asdict(loading) if loading is not None else {}
    with errors.status(Text(f"opening {model} …")) if errors.is_terminal else nullcontext():
        encoder = load_encoder(model, machine.device, **choices)
    if choices.get("precision") == "auto" and encoder.replays is None:
        from ..models.precision import explained

        errors.print(Text(f"precision {explained(encoder.precision, encoder.device)}"), soft_wrap=True)
    return encoder
