"""Runs of arrays that a test gives, and whether two runs are the same."""

import numpy as np
import pandas as pd
import torch

from residual_audio.units import UnitTable

ONE_BLOCK = UnitTable(((3,),), (4,), (12,))


class HandMade:
    """A run of arrays that a test gives."""

    def __init__(self, x, targets, classes=("a", "b", "c"), units=ONE_BLOCK, weights=None, tokens=None, keys=("head",)):
        self.info = {"model": {"name": "made"}, "dataset": {"name": "by hand"}, "labels": list(classes)}
        self.units, self.heads, self.keys, self.tokens = units, x, list(keys), tokens
        self.clips = pd.DataFrame({"label": [classes[t] for t in targets]})
        generator = torch.Generator().manual_seed(0)
        self.weights = weights or {}
        for s, b in units.blocks if weights is None else ():
            width = units.heads[s][b] * units.d_head[s]
            self.weights[f"projection.{s}.{b}.weight"] = torch.randn(units.d_model[s], width, generator=generator)
            self.weights[f"projection.{s}.{b}.bias"] = torch.randn(units.d_model[s], generator=generator)

    def moments(self, level):
        if self.tokens is None:
            raise FileNotFoundError("moments.safetensors")
        return self.tokens

    def array(self, key):
        raise KeyError(key)

    def joint_shares(self, rows):
        raise KeyError("direct.units")


def made(clips=30, **changes) -> HandMade:
    x = torch.randn(clips, 3, 4, generator=torch.Generator().manual_seed(1))
    return HandMade(**{"x": x, "targets": np.arange(clips) % 3} | changes)


def same_runs(a, b) -> None:
    """Bit for bit: arrays, moments, and the fate of every clip."""
    assert a.complete
    assert b.complete
    assert a.keys == b.keys
    for key in a.keys:
        assert torch.equal(a.array(key)[:], b.array(key)[:]), key
    for name in ("moments.safetensors", *(f"shards/{n}" for n in a.store.names("shards"))):
        one, other = a.store.read_tensors(name), b.store.read_tensors(name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), name
    assert a.all_clips.equals(b.all_clips)
