"""Clips that were labelled in the browser, as a dataset on disk: a table and the sounds that came with it. Written before it is told.

Every row names the run that it belongs to. A folder of the server is named after a run's own folder, and another run may have the same
name: it neither sees these labels nor learns from them.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import soundfile

from ..spelling import FORMULA, one_spelling, printable
from ..writing import drafted, own_folder
from .entry import Entry
from .folder import Folder, name_of
from .limits import DATASETS, LABEL, ROWS
from .problems import Problem
from .sounds import Kept

KIND, TABLE, SOUNDS = "datasets", "table.csv", "sounds"
COLUMNS = ("id", "path", "label", "group", "row", "run")


def identity(entry: Entry) -> str:
    """The same for the same model on the same clips; empty for a model alone, where only uploads have labels."""
    if entry.run is None:
        return ""
    info = entry.run.info
    known = [info["model"], info["preprocessing"]["hash"], info["dataset"]]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def label_of(text: str) -> str:
    """As it is stored and shown: one spelling, nothing that acts."""
    label = one_spelling(printable(text)).strip()
    if not 0 < len(label) <= LABEL:
        raise Problem(422, f"a label has 1 to {LABEL} characters")
    if label.startswith(FORMULA):
        raise Problem(422, "a label cannot begin with =, +, − or @: spreadsheets take that for a formula")
    return label


class Labels:
    """The datasets of one entry."""

    def __init__(self, folder: Folder, entry: Entry) -> None:
        self.folder, self.entry, self.lock = folder, entry, Lock()
        self.run = identity(entry)

    def place(self, name: str) -> Path:
        return self.folder.of(self.entry.id, KIND, name_of(name))

    def rows(self, name: str) -> list[dict[str, str]]:
        """None where there is no such dataset; a problem where it is another run's."""
        table = own_folder(self.place(name) / TABLE)
        if not table.is_file():
            return []
        with table.open(newline="", encoding="utf-8") as file:
            rows = [{key: row.get(key) or "" for key in COLUMNS} for row in csv.DictReader(file)]
        if not all(map(self.ours, rows)):
            raise Problem(409, "this name holds labels of another run; choose another name")
        return rows

    def ours(self, row: dict[str, str]) -> bool:
        """Labels without a run are of a model alone, or of an earlier version: ours where they name our clips by their rows."""
        if row["run"]:
            return row["run"] == self.run
        return not row["row"] or (row["row"].isdecimal() and row["id"] in self.entry.ids[int(row["row"]) :][:1])

    def listed(self) -> list[dict[str, Any]]:
        found = []
        for name in self.folder.names(self.entry.id, KIND):
            with suppress(Problem):  # another run's
                found.append(self.counted(name))
        return [one for one in found if one["clips"]]

    def counted(self, name: str) -> dict[str, Any]:
        rows = self.rows(name)
        return {"name": name, "clips": len(rows), "classes": dict(Counter(row["label"] for row in rows))}

    def shown(self, name: str) -> dict[str, Any]:
        rows = self.rows(name)
        if not rows:
            raise Problem(404, "no dataset of that name")
        place = {row: i for i, row in enumerate(self.entry.page_rows)}
        numbers = [int(row["row"]) if row["row"].isdecimal() else None for row in rows]
        return {
            "name": name,
            "rows": [
                {"key": row["id"], "label": row["label"], "clip": -1 if n is None else place.get(n, -1), "row": n, "id": row["id"]}
                for row, n in zip(rows, numbers, strict=True)
            ],
        }

    def label(self, name: str, what: Kept | int, text: str | None) -> dict[str, Any]:
        """Label an upload or a clip of the run; another label replaces the one it had, none takes it out."""
        label = None if text is None else label_of(text)
        with self.lock:
            rows = self.rows(name)
            if isinstance(what, int):
                clip = self.entry.clip(what)
                new = {"id": clip.id, "path": clip.path, "label": label, "group": clip.own_group, "row": str(what)}
            else:
                new = {"id": f"upload-{what.digest}", "path": f"{SOUNDS}/{what.digest}.wav", "label": label, "group": "", "row": ""}
            others = [row for row in rows if row["id"] != new["id"]]
            if label is not None and len(others) >= ROWS:
                raise Problem(409, f"a dataset has at most {ROWS} clips here")
            if label is None and len(others) == len(rows):
                raise Problem(404, "this clip has no label")
            if not rows and len(self.folder.names(self.entry.id, KIND)) >= DATASETS:
                raise Problem(409, f"there are {DATASETS} datasets; delete some")
            if isinstance(what, Kept):
                self.keep(name, what, remove=label is None)
            new["run"] = self.run
            at = next((i for i, row in enumerate(rows) if row["id"] == new["id"]), len(rows))
            self.write(name, others if label is None else [*rows[:at], new, *rows[at + 1 :]])
        return self.counted(name)

    def keep(self, name: str, what: Kept, remove: bool) -> None:
        """The sound itself, as the model hears it."""
        if what.values.ndim != 1:
            raise Problem(422, "only sounds can be labelled here")
        path = own_folder(self.place(name) / SOUNDS / f"{what.digest}.wav", below=self.folder.home)
        if remove:
            path.unlink(missing_ok=True)
        elif not path.exists():
            with drafted(path) as draft, draft.open("wb") as file:
                soundfile.write(file, np.asarray(what.values, np.float32), what.rate, subtype="FLOAT", format="WAV")

    def write(self, name: str, rows: list[dict[str, Any]]) -> None:
        place = self.place(name)
        place.mkdir(parents=True, exist_ok=True)
        with drafted(own_folder(place / TABLE)) as draft, draft.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, COLUMNS)
            table.writeheader()
            table.writerows(rows)

    def delete(self, name: str) -> None:
        place = self.place(name)
        with self.lock:
            if not place.is_dir():
                raise Problem(404, "no dataset of that name")
            self.rows(name)  # another run's stays
            self.folder.remove(place)

    def table(self, name: str) -> Path:
        """For training; refused where there is nothing to learn."""
        classes = self.counted(name)["classes"]
        if len(classes) < 2 or min(classes.values()) < 2:
            raise Problem(422, "training needs two clips of each of at least two labels")
        return self.place(name) / TABLE
