"""The same shards, written by the actors of a Ray cluster or of this machine.

Names travel, not sound: an actor is given a shard's number and the paths of its clips, opens the run's encoder once
(``Run.open_encoder``), and writes the shard into the store with the very ``ShardWriter`` of the local engine. What comes
back is one small row per shard. Which shards are still to do is read from the store, so a run may change engines half-way.
"""

from __future__ import annotations

import atexit
import os
import platform
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, no_type_check

import pyarrow as pa
import torch

from ...data import Clip
from ...data.synthetic import PREFIX
from ...models import Encoder, EncoderError
from ...options import OptionError
from ..run import Run
from ..shard import ExtractionError, Settings, ShardWriter
from ..store import Store, shard_name
from .cluster import cluster, import_ray, quiet, room
from .local import Jobs

# Ray gives a shard whose worker was lost to another one, without end; one that kills its worker each time is given up.
ATTEMPTS = 3
EXIT_SECONDS = 10
RESUMES = "Finished shards stay; the same command resumes from there."
SHARED = "must be on a file system that every machine shares, at the same place"


@dataclass(frozen=True)
class Plan:
    """What an actor must know to write the shards that the driver would write."""

    settings: Settings
    store: Store
    folder: str
    witness: str | None
    device: str
    threads: int
    workers: int


def absolute(address: str) -> str:
    """A path as it reads from any working folder; an fsspec URL stays as it is."""
    return address if "://" in address else os.path.abspath(address)


def sound_file(jobs: Jobs) -> str | None:
    """A file of the dataset that is there, by its absolute path."""
    paths = (clip.path for _, clips in jobs for clip in clips if not clip.path.startswith(PREFIX))
    return next((os.path.abspath(path) for path in paths if os.path.isfile(path)), None)


def make_plan(settings: Settings, store: Store, jobs: Jobs, workers: int | None, cpus: float, gpus: float) -> Plan:
    threads = max(1, int(cpus))
    return Plan(
        settings=settings,
        store=Store(absolute(store.address)),
        folder=os.getcwd(),
        witness=sound_file(jobs),
        device="cuda" if gpus else "cpu",
        threads=threads,
        workers=workers or threads,
    )


def check_place(plan: Plan) -> None:
    """The run and the sounds must be visible here, and what is installed must be what the run was begun with."""
    if not plan.store.exists("run.json"):
        raise ExtractionError(f"{plan.store.address} has no run.json as seen from here; --out {SHARED}, or an fsspec URL")
    if plan.witness and not os.path.isfile(plan.witness):
        # Otherwise every clip would be recorded as a missing file, and the run would be complete and empty.
        raise ExtractionError(f"{plan.witness} is not there as seen from here; the sounds {SHARED}")
    begun = plan.store.read_json("run.json")["versions"]
    here = {p: platform.python_version() if p == "python" else version(p) for p in begun}
    other = [f"{p} {here[p]} instead of {begun[p]}" for p in begun if here[p] != begun[p]]
    if other:
        raise ExtractionError(f"this machine has {', '.join(other)}; a run does not mix versions, install the same on every machine")


def attempts_actor(ray: Any) -> Any:
    """Counts how often each shard was begun, in a process of its own that outlives the workers. If its own machine is lost, it is begun
    anew elsewhere, and counts from zero."""

    # A class of this function travels by value, so that its process need not load torch and the package. A type checker's
    # wrapper could not travel.
    @no_type_check
    class Attempts:
        def __init__(self) -> None:
            self.begun: dict[int, int] = {}

        def begin(self, number: int) -> int:
            self.begun[number] = self.begun.get(number, 0) + 1
            return self.begun[number]

    return ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Attempts).remote()


