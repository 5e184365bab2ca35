"""``residual-audio extract``"""

from __future__ import annotations

from typing import Annotated

import typer

from . import options as given


def register(app: typer.Typer) -> None:
    app.command("extract")(extract)


def extract(
    model: given.ModelArgument,
    dataset: given.DatasetArgument,
    out: Annotated[str, typer.Option("--out", help="Directory of the run (or an fsspec URL); the same command resumes it.")],
    granularity: Annotated[
        str, typer.Option(help="What to record, comma-separated: head, mlp, block, stage, embedding, moments, direct, tokens.")
    ] = "head,moments",
    units: Annotated[str, typer.Option(help='Heads whose token maps to keep (with `tokens`), such as "S2B1H7 S3B0H1" or S3B0.')] = "",
    data_root: given.DataRoot = None,
    download: given.Download = False,
    limit: given.Limit = None,
    batch_size: given.BatchSize = 16,
    workers: given.Workers = None,
    dtype: Annotated[str, typer.Option(help="How arrays are stored: float32, float16 or float64.")] = "float32",
    device: given.Device = "cpu",
    seconds: given.Seconds = None,
    crop: given.Crop = None,
    pad: given.Pad = None,
    fast: given.Fast = True,
    engine: Annotated[str, typer.Option(help="local, or ray: one actor per core or GPU, on this machine or a cluster.")] = "local",
    ray_address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster; default: start one here.")] = None,
    actors: Annotated[int | None, typer.Option(min=1, help="Ray actors; default: as many as fit.")] = None,
    cpus_per_actor: Annotated[int, typer.Option(min=1)] = 1,
    gpus_per_actor: Annotated[float, typer.Option(min=0)] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if any clip could not be read.")] = False,
) -> None:
    """Record what every unit of the model writes, for every clip, into a run that survives anything.

    Resumable: rerun the same command, and the result is bit-identical to an uninterrupted one. A clip that cannot be read is
    recorded and skipped. Post-projection contributions and joint shares are derived from the run, exactly, without the model.

    ```
    residual-audio extract tiny synthetic-timbre --out runs/timbre
    residual-audio extract laion/clap-htsat-unfused esc50 --data-root ~/data/ESC-50 --out runs/esc50 --granularity head,moments,direct
    residual-audio extract msclap-2023 folder:clips --out s3://bucket/run --engine ray --ray-address auto
    ```
    """
    from ..extraction import extract as run_extraction
    from .screen import console, errors, progress

    encoder = given.open_model(model, device, seconds=seconds, crop=crop, pad=pad, fast=fast)
    data = given.open_dataset(dataset, data_root, download, limit)
    wanted = tuple(g.strip() for g in granularity.split(",") if g.strip())
    options = {}
    if engine == "ray":
        options = {"address": ray_address, "actors": actors, "cpus_per_actor": cpus_per_actor, "gpus_per_actor": gpus_per_actor}
    with progress(f"{encoder.name} on {data.name}", len(data)) as advance:
        run = run_extraction(
            encoder, data, out, wanted, batch_size=batch_size, dtype=dtype, units=units,
            engine=engine, workers=workers, advance=advance, **options,
        )  # fmt: skip
    counts = run.info["clips"]
    console.print(f"{counts['ok']} clips in {out}: {', '.join(run.keys)}", highlight=False, soft_wrap=True)
    if counts["errors"]:
        broken = run.all_clips[run.all_clips.status == "error"]
        shown = "\n".join(f"  {message}" for message in broken.error.head(5))
        errors.print(f"{counts['errors']} of {len(data)} clips could not be read:\n{shown}", highlight=False, soft_wrap=True)
        if strict:
            raise typer.Exit(1)
