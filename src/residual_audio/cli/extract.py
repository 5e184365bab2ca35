"""``residual-audio extract``"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from ..models.loading import Running
from ..options import OptionError, Options, option, words
from .checks import check_model, writable
from .options import Data, DatasetArgument, Machine, ModelArgument, open_model, takes


@dataclass(frozen=True)
class Cluster(Options):
    """Of the engine ray."""

    ray_address: str | None = option(None, "Address of a running Ray cluster; default: start one here.")
    actors: int | None = option(None, "Ray actors; default: as many as fit.", least=1)
    cpus_per_actor: int = option(1, "Cores of a Ray actor.", least=1)
    gpus_per_actor: float = option(0.0, "GPUs of a Ray actor.", least=0)


@takes(cluster=Cluster, data=Data, machine=Machine, loading=Running)
def extract(
    model: ModelArgument,
    dataset: DatasetArgument,
    out: Annotated[str, typer.Option("--out", help="Directory of the run (or an fsspec URL); rerun the same command to resume.")],
    cluster: Cluster,
    data: Data,
    machine: Machine,
    loading: Running,
    granularity: Annotated[
        str, typer.Option(help="What to record, comma-separated: head, mlp, block, stage, embedding, moments, direct, tokens, attention.")
    ] = "head,moments",
    units: Annotated[str, typer.Option(help='Heads whose token maps to keep (with `tokens`), such as "S2B1H7 S3B0H1" or S3B0.')] = "",
    sketch: Annotated[
        int, typer.Option(min=2, help="Numbers kept of a head's attention matrix (with `attention`); 4096 keeps HTS-AT's whole.")
    ] = 512,
    batch_size: Annotated[int, typer.Option(min=1, help="Clips that go through the model at once.")] = 16,
    dtype: Annotated[
        Literal["float32", "float16", "float64"], typer.Option(help="How arrays are stored: float32, float16 or float64.")
    ] = "float32",
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="local, or ray: one actor per core or GPU, on this machine or a cluster.")
    ] = "local",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if any clip could not be read.")] = False,
) -> None:
    """Record what every unit of the model writes, for every clip, into a run that survives anything.

    Resumable: rerun the same command, and the result is bit-identical to an uninterrupted one. A clip that cannot be read is
    recorded and skipped. Post-projection contributions and joint shares are derived from the run, exactly, without the model.

    ```
    residual-audio extract tiny notes --out runs/notes
    residual-audio extract laion/clap-htsat-unfused esc50 --data-root ~/data/ESC-50 --out runs/esc50 --granularity head,moments,direct
    residual-audio extract msclap-2023 folder:clips --out s3://bucket/run --engine ray --ray-address auto
    ```
    """
    if engine != "ray" and cluster != Cluster():
        raise OptionError("--ray-address, --actors, --cpus-per-actor and --gpus-per-actor are read by --engine ray only")
    writable(out)
    check_model(model)
    clips = data.open(dataset)
    from ..extraction import extract as run_extraction
    from .screen import say, unreadable, warnings_told

    encoder = open_model(model, machine, loading)
    options = asdict(cluster) if engine == "ray" else {}
    if options:
        options["address"] = options.pop("ray_address")
    with warnings_told():
        run = run_extraction(
            encoder, clips, out, tuple(words(granularity)), batch_size=batch_size, dtype=dtype, units=units, sketch=sketch, engine=engine,
            workers=machine.workers, **options,
        )  # fmt: skip
    say(f"{run.info['clips']['ok']} clips in {out}: {', '.join(run.keys)}")
    broken = run.all_clips[run.all_clips.status == "error"]
    unreadable(dict(zip(broken.id, broken.error, strict=True)), clips, f"{out}/clips.parquet")
    if strict and len(broken):
        raise typer.Exit(1)
