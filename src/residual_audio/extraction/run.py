"""A finished (or growing) run: lazy, memory-mapped arrays that line up with the unit table and the clips."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from ..data import clean_label
from ..decomposition.direct import Norm
from ..decomposition.heads import head_contributions
from ..decomposition.joint import Held, JointWeights, joint_constant, joint_shares
from ..models import Encoder
from ..spectra import Moments
from ..units import UnitTable
from .integrity import MEND, Verified, check_run, fates
from .reopen import reopen
from .store import Store, StoreError, read_tensors

MOMENTS, WEIGHTS, CLIPS = "moments.safetensors", "weights.safetensors", "clips.parquet"


@dataclass(frozen=True)
class ShardedArray:
    """One array over all shards, read where it is asked for: ``array[10:20]``, ``array[[3, 7]]``, ``array[:]``."""

    key: str
    names: tuple[str, ...]
    verified: Verified
    starts: tuple[int, ...]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: int | slice | Sequence[int] | np.ndarray) -> Tensor:
        if isinstance(rows, int | np.integer):
            return self[[int(rows)]][0]
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        wanted = np.asarray(rows)
        if wanted.dtype == bool:
            wanted = np.flatnonzero(wanted)
        wanted = np.where(wanted < 0, wanted + len(self), wanted).astype(np.int64)
        if len(wanted) and not (wanted.min() >= 0 and wanted.max() < len(self)):
            raise IndexError(f"{self.key} has {len(self)} rows")
        shard = np.searchsorted(self.starts, wanted, side="right") - 1
        out: Tensor | None = None
        for number in np.unique(shard):
            places = np.flatnonzero(shard == number)
            inside = wanted[places] - self.starts[number]
            with safe_open(self.verified.reading(self.names[number]), "pt") as file:
                part = file.get_slice(self.key)
                low, high = int(inside.min()), int(inside.max()) + 1
                block = part[low:high][torch.from_numpy(inside - low)]
            out = torch.empty((len(wanted), *self.shape[1:]), dtype=block.dtype) if out is None else out
            out[torch.from_numpy(places)] = block
        return torch.empty((0, *self.shape[1:])) if out is None else out

    def batches(self, size: int = 256) -> Iterator[Tensor]:
        """The rows in order, a bounded number at a time."""
        for start in range(0, len(self), size):
            yield self[start : start + size]


@dataclass(frozen=True)
class Run:
    """An extraction on disk. Rows of every array are the readable clips, in the order of :attr:`clips`."""

    store: Store
    info: dict[str, Any]

    @classmethod
    def open(cls, address: str | Path) -> Run:
        store = Store(str(address))
        if not store.exists("run.json"):
            raise StoreError(f"{address}: no run.json; expected a directory written by `residual-audio extract`")
        info = store.read_json("run.json")
        if "units" not in info:
            raise StoreError(
                f"{address}: its run.json is not that of an extraction; expected a directory written by `residual-audio extract`"
            )
        return cls(store, info)

    @property
    def complete(self) -> bool:
        return self.info.get("status") == "complete"

    @cached_property
    def units(self) -> UnitTable:
        table = self.info["units"]
        return UnitTable(tuple(map(tuple, table["heads"])), tuple(table["d_head"]), tuple(table["d_model"]))

    @cached_property
    def verified(self) -> Verified:
        """Opens the run's files, after a check that they are those that were written."""
        return Verified(self.store, self.info.get("digests", {}))

    @cached_property
    def _shards(self) -> list[tuple[str, dict[str, tuple[int, ...]]]]:
        """Names and the shapes of arrays; what each holds is compared with the table of clips."""
        names = [f"shards/{name}" for name in self.store.names("shards")]
        known = [name for name in self.verified.digests if name.startswith("shards/")]
        for name in known if set(known) - set(names) else []:
            self.verified.reading(name)  # says which is missing
        ids = list(self.all_clips["id"]) if known else []
        shards, start = [], 0
        for name in known or names:
            path = self.store.reading(name)
            found = [fate["id"] for fate in fates(path)]
            if known and found != ids[start : start + len(found)]:
                raise StoreError(f"{self.store.address}: {name} holds other clips than {CLIPS} (swapped or copied); {MEND}")
            start += len(found)
            with safe_open(path, "pt") as file:
                shards.append((name, {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}))  # noqa: SIM118
        return shards

    @cached_property
    def all_clips(self) -> pd.DataFrame:
        """Every clip with its status and error. ``group``: its speaker, recording or instrument, or its id where none is known."""
        if self.store.exists(CLIPS):
            table = pd.read_parquet(self.verified.reading(CLIPS))
            return table if "group" in table else table.assign(group=table["id"])
        raise StoreError(f"{self.store.address} is not finished; run the same `residual-audio extract` command again to resume it")

    @property
    def clips(self) -> pd.DataFrame:
        """The readable clips: one row per row of the arrays."""
        return self.all_clips[self.all_clips.status == "ok"].reset_index(drop=True)

    @property
    def groups(self) -> np.ndarray:
        """The group of each readable clip."""
        return np.asarray(self.clips["group"].astype(str))

    @property
    def keys(self) -> list[str]:
        """Names of the arrays that were recorded."""
        return sorted({k for _, shapes in self._shards for k in shapes if not k.startswith("moments.")})

    def array(self, key: str) -> ShardedArray:
        """An array by name, such as ``head`` or ``stage.2``."""
        holders = [(name, shapes[key]) for name, shapes in self._shards if key in shapes]
        if not holders:
            raise KeyError(f"{self.store.address} has no {key!r}; it has {', '.join(self.keys)}. Extract with another --granularity.")
        counts = [shape[0] for _, shape in holders]
        starts = tuple(np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist())
        return ShardedArray(key, tuple(name for name, _ in holders), self.verified, starts, (sum(counts), *holders[0][1][1:]))

    @property
    def heads(self) -> ShardedArray:
        """Pooled head outputs ``[clip, head, d_head]``, heads in the table's order."""
        return self.array("head")

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The output projections and the joint projection, kept so that no model is needed to derive things."""
        return read_tensors(self.verified.reading(WEIGHTS))

    def contributions(self, stage: int, block: int, rows: slice | Sequence[int] = slice(None)) -> Float[Tensor, "clip head d_model"]:
        """Pooled contributions of a block's heads, derived from their pooled outputs and the weights, exactly."""
        labels = [u.label for u in self.units.where("head")]
        own_rows = [labels.index(u.label) for u in self.units.where("head", stage, block)]
        heads = self.heads[rows][:, own_rows].to(torch.float32)
        return head_contributions(
            heads, self.weights[f"projection.{stage}.{block}.weight"], self.weights[f"projection.{stage}.{block}.bias"]
        )

    def moments(self, level: str = "tokens") -> Moments:
        """Per head, at the level of ``tokens`` or ``clips``."""
        return Moments.from_tensors(read_tensors(self.verified.reading(MOMENTS)), f"moments.{level}")

    def shares(self, rows: slice | Sequence[int] = slice(None)) -> tuple[Float[Tensor, "clip unit d"], Float[Tensor, "clip d"]]:
        """Direct shares of the pooled output, units in the table's order, and the constant: they sum to it."""
        return self.array("direct.units")[rows].to(torch.float32), self.array("direct.constant")[rows]

    def joint_shares(
        self, rows: slice | Sequence[int] = slice(None)
    ) -> tuple[Float[Tensor, "clip unit joint"], Float[Tensor, "clip joint"]]:
        """Direct shares of the joint embedding, through the held projection, and the constant: they sum to it."""
        shares, constant = self.shares(rows)
        joint = self._joint
        if joint is None:
            return shares, constant
        held = Held(self.array("direct.ratio")[rows], self.array("direct.scale")[rows])
        return joint_shares(shares, joint, held), joint_constant(constant, joint, held)

    @cached_property
    def _joint(self) -> JointWeights | None:
        w = self.weights
        if "joint.first" not in w:
            return None
        norm = Norm(w["joint.norm.weight"], w["joint.norm.bias"], float(w["joint.norm.eps"])) if "joint.norm.weight" in w else None
        return JointWeights(w["joint.first"], w["joint.second"], w.get("joint.first_bias"), w.get("joint.second_bias"), norm)

    @property
    def class_names(self) -> dict[str, str]:
        """What prompts call each class, by label."""
        names = self.info.get("class_names", {})
        return {label: names.get(label, clean_label(label)) for label in self.info["labels"]}

    def open_encoder(self, device: str = "cpu") -> Encoder:
        """The encoder that the run was made with, opened as it was then: same weights, same preprocessing, or an error."""
        return reopen(self.info, self.weights if self.store.exists(WEIGHTS) else {}, device)

    def problems(self) -> list[str]:
        """What is wrong with the files of the run, one line each; every byte is read."""
        try:
            ids = list(self.all_clips["id"])
        except StoreError as error:
            return [str(error)]
        return check_run(self.info, self.store, ids)

    def __repr__(self) -> str:
        return f"<Run {self.store.address} · {self.info['model']['name']} on {self.info['dataset']['name']}, {self.info['status']}>"


def write_clips(store: Store, table: pd.DataFrame) -> None:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    with store.writing(CLIPS) as path:
        path.write_bytes(buffer.getvalue())
