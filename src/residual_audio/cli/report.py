"""``residual-audio report``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as given

if TYPE_CHECKING:
    from ..adaptation.gain import ResiDual
    from ..extraction import Run
    from ..models import Encoder
    from ..report.page import ModelPart

LARGE = 15e6  # bytes; a page beyond this opens slowly and cannot be mailed
COUNTED = 400  # clips that shares of variance are computed from
AUDIO = ("embed", "link", "none")


def register(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A finished run of `residual-audio extract`.")],
    compare: Annotated[
        list[str] | None,
        typer.Option(help="A folder of `residual-audio compare`, or another run of the same model; may be given several times."),
    ] = None,
    adapter: Annotated[str | None, typer.Option(help="A directory that `residual-audio adapt` wrote: its gains become sliders.")] = None,
    audio: Annotated[str, typer.Option(help="embed (excerpts inside the page), link (to the files where they lie) or none.")] = "embed",
    clips: Annotated[int, typer.Option(min=4, help="Clips that the page shows and plays, spread over the classes.")] = 120,
    dictionary: Annotated[
        list[str] | None, typer.Option(help="Words for Ask, as for `residual-audio describe`; may be given several times.")
    ] = None,
    words: Annotated[int, typer.Option(min=0, help="At most so many words of the dictionary; 0: classes only.")] = 300,
    template: given.Template = "sound-of",
    model: Annotated[
        bool, typer.Option("--model/--no-model", help="Open the model for Equaliser and Ask, and run the page's clips through it.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="The file; default: report.html in the run.")] = None,
    device: given.Device = "cpu",
) -> None:
    """Write one page to look at and listen to: heads, components with their clips, an equaliser, questions, classes.

    The file holds everything (figures, sounds, the plotting library): it opens from disk, without a server or a network. What a run lacks
    is named on the page with the command that makes it. The address of the page keeps what is chosen, so that a view can be shared.

    ```
    residual-audio extract tiny synthetic-timbre --granularity head,moments,direct --out runs/timbre
    residual-audio analyze runs/timbre
    residual-audio adapt tiny synthetic-timbre --units "S3 heads" --rate 0.1 --out adapters/timbre
    residual-audio compare tiny synthetic-timbre --units "S3 heads" --rate 0.1 --out runs/compare-timbre
    residual-audio report runs/timbre --compare runs/compare-timbre --adapter adapters/timbre
    ```
    """
    from ..extraction import Run, StoreError
    from ..media import MediaError
    from ..report.page import write_report
    from .output import circumstances
    from .screen import console, errors, progress

    if audio not in AUDIO:
        raise typer.BadParameter(f"{audio!r} is none of {', '.join(AUDIO)}")
    opened = Run.open(run)
    folder = opened.store.local
    if out is None and folder is None:
        raise StoreError(f"{run} is remote; say where the page goes with --out")
    path = out if out is not None else Path(str(folder)) / "report.html"
    part, residual = None, None
    if model or adapter:
        encoder = open_for(opened, device, needed=adapter is not None)
        if encoder is not None:
            residual = load(adapter, encoder)
            try:
                with progress("what gains do to the page's clips", min(clips, len(opened.clips))) as advance:
                    part = model_part(opened, encoder, residual, clips, dictionary, words, template, advance)
            except MediaError as error:
                errors.print(f"the page has no Equaliser and no Ask: {error}", highlight=False, markup=False)
    with progress("sounds and spectrograms", min(clips, len(opened.clips))) as advance:
        write_report(
            opened, path, compare=compare or (), part=part, gains=learned(residual), audio=audio, clips=clips,
            command=circumstances()["command"], advance=advance,
        )  # fmt: skip
    size = path.stat().st_size
    if size > LARGE:
        errors.print(
            f"{size / 1e6:.1f} MB is large for a page; fewer --clips or --words, or --audio link, make it smaller", highlight=False
        )
    console.print(f"{path} ({size / 1e6:.1f} MB): open it in a browser", highlight=False, soft_wrap=True)


def open_for(run: Run, device: str, needed: bool) -> Encoder | None:
    """The run's own model; without it (another machine, another version) the page has no Equaliser and no Ask, and says so."""
    from ..models import EncoderError
    from .screen import errors

    policy, model = run.info["preprocessing"], run.info["model"]
    try:
        encoder = given.open_model(model["name"], device, crop=policy.get("crop"), pad=policy.get("pad"))
        if encoder.policy.hash != policy["hash"] and {"samples", "sample_rate"} <= set(policy):
            # Encoders that let one choose their window keep it as a number of samples.
            seconds = policy["samples"] / policy["sample_rate"]
            encoder = given.open_model(model["name"], device, crop=policy.get("crop"), pad=policy.get("pad"), seconds=seconds)
        if (encoder.revision, encoder.policy.hash) != (model["revision"], policy["hash"]):
            raise EncoderError(f"the run was made with other weights or preprocessing of {model['name']}; extract it again")
    except EncoderError as error:
        if needed:
            raise
        errors.print(f"the model cannot be opened, so the page has no Equaliser and no Ask: {error}", highlight=False, markup=False)
        return None
    return encoder


