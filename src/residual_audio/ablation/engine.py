"""What the embedding becomes when a unit is replaced by zero or by its mean: all units of a kind, one at a time.

The forward up to the block of an ablated unit runs once; only what comes after it is repeated, and heads of one block
go through it together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..decomposition.heads import head_weights, split_heads
from ..models import BlockSite, Encoder
from ..models.copies import Cores
from ..models.recording import record

Kind = Literal["head", "block", "stage", "mlp"]
KINDS: tuple[Kind, ...] = ("head", "block", "stage", "mlp")


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
        units, make = encoder.units, dict(dtype=encoder.dtype, device=encoder.device)
        return cls(
            "zero",
            tuple(torch.zeros(s.heads, units.d_head[s.stage], **make) for s in encoder.sites),
            tuple(torch.zeros(units.d_model[s.stage], **make) for s in encoder.sites),
        )

    def attention(self, encoder: Encoder, block: int) -> Float[Tensor, " d_model"]:
        """What takes the place of a block's whole attention write: zero means nothing at all, not even the bias."""
        projection = encoder.module.get_submodule(encoder.sites[block].projection)
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
        put = dict(dtype=self.encoder.dtype, device=self.encoder.device)
        return Replacements(
            "mean", tuple((h / self.clips).to(**put) for h in self.heads), tuple((m / self.clips).to(**put) for m in self.mlp)
        )


@dataclass(frozen=True)
class Ablated:
    """``embeddings[unit, clip]`` with each of ``labels`` replaced."""

    labels: list[str]
    embeddings: Float[Tensor, "unit clip d"]


