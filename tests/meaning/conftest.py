"""A real run of ``tiny``, and one that is constructed: its heads write directions of texts that we know."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import torch

from residual_audio.data import load_dataset
from residual_audio.data.synthesis.catalogue import SOURCES
from residual_audio.extraction import Run, extract
from residual_audio.extraction.store import Store
from residual_audio.models import load_encoder
from residual_audio.units import UnitTable

PLANTED = {
    "S0B0H0": ("bell", "white noise", "siren"),
    "S0B0H1": ("plucked string", "rain", "thunder"),
    "S0B1H0": ("helicopter", "bird", "ticking clock"),
    "S0B1H1": ("footsteps", "organ", "wind"),
}
# One name a class: of two names for one thing either would be right.
WORDS = tuple(kind.label for kind in SOURCES)
RUN_CLASSES = 12


@pytest.fixture(scope="session", autouse=True)
def text_cache(tmp_path_factory):
    """Texts are kept for this session only, never in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESIDUAL_AUDIO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="session")
def run(tiny, tmp_path_factory) -> Run:
    data = load_dataset("synthetic", per_class=4)
    data = data.only(lambda c: c.label in data.labels[:RUN_CLASSES], "some classes")
    return extract(tiny, data, tmp_path_factory.mktemp("run") / "r", ("head", "embedding", "direct"), batch_size=16)


@pytest.fixture(scope="session")
def planted(tiny, tmp_path_factory) -> tuple[Run, np.ndarray]:
    """A run whose heads write three known texts each, and a little noise; and by how much, ``[clip, head, text]``."""
    rng = np.random.default_rng(0)
    units = UnitTable(heads=((2, 2),), d_head=(8,), d_model=(16,))
    texts = tiny.embed_text(WORDS).numpy()
    clips = 90
    amounts = rng.standard_normal((clips, len(PLANTED), 3)) * [3.0, 2.0, 1.5]
    shares = np.zeros((clips, len(units), tiny.dim), dtype=np.float32)
    for head, (label, words) in enumerate(PLANTED.items()):
        directions = texts[[WORDS.index(w) for w in words]]
        shares[:, units.index(label)] = amounts[:, head] @ directions + 0.02 * rng.standard_normal((clips, tiny.dim))
    constant = np.tile(rng.standard_normal(tiny.dim), (clips, 1)).astype(np.float32)
    embedding = torch.from_numpy(shares.sum(1) + constant)
    # Shares are of the unit-length embedding in the end; give every clip the same length, so that amounts stay what was planted.
    length = embedding.norm(dim=-1)
    scale = 10 / length
    arrays = {
        "direct.units": torch.from_numpy(shares) * scale[:, None, None],
        "direct.constant": torch.from_numpy(constant) * scale[:, None],
        "embedding.joint": embedding * scale[:, None],
    }
    amounts = amounts * (scale / 10).numpy()[:, None, None]
    rows = [{"id": f"clip{i}", "path": "", "label": "ab"[i % 2], "fold": i % 5 + 1, "status": "ok", "error": ""} for i in range(clips)]
    store = Store(str(tmp_path_factory.mktemp("planted") / "r"))
    names = [{"id": r["id"], "error": ""} for r in rows]
    store.write_tensors("shards/00000.safetensors", arrays, {"clips": json.dumps(names)})
    store.write_tensors("weights.safetensors", {"none": torch.zeros(1)})
    with store.writing("clips.parquet") as path:
        pd.DataFrame(rows).to_parquet(path)
    info = {
        "model": {"name": tiny.name, "revision": tiny.revision},
        "preprocessing": {**asdict(tiny.policy), "hash": tiny.policy.hash},
        "dataset": {"name": "planted", "clips": clips},
        "settings": {},
        "units": asdict(units),
        "labels": ["a", "b"],
        "status": "complete",
    }
    store.write_json("run.json", info)
    return Run.open(store.address), amounts


@pytest.fixture(scope="session")
def own_words(tmp_path_factory) -> str:
    """The same names as a user's own dictionary."""
    path = tmp_path_factory.mktemp("words") / "mine.txt"
    path.write_text("\n".join(WORDS))
    return str(path)
