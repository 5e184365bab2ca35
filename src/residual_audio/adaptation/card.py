"""Model cards of adapters and of folded checkpoints: what the hub reads at the top, what people read below it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from ..models import Encoder
from ..models.files import companion, split_revision
from ..models.registry import ENCODERS
from ..spelling import printable
from .forms import FORMS
from .gain import ResiDual

CARD = "README.md"
HELD = "held"  # the note with what was measured on clips that were held out
UNKNOWN = "unknown"  # the hub's word for a licence that nobody stated
TASKS = {"sounds": "audio-classification", "images": "image-classification"}


def markdown(text: str) -> str:
    """A name or a note as text of a Markdown page."""
    return re.sub(r"([\\`*\[\]<>|#])", r"\\\1", printable(text))


def public_name(name: str) -> str:
    """A model or dataset as others may read it: of a path only its last part, of a hub repository all."""
    path = Path(name).expanduser()
    return path.name if path.is_absolute() or name.startswith((".", "~")) or path.exists() else name


def base_model(encoder: Encoder) -> str | None:
    """The hub's name of the base model; None for a local file or directory and for what is in the package: the hub has neither."""
    name = encoder.repository or split_revision(encoder.name)[0]
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return name if "/" in name and not Path(name).exists() else None


def licence_of(encoder: Encoder) -> str:
    """What a checkpoint's own card says, where it has one. A README beside a single file may be about anything, and is not read."""
    single = getattr(encoder, "path", None) is not None
    source = encoder.repository or ("" if single else str(getattr(encoder, "source", "")))
    try:
        path = companion(source, CARD)
        return str((ModelCard.load(path).data.license if path is not None else None) or UNKNOWN)
    except (OSError, ValueError):
        return UNKNOWN


def results(encoder: Encoder, residual: ResiDual) -> list[EvalResult]:
    """The accuracy on held clips with its interval, as the hub's leaderboards read it; empty where none were held."""
    held, method = residual.notes.get(HELD), str(residual.notes.get("method", "residual"))
    if not isinstance(held, dict) or method not in held.get("accuracy", {}):
        return []
    value, low, high = held["accuracy"][method]
    dataset = printable(public_name(str(residual.notes.get("dataset", "unknown"))))
    return [
        EvalResult(
            task_type=TASKS[encoder.media],
            dataset_type=re.sub(r"[^\w./-]+", "-", dataset.removeprefix("hf:")).strip("-") or "unknown",
            dataset_name=dataset,
            metric_type="accuracy",
            metric_name="top-1 accuracy, clips held out first",
            metric_value=value,
            metric_args={"interval_low": low, "interval_high": high, "level": 0.95, "clips": held["clips"], "resampled": "groups of clips"},
        )
    ]


def metadata(encoder: Encoder, residual: ResiDual, relation: str, library: str) -> ModelCardData:
    """``relation``: what it is to its base model, in the hub's words (adapter, finetune)."""
    measured = results(encoder, residual)
    dataset = str(residual.notes.get("dataset", ""))
    return ModelCardData(
        base_model=base_model(encoder),
        base_model_relation=relation if base_model(encoder) else None,
        library_name=library,
        license=licence_of(encoder),
        tags=["residual-audio", "residual", relation, *(["audio", "clap"] if encoder.media == "sounds" else ["image"])],
        datasets=[dataset.removeprefix("hf:")] if dataset.startswith("hf:") else None,
        metrics=["accuracy"] if measured else None,
        model_name=f"ResiDual for {printable(public_name(encoder.name))}" if measured else None,
        eval_results=measured or None,
    )


def shown(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def measured_table(notes: dict[str, Any]) -> str:
    """Held clips, as people read it."""
    held = notes.get(HELD)
    if not isinstance(held, dict):
        return ""
    rows = [f"| {markdown(name)} | {shown(v)} [{shown(low)}, {shown(high)}] |" for name, (v, low, high) in held["accuracy"].items()]
    return "\n".join(
        [
            f"\nTop-1 accuracy in percent on {held['clips']} clips that were held out first, with 95 % intervals over groups of clips.",
            "They were learned from afterwards, so they say nothing about a second test on them.\n",
            "| | top-1 % [95 %] |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def described(encoder: Encoder, residual: ResiDual) -> str:
    """What was changed, from what, and how it was learned."""
    steered = residual.notes.get("method") == "steer"
    sets = {f"{s.place.kind}: {s.form}, {'one gain per axis' if steered else FORMS[s.form].help}" for s in residual.sets}
    places = "\n".join(f"- {line}" for line in sorted(sets))
    truncated = " What lies outside the kept axes is dropped." if any(s.truncated for s in residual.sets) else ""
    strength = " and ".join(f"{tau:g}" for tau in sorted({s.tau for s in residual.sets}))
    notes = "\n".join(
        f"- {markdown(str(key))}: {markdown(public_name(str(value)) if key == 'dataset' else str(value))}"
        for key, value in residual.notes.items()
        if key != HELD
    )
    packaged = any(encoder.name in kind.own_names and kind.home is not None for kind in ENCODERS.values())
    name = markdown(public_name(encoder.name)) + (", which comes with residual-audio" if packaged else "")
    numbers = "gains along text-aligned axes (nothing was trained)" if steered else "learned numbers inside the principal axes"
    return f"""{residual.trained} {numbers} of {len(residual.sets)} places, at strength {strength}.
Mean: {residual.mean}.{truncated} Everything else is the base model's.

{places}
- base model: {name}, revision {encoder.revision}
- preprocessing: {encoder.policy.hash}
{notes}
{measured_table(residual.notes)}"""


def adapter_card(encoder: Encoder, residual: ResiDual) -> str:
    """The README of an adapter."""
    name = public_name(encoder.name)
    return f"""---
{metadata(encoder, residual, "adapter", "residual-audio").to_yaml()}
---

# ResiDual for {markdown(name)}

{described(encoder, residual)}
```
residual-audio fold {shlex.quote(printable(name).replace("`", ""))} THIS_FOLDER --out FOLDED   # an ordinary checkpoint
```

```python
import residual_audio as ra

encoder = ra.load_encoder({name!r})
folded = ra.fold(encoder, ra.load_adapter("THIS_FOLDER", encoder))
```
"""


def folded_card(encoder: Encoder, residual: ResiDual) -> str:
    """The README of a checkpoint that an adapter of ``encoder`` was folded into."""
    kind = type(encoder.module).__name__
    transformers = type(encoder.module).__module__.startswith("transformers.")
    plain = f'\n```python\nfrom transformers import {kind}\n\nmodel = {kind}.from_pretrained("THIS_FOLDER")\n```\n' if transformers else ""
    return f"""---
{metadata(encoder, residual, "finetune", "transformers" if transformers else "residual-audio").to_yaml()}
---

# {markdown(public_name(encoder.name))} with ResiDual folded in

An ordinary checkpoint of the base model's layout and size; the change is in its weights.

{described(encoder, residual)}
```python
import residual_audio as ra

encoder = ra.load_encoder("THIS_FOLDER")
```
{plain}"""
