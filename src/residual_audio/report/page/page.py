"""One self-contained ``report.html`` of a run: no server, no network, opens from disk."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ...data import DATASETS, Shipped
from ...evaluation.metrics import outcome
from ...evaluation.significance import mean_interval
from ...extraction import Run, StoreError
from ...units import UnitTable
from ...writing import drafted
from . import gather
from .audio import SHAPE
from .clips import media_of, shown_clips
from .components import head_components
from .model_part import ModelPart, ask, equaliser
from .outcomes import comparison, is_comparison, predictions
from .pack import as_script

HERE = Path(__file__).parent
SCRIPTS = ("base.js", "plots.js", "overview.js", "heads.js", "head.js", "equaliser.js", "ask.js", "classes.js", "page.js")
# What only the live page has, each after the script of the static page that it follows on: parts of the page stand in this order.
LIVE = {
    "plots.js": ("server.js", "jobs.js"),
    "overview.js": ("record.js", "sound.js", "explain.js"),
    "equaliser.js": ("network.js",),
    "ask.js": ("anything.js", "steer.js"),
    "classes.js": ("label.js",),
}
AUDIO = ("embed", "link", "none")
CITE = "Basile, Maiorca, Bortolussi, Rodolà & Locatello 2024: ResiDual Transformer Alignment with Spectral Decomposition, arXiv 2411.00246"


class PageError(ValueError):
    """A page that cannot be made as asked for."""


def write_page(
    run: Run,
    out: Path,
    *,
    compare: Sequence[str | Path] = (),
    part: ModelPart | None = None,
    gains: Mapping[str, np.ndarray] | None = None,
    audio: str = "embed",
    clips: int = 120,
    notes: Sequence[str] = (),
    command: str = "",
    advance: Callable[[int], object] | None = None,
) -> Path:
    """Gather a run's tables, some of its clips and what a model said (``part``) into one file; returns its path.

    ``compare``: folders of `residual-audio compare`, or other runs of the same model. ``gains``: learned gains by head label.
    ``notes``: lines about what the page has to do without.
    """
    data = page_data(run, out, compare, part, gains or {}, audio, clips, notes, command, advance)
    with drafted(out) as draft:
        draft.write_text(rendered(data), encoding="utf-8")
    return out


def rendered(data: dict[str, Any]) -> str:
    """The template with styles, scripts, the plotting library and the data inside; with ``data["live"]``, the live page."""
    live = bool(data.get("live"))
    script, plotly = joined([one for name in SCRIPTS for one in (name, *(LIVE.get(name, ()) if live else ()))]), plotting()
    return filled("template.html", data["meta"]["title"], (script, plotly), script=script, plotly=plotly, data=as_script(data), live=live)


def filled(template: str, title: str, scripts: Sequence[str], **parts: object) -> str:
    """A template; of all scripts, only ``scripts`` may run."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True)
    style = (HERE / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(title=title, style=style, scripts=Markup(" ".join(map(allowed, scripts))), **parts)


def joined(names: Sequence[str]) -> str:
    """Several scripts as one."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def plotting() -> str:
    """The plotting library, as it can stand inside ``<script>``."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", "<\\/script").replace("\r\n", "\n").replace("\r", "\n")


def allowed(script: str) -> str:
    """A script as the page's own policy lets it run: by its hash, so that nothing else does."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def page_data(
    run: Run, out: Path, compare: Sequence[str | Path], part: ModelPart | None, gains: Mapping[str, np.ndarray], audio: str, clips: int,
    notes: Sequence[str], command: str, advance: Callable[[int], object] | None,
) -> dict[str, Any]:  # fmt: skip
    """Everything that the page knows, as JSON."""
    folder = run.store.local
    if folder is None:
        raise StoreError(f"{run.store.address} is remote; copy it here first")
    table = run.clips
    classes = sorted(table["label"].astype(str).unique())
    number = {label: i for i, label in enumerate(classes)}
    targets = np.array([number[str(label)] for label in table["label"]])
    labels = [u.label for u in run.units.where("head")]
    rows = part_rows(gather.pool_rows(table["label"].astype(str), clips), part)
    place = {int(row): i for i, row in enumerate(rows)}
    comparisons, others = split(compare)
    elsewhere, left_out = gather.other_runs(run, others, labels)
    return {
        "meta": {**meta(run, out, targets, part), "notes": [*notes, *left_out]},
        "commands": gather.commands(run, folder, [c["command"] for c in comparisons], command),
        "missing": gather.missing(run, folder),
        "classes": gather.class_titles(run, classes),
        "heads": head_places(run.units),
        "measures": gather.measures(folder, labels, gains) + elsewhere,
        "by_class": gather.class_columns(folder, labels, classes),
        "stages": gather.stages(folder),
        "components": head_components(run, rows, targets, len(classes)) if "head" in run.keys else None,
        "near": gather.neighbours(folder, labels),
        "words": gather.words(folder, labels),
        "clusters": gather.clustering(folder, labels),
        "comparisons": comparisons,
        "outcomes": outcomes(comparisons, compare, run, targets, place, part),
        "equaliser": equaliser(part, place, bool(gains)) if part is not None and len(part.rows) else None,
        "ask": ask(part, [u.label for u in run.units], place) if part is not None else None,
        "spectrogram": list(SHAPE),
        "clips": shown_clips(table, rows.tolist(), classes, media_of(run), audio, out, advance),
    }


def head_places(units: UnitTable) -> dict[str, list[Any]]:
    """Every head's label, stage, block and number."""
    heads = units.where("head")
    return {name: [getattr(u, name) for u in heads] for name in ("label", "stage", "block", "head")}


