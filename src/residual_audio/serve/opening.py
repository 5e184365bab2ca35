"""From what stands on the command line to entries with their models open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..adaptation.adapter import load_adapter
from ..adaptation.validate import AdapterError
from ..data import load_dataset
from ..extraction import Run, extract
from ..extraction.store import StoreError
from ..models import Encoder, load_encoder
from ..options import OptionError
from ..progress import progress
from ..report.page.clips import media_of
from ..report.page.make import TEMPLATES
from .entry import Entry
from .folder import Folder, slug
from .limits import Limits
from .problems import ServeError

GRANULARITY = ("head", "moments", "direct")


def is_run(target: str | Path) -> bool:
    return (Path(target) / "run.json").is_file()


def open_entries(
    targets: Sequence[str | Path],
    folder: Folder,
    adapter: str | Path | None,
    data: str | None,
    clips: int,
    words: int,
    template: str | None,
    limit: int | None,
    device: str,
    limits: Limits,
) -> dict[str, Entry]:
    """By their names in addresses. Runs of the same model share it; ``adapter`` goes to those that it was made for."""
    if not targets:
        raise ServeError("nothing to serve; name a run or a model")
    models = [target for target in targets if not is_run(target)]
    if data is not None and not models:
        raise OptionError("--data is what a model is run on; a run has its own clips")
    if limit is not None and data is None:
        raise OptionError("--limit is of --data; give it too")
    entries: dict[str, Entry] = {}
    encoders: dict[tuple[str, str, str, str], Encoder] = {}
    refused: list[str] = []
    for target in targets:
        entry = opened(target, folder, data, limit, device, limits, encoders, entries)
        entry.start = "/" if len(targets) > 1 else None
        own = None
        if adapter is not None:
            try:
                load_adapter(adapter, entry.encoder)
                own = (slug(str(adapter)), Path(adapter))
            except AdapterError as error:
                refused.append(str(error))
        with progress(f"{entry.title}: clips of the page", 2 * min(clips, len(entry.labels)), None) as advance:
            entry.open(own, clips, words, template, advance)
        entries[entry.id] = entry
    if len(refused) == len(targets):
        raise AdapterError(refused[0])
    return entries


def opened(
    target: str | Path,
    folder: Folder,
    data: str | None,
    limit: int | None,
    device: str,
    limits: Limits,
    encoders: dict[tuple[str, str, str, str], Encoder],
    taken: dict[str, Entry],
) -> Entry:
    """One run, or one model with the run that is made of it here."""

    def shared(encoder: Encoder) -> Encoder:
        return encoders.setdefault((encoder.name, encoder.revision, encoder.policy.hash, encoder.precision), encoder)

    if is_run(target):
        run = Run.open(target)
        if not run.complete:
            raise ServeError(f"{target} is not finished; run the same `residual-audio extract` command again to resume it")
        return Entry(free(slug(str(Path(target).absolute())), taken), title_of(run), shared(run.open_encoder(device)), run, limits)
    encoder = shared(load_encoder(target, device))
    if encoder.replays is not None:
        raise ServeError(f"{target} is an export: there is no network to move gains in; serve the model that it was made of")
    if data is None:
        return Entry(free(slug(str(target)), taken), encoder.name, encoder, None, limits)
    dataset = load_dataset(data)
    dataset = dataset if limit is None else dataset.limited(limit)
    id = free(slug(f"{slug(str(target))}-{slug(data)}"), taken)
    try:
        run = extract(encoder, dataset, folder.of(id, "run"), GRANULARITY)
    except StoreError as error:
        raise ServeError(f"{folder.home} has a run of {target} on other clips of {data}; choose another --folder") from error
    return Entry(id, title_of(run), encoder, run, limits)


def title_of(run: Run) -> str:
    return f"{run.info['model']['name']} on {run.info['dataset']['name']}"


def free(name: str, taken: dict[str, Entry]) -> str:
    """The name, or the next one that is free; "jobs" is a path of ours."""
    found = [name, *(f"{name[:44]}-{n}" for n in range(2, 2 + len(taken) + 1))]
    return next(one for one in found if one not in taken and one != "jobs")


def order_of(entry: Entry, device: str, template: str | None) -> dict[str, Any]:
    """How a training's own process opens the same model."""
    run = entry.run
    loaded = entry.encoder.loading
    chosen = template or (None if run is None else TEMPLATES[media_of(run)])
    return {
        "run": None if run is None else str(Path(str(run.store.local)).absolute()),
        "model": entry.encoder.name if loaded is None else loaded.address,
        "device": device,
        "template": chosen,
    }