class ShardActor:
    """Writes shards on one worker. Errors come back as rows, so that they reach the user as they were raised."""

    def __init__(self, plan: Plan, attempts: Any) -> None:
        self.plan, self.attempts = plan, attempts

    @cached_property
    def writer(self) -> ShardWriter:
        """Made at the first shard: were it made with the actor, Ray would answer a bad checkpoint by making the actor again."""
        # Now and then a Ray worker locks itself up in its own exit handlers and stays for ever; the alarm then ends it.
        atexit.register(signal.alarm, EXIT_SECONDS)
        torch.set_num_threads(self.plan.threads)
        check_place(self.plan)
        # A relative path then means here what it means to the driver, and an error names it alike.
        if os.path.isdir(self.plan.folder):
            os.chdir(self.plan.folder)
        encoder = Run.open(self.plan.store.address).open_encoder(self.plan.device)
        return ShardWriter(encoder, self.plan.settings, self.plan.store, self.plan.workers)

    def __call__(self, batch: pa.Table) -> dict[str, list[Any]]:
        (job,) = batch.to_pylist()
        row = {"number": job["number"], "clips": len(job["clips"]), "node": platform.node(), "error": "", "trace": ""}
        try:
            if import_ray().get(self.attempts.begin.remote(job["number"])) > ATTEMPTS:
                raise ExtractionError(
                    f"its worker died {ATTEMPTS} times while at it, perhaps for lack of memory; try a smaller --batch-size"
                )
            self.writer.write(job["number"], [Clip(c["id"], os.fsdecode(c["path"]), c["label"]) for c in job["clips"]])
        except Exception as error:
            ours = isinstance(error, ExtractionError | EncoderError | OptionError)
            row |= {"error": str(error) if ours else f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        return {key: [value] for key, value in row.items()}


def as_item(number: int, clips: Sequence[Clip]) -> dict[str, Any]:
    """A job as plain values: a shard's number, and what it needs of its clips."""
    return {"number": number, "clips": [{"id": c.id, "path": os.fsencode(c.path), "label": c.label} for c in clips]}


def run(
    encoder: Encoder,
    settings: Settings,
    store: Store,
    jobs: Jobs,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    address: str | None = None,
    actors: int | None = None,
    cpus_per_actor: float = 1,
    gpus_per_actor: float = 0,
) -> None:
    """Write the shards of ``jobs``, each in one of ``actors`` actors (default: as many as there is room for).

    An actor uses ``cpus_per_actor`` threads; on CPU the arrays are those of a local run with as many threads, to the bit.
    """
    if not jobs:
        return
    ray = import_ray()
    ShardWriter(encoder, settings, store)  # settings that make no sense are refused before anything is started
    plan = make_plan(settings, store, jobs, workers, cpus_per_actor, gpus_per_actor)
    with cluster(ray, address) as own, quiet(ray):
        places = room(ray, cpus_per_actor, gpus_per_actor)
        if own and not places:
            raise ExtractionError(
                f"an actor of {cpus_per_actor} CPUs and {gpus_per_actor} GPUs does not fit on this machine ({os.cpu_count()} CPUs, "
                f"{int(ray.cluster_resources().get('GPU', 0))} GPUs); ask for less, or pass the address of a cluster"
            )
        items = ray.data.from_items([as_item(number, clips) for number, clips in jobs], override_num_blocks=len(jobs))
        shards = items.map_batches(
            ShardActor,
            fn_constructor_args=(plan, attempts_actor(ray)),
            batch_size=1,
            batch_format="pyarrow",
            # Two shards per actor, one at work and one waiting: a lost machine takes no more with it, and the rest stays to be shared out.
            compute=ray.data.ActorPoolStrategy(size=min(actors or max(1, places), len(jobs)), max_tasks_in_flight_per_actor=2),
            num_cpus=cpus_per_actor,
            num_gpus=gpus_per_actor,
        )
        try:
            # Without prefetching: a row would otherwise be held back until the next one is there.
            batches = shards.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow")
            for place, row in enumerate(row for batch in batches for row in batch.to_pylist()):
                if row["error"]:
                    raise failure(row)
                if not place:
                    check_written(store, [row["number"]])
                if advance is not None:
                    advance(row["clips"])
        except ray.exceptions.RayError as error:
            raise ExtractionError(f"Ray lost its workers ({type(error).__name__}: {str(error).splitlines()[0]}). {RESUMES}") from error
    check_written(store, [number for number, _ in jobs])


def failure(row: dict[str, Any]) -> ExtractionError:
    """An actor's error as the driver's, with the actor's traceback as a note."""
    error = ExtractionError(f"shard {row['number']} failed on {row['node']}: {row['error']}\n{RESUMES}")
    error.add_note(row["trace"])
    return error


def check_written(store: Store, numbers: Sequence[int]) -> None:
    """What actors say they wrote must be there as seen from here. Listed afresh: remote file systems remember old listings."""
    there = set(store.names("shards"))
    absent = [n for n in numbers if Path(shard_name(n)).name not in there]
    if absent:
        raise ExtractionError(
            f"shard {absent[0]} was written, but is not in {store.address} as seen from here; --out {SHARED}, or an fsspec URL"
        )
