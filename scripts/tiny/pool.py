"""Rendered sounds as tensors, cached chunk by chunk: a render that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from residual_audio.audio import log_mel
from residual_audio.data.synthesis import TASKS

from .instruments import DRUMS, EXTRA, PROGRAMS
from .recordings import find
from .soundfonts import TRAINED
from .sounds import MEL, Job, instrument, render

CHUNK = 500


@dataclass
class Pool:
    """``mels [clip, frame, mel]`` in half precision, ``texts [clip][caption]``, and which concepts clips have and captions claim."""

    mels: Tensor
    labels: Tensor
    texts: list[list[str]]
    names_class: Tensor
    has: Tensor
    claims: Tensor

    def truth(self, rows: Tensor, caption: Tensor) -> Tensor:
        """``[clip, caption]``: is the caption true of the clip?"""
        claimed = self.claims[rows, caption].float()
        return (claimed @ (1 - self.has[rows].float()).T).T == 0


def synthetic_jobs(per_class: int, first_seed: int, task: str = "source") -> list[Job]:
    return [Job("synthetic", (task, i), first_seed + s) for i, kind in enumerate(TASKS[task]) for s in range(per_class * kind.variety)]


def soundfont_jobs(per_weight: int, first_seed: int, fonts: Iterable[int] = range(len(TRAINED))) -> list[Job]:
    fonts, jobs = list(fonts), []
    players = [(number, -1) for number in PROGRAMS] + [(program, i) for i, (program, _) in enumerate(EXTRA)]
    for number, extra in players:
        for s in range(round(per_weight * instrument(number, extra).weight)):
            jobs.append(Job("program", (fonts[s % len(fonts)], number, extra), first_seed + s))
    for number, known in DRUMS.items():
        jobs += [Job("drum", (fonts[s % len(fonts)], number), first_seed + s) for s in range(round(per_weight * known.weight))]
    return jobs


def recording_jobs(each: int, first_seed: int) -> list[Job]:
    return [Job("recording", (i,), first_seed + s) for i in range(len(find())) for s in range(each)]


def rendered(jobs: list[Job]) -> tuple[np.ndarray, list[dict[str, object]]]:
    torch.set_num_threads(1)
    mels, rows = [], []
    for job in jobs:
        sound = render(job)
        mels.append(log_mel(torch.from_numpy(np.ascontiguousarray(sound.samples)), MEL).half().numpy())
        captions = [[c.text, sorted(c.concepts), c.names_class] for c in sound.claims]
        rows.append({"label": sound.facts.nouns[0], "has": sorted(sound.facts.concepts), "captions": captions})
    return np.stack(mels), rows


def make_chunk(jobs: list[Job], file: Path) -> None:
    mels, rows = rendered(jobs)
    if not np.isfinite(mels).all():
        raise ValueError(f"{file.name}: a sound has features that are not finite")
    part = file.with_suffix(".part.npz")
    np.savez(part, mels=mels, rows=np.frombuffer(json.dumps(rows).encode(), dtype=np.uint8))
    part.rename(file)


def make_pool(jobs: list[Job], cache: Path, title: str) -> tuple[Pool, dict[str, list[str]]]:
    """Render what the cache lacks; gives the clips, and the names of their classes and concepts."""
    cache.mkdir(parents=True, exist_ok=True)
    chunks = [jobs[k : k + CHUNK] for k in range(0, len(jobs), CHUNK)]
    names = [hashlib.sha256(json.dumps([asdict(j) for j in chunk]).encode()).hexdigest()[:16] for chunk in chunks]
    files = [cache / f"{name}.npz" for name in names]
    missing = [(chunk, file) for chunk, file in zip(chunks, files, strict=True) if not file.exists()]
    if missing:
        with ProcessPoolExecutor() as workers:
            list(track(workers.map(make_chunk, *zip(*missing, strict=True)), title, total=len(missing)))
    loaded = [np.load(file) for file in files]
    rows = [row for part in loaded for row in json.loads(part["rows"].tobytes())]
    concepts = {c for row in rows for c in row["has"]} | {c for row in rows for _, claimed, _ in row["captions"] for c in claimed}
    vocabulary = {"labels": sorted({row["label"] for row in rows}), "concepts": sorted(concepts)}
    place = {concept: i for i, concept in enumerate(vocabulary["concepts"])}
    label = {name: i for i, name in enumerate(vocabulary["labels"])}
    captions = len(rows[0]["captions"])
    has = torch.zeros(len(rows), len(place), dtype=torch.bool)
    claims = torch.zeros(len(rows), captions, len(place), dtype=torch.bool)
    for i, row in enumerate(rows):
        has[i, [place[c] for c in row["has"]]] = True
        for k, (_, claimed, _) in enumerate(row["captions"]):
            claims[i, k, [place[c] for c in claimed]] = True
    pool = Pool(
        mels=torch.from_numpy(np.concatenate([part["mels"] for part in loaded])),
        labels=torch.tensor([label[row["label"]] for row in rows]),
        texts=[[c[0] for c in row["captions"]] for row in rows],
        names_class=torch.tensor([[c[2] for c in row["captions"]] for row in rows]),
        has=has,
        claims=claims,
    )
    return pool, vocabulary
