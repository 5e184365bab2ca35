"""A finished run of any number of clips, without running a model: shards as they are written, of embeddings that mean nothing."""

from pathlib import Path

import torch

from residual_audio.data import Clip, Dataset, make_dataset
from residual_audio.extraction import Run, Settings
from residual_audio.extraction.extract import finish, identity, jobs_of, open_or_create
from residual_audio.extraction.integrity import digest_name
from residual_audio.extraction.reopen import kept_weights
from residual_audio.extraction.run import WEIGHTS
from residual_audio.extraction.store import Store, digest_of, shard_name
from residual_audio.models import Encoder


def large_dataset(clips: int, classes: int) -> Dataset:
    return make_dataset("large", [Clip(f"clip/{i}", f"synthetic:{i}", f"class {i % classes}", fold=i % 5) for i in range(clips)])


def large_run(encoder: Encoder, data: Dataset, folder: Path) -> Run:
    """What ``extract`` with the granularity ``embedding`` would leave."""
    import json

    settings, store = Settings(("embedding",)).sized(len(data)), Store(str(folder))
    open_or_create(store, identity(encoder, data, settings, files=False))
    store.write_tensors(WEIGHTS, kept_weights(encoder))
    for number, clips in jobs_of(data, settings):
        name = shard_name(number)
        told = json.dumps([{"id": clip.id, "error": "", "stamp": None} for clip in clips])
        store.write_tensors(name, {"embedding.joint": torch.full((len(clips), encoder.dim), float(number))}, {"clips": told})
        store.write_text(digest_name(name), digest_of(store.reading(name)))
    finish(store, data, settings, encoder)
    return Run.open(folder)