def load(adapter: str | None, encoder: Encoder) -> ResiDual | None:
    from ..adaptation.adapter import load_adapter

    return None if adapter is None else load_adapter(adapter, encoder)


def learned(residual: ResiDual | None) -> dict[str, Any]:
    """Gains by head label."""
    heads = [s for s in residual.sets if s.place.form == "heads"] if residual is not None else []
    return {
        label: s.gain[i].expand(s.axes.shape[1]).detach().cpu().numpy() for s in heads for i, label in enumerate(s.place.labels)
    }  # fmt: skip


def model_part(
    run: Run, encoder: Encoder, residual: ResiDual | None, clips: int, dictionary: list[str] | None, words: int, template: str, advance: Any
) -> ModelPart | None:
    """Class and word directions, direct effects of gains on the page's clips, answers and maps."""
    import numpy as np
    import torch

    from ..data import clean_label
    from ..evaluation.classifiers import centroid_directions
    from ..meaning.describe import default_dictionary
    from ..meaning.dictionary import load_dictionary
    from ..meaning.shares import unit_embeddings
    from ..meaning.texts import text_directions
    from ..report.page import ModelPart
    from ..report.page.answers import answers
    from ..report.page.effects import knobs, page_effects
    from ..report.page.gather import pool_rows, table
    from ..report.page.model_part import top_clips

    if "head" not in run.keys and not run.store.exists("moments.safetensors"):
        return None
    labels = run.clips["label"].astype(str)
    classes = sorted(labels.unique())
    texts = [(label, "class") for label in classes]
    embedding = unit_embeddings(run)
    offset = None
    if encoder.has_text:
        directions = text_directions(run.info, [clean_label(c) for c in classes], template, lambda: encoder)
        found = load_dictionary(dictionary or default_dictionary(run)).words[:words] if words else ()
        known = {clean_label(c) for c in classes}
        texts += [(word, "word") for word in found if clean_label(word) not in known]
        more = [word for word, kind in texts if kind == "word"]
        every = torch.cat([directions, text_directions(run.info, more, "plain", lambda: encoder)]) if more else directions
        classifier = f"cosine with the prompts “{template}”"
    else:
        centre = embedding.mean(0)
        targets = torch.tensor([classes.index(x) for x in labels])
        directions = every = centroid_directions(embedding - centre, targets, len(classes))
        offset = directions @ centre
        classifier = "closeness to class centroids, which every clip helped to make"
    scores = (embedding @ every.T).numpy() - (0 if offset is None else offset.numpy())
    rows = pool_rows(labels, clips)
    mapped: dict[int, list[int]] = {}
    share, components, counted = None, [], 0
    if "direct.units" in run.keys:
        sample = pool_rows(labels, COUNTED)
        moved = answers(run, every, sample)
        share, components, counted = moved.share.numpy(), moved.components, moved.clips
        for number, some in enumerate(top_clips(scores, rows)):
            for row in some:
                mapped.setdefault(row, []).append(number)
    folder = run.store.local
    ranked = table(folder, "heads") if folder is not None else None
    best = ranked.sort_values("fisher", ascending=False)["label"].tolist() if ranked is not None and "fisher" in ranked else []
    turned = knobs(run, residual, best)
    effects, maps = page_effects(encoder, run, rows, directions, turned, residual, mapped, every, offset, advance)
    other = sorted({s.place.form for s in residual.sets if s.place.form != "heads"}) if residual is not None else []
    notes = [f"The adapter also has gains of {', '.join(other)}; the sliders show those of heads."] if other else []
    return ModelPart(
        classifier, effects.rows, effects.base.numpy(), effects.whole.numpy(), turned.heads, [a.numpy() for a in effects.axis],
        [g.numpy() for g in turned.gain], effects.dropped.numpy(), None if effects.adapted is None else effects.adapted.numpy(),
        texts, np.asarray(scores, np.float32), share, components, maps, counted, notes,
    )  # fmt: skip
