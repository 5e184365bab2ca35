"""One training in a process of its own: told what to do on its input, tells how far it is on its output, a line of JSON each.

It ends when its input does: with the server, however that ends.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

from ..results import without_nan

GENTLE = 5  # how far it stands back behind the server


def told_to_end() -> None:
    """Nothing more is said after the order, so whatever can be read is the end."""
    os.read(0, 1)
    os._exit(1)


def order_given() -> dict[str, Any]:
    """The one line, byte by byte: a buffered reader would hold its lock when the process ends."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1) or b"\n"
    return json.loads(line)


def main() -> None:
    """The order is one line; see :meth:`.jobs.Job.order`."""
    order = order_given()
    Thread(target=told_to_end, daemon=True).start()
    os.nice(GENTLE)
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries print goes to the log

    def tell(**news: Any) -> None:
        lines.write(json.dumps(without_nan(news), allow_nan=False) + "\n")
        lines.flush()

    try:
        train(order, tell)
    except Exception as error:  # every reason is the user's to read
        tell(error=str(error).splitlines()[0][:400] if str(error) else type(error).__name__)
        raise SystemExit(1) from error


def train(order: dict[str, Any], tell: Any) -> None:
    from ..adaptation.adapt import adapt
    from ..adaptation.recipe import Recipe
    from ..adaptation.train import Epoch
    from ..data import load_dataset

    quiet_libraries()
    tell(text="opening the model")
    encoder, clips = opened(order)
    dataset = clips if order["table"] is None else load_dataset(f"table:{order['table']}")
    if dataset is None:
        raise ValueError("there is no run here to learn from; label some clips")
    tell(text="running clips", total=len(dataset))

    def epoch(done: Epoch) -> None:
        told = {"epoch": int(done["epoch"]), "loss": round(done["train_loss"], 5), "accuracy": round(done["stop_accuracy"], 5)}
        tell(text=f"epoch {told['epoch']}: loss {told['loss']:.3f}, stopping accuracy {100 * told['accuracy']:.1f} %", epoch=told)

    adapted = adapt(
        encoder, dataset, Recipe(**order["options"]), method=order["method"], template=order["template"] if encoder.has_text else None,
        workers=1, begin=order["begin"], advance=lambda n: tell(advance=n), tell=epoch,
    )  # fmt: skip
    adapted.write(Path(order["draft"]))
    held = adapted.held
    told = adapted.history and not held
    tell(
        done=True, reasons=adapted.reasons, held=held, before=held.get("plain", adapted.before if told else None),
        after=held.get(order["method"], adapted.after if told else None), unreadable=len(adapted.errors),
    )  # fmt: skip


def quiet_libraries() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def opened(order: dict[str, Any]) -> tuple[Any, Any]:
    """The encoder as the server has it, and the clips of the run as a dataset."""
    from ..data import Clip
    from ..data.clip import make_dataset
    from ..extraction import Run
    from ..models import load_encoder

    if order["run"] is None:
        return load_encoder(order["model"], order["device"]), None
    run = Run.open(order["run"])
    rows = run.clips.to_dict("records")
    clips = [Clip(str(r["id"]), str(r["path"]), str(r["label"]), int(r.get("fold", -1)), str(r["group"])) for r in rows]
    folds = "official" if all(clip.fold >= 0 for clip in clips) else "none"
    return run.open_encoder(order["device"]), make_dataset(run.info["dataset"]["name"], clips, folds, run.class_names)


if __name__ == "__main__":
    main()
