"""What the embedding becomes when a unit is replaced by zero or by its mean: the chosen units, one at a time.

The forward up to the block of a chosen unit runs once; only what comes after it is repeated, and chosen heads of one block go through it
together. Blocks without a chosen unit are run through and otherwise left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..decomposition.heads import head_weights, split_heads
from ..models import BlockSite, Encoder
from ..models.copies import Cores
from ..models.recording import record
from ..units import Kind, Unit

# What can be replaced.
ABLATABLE: tuple[Kind, ...] = ("head", "mlp", "block", "stage")


@contextmanager
def supplied(encoder: Encoder, site: BlockSite, write: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside, ``site``'s attention does not run: ``write(its input)`` is what it returns."""
    module = encoder.module.get_submodule(site.attention)
    own = module.__dict__.get("forward")

    def forward(*args: Any, **named: Any) -> tuple[Tensor, None]:
        return write(args[0] if args else named["hidden_states"]), None

    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.__dict__["forward"]
        else:
            module.forward = own


@dataclass(frozen=True)
class Replacements:
    """What takes a unit's place at every token: ``heads[i]`` per head and ``mlp[i]`` for block i; zeros, or means over the data."""

    how: str
    heads: tuple[Float[Tensor, "_ _"], ...]
    mlp: tuple[Float[Tensor, " _"], ...]

    @classmethod
    def zero(cls, encoder: Encoder) -> Replacements:
        units, make = encoder.units, partial(torch.zeros, dtype=encoder.dtype, device=encoder.device)
        return cls(
            "zero",
            tuple(make(s.heads, units.d_head[s.stage]) for s in encoder.sites),
            tuple(make(units.d_model[s.stage]) for s in encoder.sites),
        )

    def attention(self, encoder: Encoder, block: int) -> Float[Tensor, " d_model"]:
        """What takes the place of a block's whole attention write: zero means nothing at all, not even the bias."""
        projection = projection_of(encoder, encoder.sites[block])
        if self.how == "zero":
            return torch.zeros_like(projection.weight[:, 0])
        return projection(self.heads[block].flatten())


class UnitMeans:
    """Streams the mean over tokens and clips of every head output and MLP write."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.clips = encoder, 0
        self.heads = [torch.zeros(s.heads, encoder.units.d_head[s.stage], dtype=torch.float64) for s in encoder.sites]
        self.mlp = [torch.zeros(encoder.units.d_model[s.stage], dtype=torch.float64) for s in encoder.sites]

    @torch.inference_mode()
    def run(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        """Encode a batch and add it."""
        number = {(s.stage, s.block): i for i, s in enumerate(self.encoder.sites)}
        clips = len(features)

        def heads(site: BlockSite, z: Tensor) -> None:
            mean = z.flatten(0, -2).mean(0, dtype=torch.float64)
            self.heads[number[site.stage, site.block]] += clips * split_heads(mean, site.heads).cpu()

        def mlp(site: BlockSite, m: Tensor) -> None:
            self.mlp[number[site.stage, site.block]] += clips * m.flatten(0, -2).mean(0, dtype=torch.float64).cpu()

        with record(self.encoder, heads=heads, mlp=mlp):
            embedding = self.encoder.encode(features, longer)
        self.clips += clips
        return embedding

    def replacements(self) -> Replacements:
        def put(total: Tensor) -> Tensor:
            return (total / self.clips).to(dtype=self.encoder.dtype, device=self.encoder.device)

        return Replacements("mean", tuple(map(put, self.heads)), tuple(map(put, self.mlp)))


def projection_of(encoder: Encoder, site: BlockSite) -> nn.Linear:
    """The attention's output projection."""
    return cast(nn.Linear, encoder.module.get_submodule(site.projection))


def block_of(encoder: Encoder, unit: Unit) -> int:
    """The number of the first block that a unit lies in."""
    return next(i for i, s in enumerate(encoder.sites) if s.stage == unit.stage and unit.block in (-1, s.block))


