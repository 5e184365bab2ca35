"""Settings of trained methods on stopping parts: what defaults are chosen from. Test clips are never looked at.

    python scripts/trials.py tiny table:PATH/clips.csv --out runs/trials.jsonl \
        "mixing rate=0.5" "mixing rate=0.1 units='S2 S3 heads mlps'" "lora lora_rate=0.025"

Every trial learns from the training part of each fold, and is judged by its best accuracy on that fold's stopping part; the probe on the
model as it is, fitted on the same training part, stands beside it. With `--other`, so does what is left elsewhere: give clips that no
result is reported on, such as synthetic-spare. Finished trials are read from --out, so a killed script goes on. `--page` writes a table of
everything in --out.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import residual_audio as ra
from residual_audio.adaptation.methods import METHODS
from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.task import FoldTask, Setting
from residual_audio.adaptation.train import best_epoch
from residual_audio.comparison.elsewhere import right_elsewhere
from residual_audio.evaluation import CLASSIFIERS
from residual_audio.evaluation.folds import fold_parts
from residual_audio.report.tables import to_markdown

Line = dict[str, Any]


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """``"mixing rate=0.5 units='S3 heads'"`` → the method, and its options."""
    method, *pairs = shlex.split(text)
    options: dict[str, Any] = {}
    for name, _, value in (pair.partition("=") for pair in pairs):
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return method, options


def probe_on_stopping_part(task: FoldTask) -> float:
    parts = task.parts
    judge = replace(task, parts=replace(parts, basis=parts.train[:0], stop=parts.train[:0], test=parts.stop))
    scores = judge.scores(task.setting.embeddings, CLASSIFIERS["probe"])
    return float(scores.argmax(1).eq(task.targets[parts.stop]).double().mean())


def trial(setting: Setting, other: Setting | None, text: str, folds: int | None, shots: int | None) -> Line:
    """One setting on the first ``folds`` folds."""
    method, options = parse(text)
    targets = torch.from_numpy(setting.dataset.targets)
    began, best, probes, epochs, trained = time.perf_counter(), [], [], [], 0
    left = []
    for _, parts in list(fold_parts(setting.dataset, shots=shots))[:folds]:
        task = FoldTask(setting, targets, parts, 0)
        learned = METHODS[method].run(task, Recipe(**options).options(method))
        epoch = best_epoch(learned.history)
        best.append(epoch["stop_accuracy"])
        epochs.append(int(epoch["epoch"]))
        probes.append(probe_on_stopping_part(task))
        trained = learned.trained
        left += [float(right_elsewhere(other, learned).mean())] if other is not None else []
    return {
        "stopping": float(np.mean(best)), "probe": float(np.mean(probes)), "numbers": trained, "epochs": epochs,
        "seconds": time.perf_counter() - began, "elsewhere": float(np.mean(left)) if left else None,
    }  # fmt: skip


def table(lines: list[Line]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": [x["model"] for x in lines],
            "data": [x["data"] for x in lines],
            "clips per class": ["all" if x["shots"] is None else str(x["shots"]) for x in lines],
            "folds": ["all" if x["folds"] is None else str(x["folds"]) for x in lines],
            "trial": [x["trial"] + (f" keep-clips={x['keep']}" if "keep_answers" in x["trial"] else "") for x in lines],
            "numbers": [f"{x['numbers']:,}" for x in lines],
            "stopping part %": [f"{100 * x['stopping']:.1f}" for x in lines],
            "probe there %": [f"{100 * x['probe']:.1f}" for x in lines],
            "elsewhere %": ["–" if x.get("elsewhere") is None else f"{100 * x['elsewhere']:.1f}" for x in lines],
            "best epochs": [", ".join(map(str, x["epochs"])) for x in lines],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("trials", nargs="*", help="a method and its options")
    parser.add_argument("--data-root")
    parser.add_argument("--seconds", type=float, help="window of encoders of any length")
    parser.add_argument("--folds", type=int, help="only the first so many folds")
    parser.add_argument("--shots", type=int, help="so many clips per class")
    parser.add_argument("--other", help="a second dataset: what is left there?")
    parser.add_argument("--keep-clips", help="clips without labels on which keep_answers holds")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, one per trial")
    parser.add_argument("--page", type=Path, help="write everything in --out as a table")
    given = parser.parse_intermixed_args()
    name = {"model": Path(given.model).name, "data": "/".join(Path(given.data.partition(":")[2] or given.data).parts[-2:])}
    lines: list[Line] = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    asked = {"shots": given.shots, "folds": given.folds, "other": given.other, "keep": given.keep_clips}
    keys = {json.dumps({k: line.get(k) for k in (*name, *asked, "trial")}) for line in lines}
    wanted = [{**name, **asked, "trial": text} for text in given.trials]
    settings: dict[tuple[str, bool], tuple[Setting, Setting | None]] = {}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for key in (key for key in wanted if json.dumps(key) not in keys):
        method, options = parse(key["trial"])
        needs = str(options.get("units", "")), METHODS[method].whole
        if needs not in settings:
            encoder = ra.load_encoder(given.model, **({} if given.seconds is None else {"seconds": given.seconds}))
            ready = partial(prepare, encoder, methods=[method], recipe=Recipe(**options))
            other = None if given.other is None else ready(ra.load_dataset(given.other))
            settings = {needs: (ready(ra.load_dataset(given.data, given.data_root), keep=given.keep_clips), other)}
        line = {**key, **trial(*settings[needs], key["trial"], given.folds, given.shots)}
        lines.append(line)
        with given.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        left = "" if line["elsewhere"] is None else f", elsewhere {100 * line['elsewhere']:.1f} %"
        told = f"{100 * line['stopping']:.1f} % (probe {100 * line['probe']:.1f}){left}, {line['seconds']:.0f} s"
        print(f"{key['trial']}: {told}", flush=True)
    if given.page is not None:
        given.page.write_text(to_markdown(table(lines)) + "\n")


if __name__ == "__main__":
    main()