class Ablation:
    """Runs batches with every unit of ``kind`` replaced in turn. ``rows``: clips × units that go through the model at once.

    On a CPU, every core takes its own part of the clips through its own modules: cores that share every product wait for each other.
    """

    def __init__(self, encoder: Encoder, kind: Kind, replacements: Replacements, rows: int = 32, threads: int | None = None) -> None:
        self.encoder, self.kind, self.replacements, self.rows = encoder, kind, replacements, rows
        self.cores = Cores(encoder, threads)

    @property
    def labels(self) -> list[str]:
        """Of the ablated units, in the order of their results."""
        units = self.encoder.units
        if self.kind == "stage":
            return [f"S{s}" for s in range(len(units.heads))]
        if self.kind == "block":
            return [f"S{s}B{b}" for s, b in units.blocks]
        return [u.label for u in units.where(self.kind)]

    def run(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> tuple[Tensor, Ablated]:
        """The embeddings as they are, and with each unit replaced."""
        count = min(self.cores.count, len(features))
        found = self.cores.map(self._part, features.tensor_split(count), longer.tensor_split(count))
        return torch.cat([plain for plain, _ in found]), Ablated(self.labels, torch.cat([a.embeddings for _, a in found], 1))

    def _part(self, encoder: Encoder, features: Tensor, longer: Tensor) -> tuple[Tensor, Ablated]:
        return Ablation(encoder, self.kind, self.replacements, self.rows, threads=1)._run(features, longer)

    @torch.inference_mode()
    def _run(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> tuple[Tensor, Ablated]:
        entries: list[Tensor] = []
        outputs: list[Tensor] = []
        with record(
            self.encoder,
            entry=lambda site, x: entries.append(x),
            heads=(lambda site, z: outputs.append(z)) if self.kind == "head" else None,
        ):
            plain = self.encoder.encode(features, longer)
        if self.kind == "head":
            parts = [self._heads(i, entries[i], outputs[i]) for i in range(len(entries))]
        elif self.kind == "stage":
            first = [next(i for i, site in enumerate(self.encoder.sites) if site.stage == s) for s in range(len(self.encoder.stages))]
            parts = [self._stage(i, entries[i]) for i in first]
        else:
            one = self._block if self.kind == "block" else self._mlp
            parts = [one(i, entries[i]) for i in range(len(entries))]
        return plain, Ablated(self.labels, torch.cat(parts))

    def _heads(self, block: int, entry: Tensor, z: Tensor) -> Float[Tensor, "head clip d"]:
        site, clips = self.encoder.sites[block], len(entry)
        projection = self.encoder.module.get_submodule(site.projection)
        weights = head_weights(projection.weight, site.heads)
        written, split = projection(z), split_heads(z, site.heads)
        results = []
        for start in range(0, site.heads, max(1, self.rows // clips)):
            chosen = slice(start, min(start + max(1, self.rows // clips), site.heads))
            count = chosen.stop - chosen.start
            change = self.replacements.heads[block][chosen] - split[..., chosen, :]
            # [unit, window, token, d_model]: units outermost, as the repeated clips are.
            changed = written + torch.einsum("wthd,hmd->hwtm", change, weights[chosen])
            repeated = entry.repeat(count, *(1,) * (entry.ndim - 1))
            with supplied(self.encoder, site, lambda x, changed=changed: changed.reshape(x.shape)):
                results.append(self.encoder.resume(repeated, block).unflatten(0, (count, clips)))
        return torch.cat(results)

    def _block(self, block: int, entry: Tensor) -> Float[Tensor, "one clip d"]:
        write = self.replacements.attention(self.encoder, block)
        with supplied(self.encoder, self.encoder.sites[block], lambda x: write.expand_as(x)):
            return self.encoder.resume(entry, block)[None]

    def _stage(self, first: int, entry: Tensor) -> Float[Tensor, "one clip d"]:
        with ExitStack() as stack:
            for i, site in enumerate(self.encoder.sites):
                if site.stage == self.encoder.sites[first].stage:
                    write = self.replacements.attention(self.encoder, i)
                    stack.enter_context(supplied(self.encoder, site, lambda x, write=write: write.expand_as(x)))
            return self.encoder.resume(entry, first)[None]

    def _mlp(self, block: int, entry: Tensor) -> Float[Tensor, "one clip d"]:
        with record(self.encoder, mlp=lambda s, m: self.replacements.mlp[block].expand_as(m), sites=(self.encoder.sites[block],)):
            return self.encoder.resume(entry, block)[None]


def first_order(
    encoder: Encoder,
    features: Float[Tensor, "clip channel frame mel"],
    longer: Bool[Tensor, " clip"],
    score: Callable[[Float[Tensor, "clip d"]], Float[Tensor, " clip"]],
    kind: Kind,
    replacements: Replacements,
) -> Float[Tensor, "unit clip"]:
    r"""How much each unit's replacement would lower ``score(embedding)``, to first order: $\nabla_z s \cdot (z - r)$.

    One forward and one backward pass give all units. Units are in the order of :attr:`Ablation.labels`.
    """
    kept: list[Tensor] = []

    def keep(site: BlockSite, x: Tensor) -> None:
        x.retain_grad()
        kept.append(x)

    clips = len(features)
    reach = {"head": "heads", "mlp": "mlp"}.get(kind, "write")
    with torch.enable_grad(), record(encoder, **{reach: keep}):
        score(encoder.encode(features.detach().requires_grad_(), longer)).sum().backward(inputs=kept)  # and not the weights
    rows = []
    for i, (site, x) in enumerate(zip(encoder.sites, kept, strict=True)):
        if kind == "head":
            towards = replacements.heads[i].flatten()
        else:
            towards = replacements.mlp[i] if kind == "mlp" else replacements.attention(encoder, i)
        effect = (x.grad * (x.detach() - towards)).reshape(clips, -1, x.shape[-1]).sum(1)
        rows.append(split_heads(effect, site.heads).sum(-1).T if kind == "head" else effect.sum(-1)[None])
    if kind == "stage":
        return torch.stack(
            [torch.cat([r for r, s in zip(rows, encoder.sites, strict=True) if s.stage == n]).sum(0) for n in range(len(encoder.stages))]
        )
    return torch.cat(rows)