def part_rows(rows: np.ndarray, part: ModelPart | None) -> np.ndarray:
    """The clips of the page: those that were drawn, and any that the model was asked about."""
    return rows if part is None else np.union1d(rows, part.rows)


def split(compare: Sequence[str | Path]) -> tuple[list[dict[str, Any]], list[Run]]:
    """Comparisons of methods, and other runs."""
    comparisons, runs = [], []
    for address in compare:
        if is_comparison(Path(address)):
            comparisons.append(comparison(Path(address)))
        else:
            runs.append(Run.open(address))
    return comparisons, runs


def outcomes(
    comparisons: list[dict[str, Any]],
    compare: Sequence[str | Path],
    run: Run,
    targets: np.ndarray,
    place: dict[int, int],
    part: ModelPart | None,
) -> list[dict[str, Any]]:
    """Who chose what, held out where a comparison says it; else the model with and without the adapter, on the page's clips."""
    results = []
    for one, folder in zip(comparisons, [Path(c) for c in compare if is_comparison(Path(c))], strict=True):
        chosen = predictions(folder, run, targets)
        if len(chosen) > 1:
            every = list(range(len(targets)))
            what = "every clip was scored once, by a model that had not seen it"
            results.append({"name": f"cross-validated ({one['name']})", "what": what, "targets": targets.tolist(), "methods": chosen,
                          "clips": [place.get(i, -1) for i in every], "ids": run.clips["id"].astype(str).tolist()})  # fmt: skip
    if part is not None and part.adapted is not None:
        shown = targets[part.rows]
        chosen = {n: outcome(s, shown).predicted.tolist() for n, s in (("plain", part.base), ("adapter", part.adapted))}
        what = "the whole model without and with the adapter; some of these clips may have been used to learn its gains"
        results.append({"name": "this adapter", "what": what, "targets": shown.tolist(), "methods": chosen,
                      "clips": [place[int(r)] for r in part.rows],
                      "ids": run.clips["id"].astype(str).iloc[part.rows].tolist()})  # fmt: skip
    return results


def meta(run: Run, out: Path, targets: np.ndarray, part: ModelPart | None) -> dict[str, Any]:
    """Model, data, preprocessing, counts, errors and the first figure."""
    info, everything = run.info, run.all_clips
    bad = everything[everything.status != "ok"]
    accuracy = None
    if part is not None:
        own = [i for i, (_, kind) in enumerate(part.texts) if kind == "class"]
        if own and len(own) == targets.max(initial=0) + 1:
            correct = outcome(part.scores[:, own], targets).correct
            interval = {k: None if np.isnan(v) else v for k, v in mean_interval(correct, run.groups)._asdict().items()}
            accuracy = {**interval, "clips": len(correct), "classifier": part.classifier}
    return {
        **about(info, f"{info['model']['name']} on {info['dataset']['name']}", media_of(run)),
        "dataset": {**info["dataset"], "readable": len(targets), "classes": int(targets.max(initial=-1)) + 1},
        "errors": [{"id": str(r.id), "error": str(r.error)} for r in bad.itertuples()][:50],
        "failed": len(bad),
        "units": counted(run.units),
        "accuracy": accuracy,
        "model_notes": list(part.notes) if part is not None else [],
        "name": out.name,
    }


def counted(units: UnitTable) -> dict[str, int]:
    return {"heads": len(units.where("head")), "blocks": len(units.blocks), "stages": len(units.heads)}


def about(info: dict[str, Any], title: str, media: str) -> dict[str, Any]:
    """What a record of a model, its preprocessing and its data says about itself."""
    policy = {k: v for k, v in info["preprocessing"].items() if not isinstance(v, dict) and v is not None}
    return {
        "title": title,
        "media": media,
        "model": info["model"],
        "preprocessing": [[k, v if isinstance(v, str) else json.dumps(v)] for k, v in policy.items()],
        "mel": info["preprocessing"].get("mel"),
        "versions": info.get("versions", {}),
        "made": datetime.now(UTC).isoformat(timespec="minutes"),
        "cite": [f"residual-audio {version('residual-audio')}", CITE, *credit(info["dataset"]["name"])],
    }


def credit(dataset: str) -> list[str]:
    """Whose sounds the page plays, where their licence asks for it."""
    shipped = [source for source in DATASETS.values() if isinstance(source, Shipped) and source.name == dataset]
    return [f"{source.name}: {source.credit}, {source.licence}" for source in shipped]