class Ablation:
    """Runs batches with each of ``units`` replaced in turn. ``rows``: clips × units that go through the model at once.

    On a CPU, every core takes its own part of the clips through its own modules: cores that share every product wait for each other.
    """

    def __init__(
        self, encoder: Encoder, units: Sequence[Unit], replacements: Replacements, rows: int = 32, threads: int | None = None
    ) -> None:
        self.encoder, self.units, self.replacements, self.rows = encoder, tuple(units), replacements, rows
        self.cores = Cores(encoder, threads)

    def run(
        self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]
    ) -> tuple[Float[Tensor, "clip d"], Float[Tensor, "unit clip d"]]:
        """The embeddings as they are, and with each unit replaced."""
        count = min(self.cores.count, len(features))
        parts = self.cores.map(self._part, features.tensor_split(count), longer.tensor_split(count))
        return torch.cat([plain for plain, _ in parts]), torch.cat([changed for _, changed in parts], 1)

    def _part(self, encoder: Encoder, features: Tensor, longer: Tensor) -> tuple[Tensor, Tensor]:
        return Ablation(encoder, self.units, self.replacements, self.rows, threads=1)._run(features, longer)

    @torch.inference_mode()
    def _run(self, features: Tensor, longer: Tensor) -> tuple[Tensor, Tensor]:
        by_block: dict[int, list[Unit]] = {}
        for unit in self.units:
            by_block.setdefault(block_of(self.encoder, unit), []).append(unit)
        entries: dict[tuple[int, int], Tensor] = {}
        outputs: dict[tuple[int, int], Tensor] = {}
        with ExitStack() as stack:
            looked = tuple(self.encoder.sites[i] for i in by_block)
            stack.enter_context(record(self.encoder, entry=lambda s, x: entries.update({(s.stage, s.block): x}), sites=looked))
            for_heads = tuple(self.encoder.sites[i] for i, some in by_block.items() if any(u.kind == "head" for u in some))
            stack.enter_context(record(self.encoder, heads=lambda s, z: outputs.update({(s.stage, s.block): z}), sites=for_heads))
            plain = self.encoder.encode(features, longer)
        changed: dict[Unit, Tensor] = {}
        for i, units in by_block.items():
            place = (self.encoder.sites[i].stage, self.encoder.sites[i].block)
            heads = [u for u in units if u.kind == "head"]
            if heads:
                changed |= zip(heads, self._heads(i, [u.head for u in heads], entries[place], outputs[place]), strict=True)
            for unit in units:
                if unit.kind != "head":
                    one = {"block": self._block, "stage": self._stage, "mlp": self._mlp}[unit.kind]
                    changed[unit] = one(i, entries[place])
        return plain, torch.stack([changed[unit] for unit in self.units])

    def _heads(self, block: int, heads: list[int], entry: Tensor, z: Tensor) -> list[Float[Tensor, "clip d"]]:
        site, clips = self.encoder.sites[block], len(entry)
        projection = projection_of(self.encoder, site)
        weights = head_weights(projection.weight, site.heads)
        written, split = projection(z), split_heads(z, site.heads)
        together = max(1, self.rows // clips)
        results: list[Tensor] = []
        for chosen in (heads[i : i + together] for i in range(0, len(heads), together)):
            change = self.replacements.heads[block][chosen] - split[..., chosen, :]
            # [unit, window, token, d_model]: units outermost, as the repeated clips are.
            changed = written + torch.einsum("wthd,hmd->hwtm", change, weights[chosen])
            repeated = entry.repeat(len(chosen), *(1,) * (entry.ndim - 1))
            with supplied(self.encoder, site, lambda x, changed=changed: changed.reshape(x.shape)):
                results += self.encoder.resume(repeated, block).unflatten(0, (len(chosen), clips))
        return results

    def _block(self, block: int, entry: Tensor) -> Float[Tensor, "clip d"]:
        write = self.replacements.attention(self.encoder, block)
        with supplied(self.encoder, self.encoder.sites[block], lambda x: write.expand_as(x)):
            return self.encoder.resume(entry, block)

    def _stage(self, first: int, entry: Tensor) -> Float[Tensor, "clip d"]:
        with ExitStack() as stack:
            for i, site in enumerate(self.encoder.sites):
                if site.stage == self.encoder.sites[first].stage:
                    write = self.replacements.attention(self.encoder, i)
                    stack.enter_context(supplied(self.encoder, site, lambda x, write=write: write.expand_as(x)))
            return self.encoder.resume(entry, first)

    def _mlp(self, block: int, entry: Tensor) -> Float[Tensor, "clip d"]:
        with record(self.encoder, mlp=lambda s, m: self.replacements.mlp[block].expand_as(m), sites=(self.encoder.sites[block],)):
            return self.encoder.resume(entry, block)
