"""One batch through the encoder, and everything that was asked for of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..decomposition.direct import (
    Merge,
    Norm,
    constant_share,
    head_maps,
    head_shares,
    held_scale,
    position_maps,
    stream_shares,
    token_weights,
    weighted_positions,
    written_everywhere,
)
from ..decomposition.joint import Held, JointWeights, hold
from ..decomposition.layout import group_order, to_groups, to_spectrogram
from ..models import BlockSite, Encoder
from ..models.recording import record
from ..spectra import Moments
from ..units import Unit

GRANULARITIES = ("head", "mlp", "block", "stage", "embedding", "moments", "direct", "tokens")


def layer_norm(module: nn.Module) -> Norm:
    return Norm(module.weight.detach(), module.bias.detach(), module.eps)


def joint_weights(encoder: Encoder) -> JointWeights | None:
    """The projection into the joint space, or None where the pooled output is the embedding."""
    site = encoder.readout
    if site.joint == "none":
        return None
    first = encoder.module.get_submodule(site.linear1)
    if site.joint == "linear":
        identity = torch.eye(first.out_features, dtype=first.weight.dtype, device=first.weight.device)
        return JointWeights(first.weight.detach(), identity, None if first.bias is None else first.bias.detach())
    second = encoder.module.get_submodule(site.linear2)
    bias = [None if m.bias is None else m.bias.detach() for m in (first, second)]
    norm = layer_norm(encoder.module.get_submodule(site.joint_norm)) if site.joint_norm else None
    return JointWeights(first.weight.detach(), second.weight.detach(), *bias, norm)


def joint_activation(encoder: Encoder) -> Callable[[Tensor], Tensor]:
    """The nonlinearity inside the joint projection; the identity in a linear one."""
    if encoder.readout.joint == "linear":
        return nn.Identity()
    owner = encoder.module.get_submodule(encoder.readout.linear1.rpartition(".")[0])
    return getattr(owner, "activation", nn.functional.gelu)


@contextmanager
def leaving(block: nn.Module, look: Callable[[Tensor], object]) -> Iterator[None]:
    """Inside, ``look`` sees the stream that leaves a block: the final norm may be given only the tokens that are read."""

    def hook(module: nn.Module, args: tuple, output: Tensor | tuple[Tensor, ...]) -> None:
        look(output[0] if isinstance(output, tuple) else output)

    handle = block.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True)
class Batch:
    """What one batch gave: arrays with one row a clip, token-level moments, and the joint embeddings."""

    arrays: dict[str, Tensor]
    moments: Moments | None


class Capture:
    """Runs batches; prepares once what every batch needs (index vectors, maps through the merges)."""

    def __init__(self, encoder: Encoder, granularity: Sequence[str], token_units: Sequence[Unit] = ()) -> None:
        self.encoder, self.wanted, self.token_units = encoder, frozenset(granularity), tuple(token_units)
        self.stage_sites = [[s for s in encoder.sites if s.stage == i] for i in range(len(encoder.stages))]

    @cached_property
    def final(self) -> Norm:
        return layer_norm(self.encoder.module.get_submodule(self.encoder.readout.norm))

    @cached_property
    def merges(self) -> list[Merge]:
        parts = [s for s in self.encoder.stages if s.merge_norm]
        get = self.encoder.module.get_submodule
        return [Merge(layer_norm(get(s.merge_norm)), get(s.merge_linear).weight.detach()) for s in parts]

    @cached_property
    def maps(self) -> list[Float[Tensor, "_ out _"]]:
        return position_maps(self.merges, self.final)

    @cached_property
    def orders(self) -> list[Int[Tensor, " _"]]:
        return [group_order(stage.grid, len(self.merges) - i) for i, stage in enumerate(self.encoder.stages)]

    @cached_property
    def pool(self) -> Float[Tensor, " token"]:
        """The readout's weight of each token of the last stage."""
        count = self.encoder.stages[-1].grid[0] * self.encoder.stages[-1].grid[1]
        chosen = self.encoder.readout.tokens or range(count)
        weights = torch.zeros(count, dtype=self.encoder.dtype, device=self.encoder.device)
        weights[list(chosen)] = 1 / len(chosen)
        return weights

    @cached_property
    def picks(self) -> dict[tuple[int, int], Int[Tensor, " _"]]:
        """For each block, from its attention's window layout to group layout."""
        return {
            (s.stage, s.block): to_groups(self.encoder.stages[s.stage].grid, s.window, s.shift, len(self.merges) - s.stage)
            for s in self.encoder.sites
        }

    @cached_property
    def head_maps(self) -> dict[tuple[int, int], Float[Tensor, "_ _ out"]]:
        get = self.encoder.module.get_submodule
        return {(s.stage, s.block): head_maps(self.maps[s.stage], get(s.projection).weight.detach(), s.heads) for s in self.encoder.sites}

    @cached_property
    def joint(self) -> JointWeights | None:
        return joint_weights(self.encoder)

    @torch.inference_mode()
    def run(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Batch:
        """Encode a batch and gather what was asked for."""
        clips, wanted = len(features), self.wanted
        arrays: dict[str, Tensor] = {}
        kept: dict[tuple[str, int, int], Tensor] = {}
        pooled_heads: list[Tensor] = []
        moments: list[Moments] = []
        streams: dict[str, Tensor] = {}
        direct = "direct" in wanted

        def see_heads(site: BlockSite, z: Tensor) -> None:
            tokens = z.reshape(clips, -1, z.shape[-1])
            if "head" in wanted or "moments" in wanted:
                pooled_heads.append(tokens.mean(1).unflatten(-1, (site.heads, -1)))
            if "moments" in wanted:
                moments.append(Moments.of(z.reshape(-1, site.heads, z.shape[-1] // site.heads)))
            if direct or "tokens" in wanted:
                kept["heads", site.stage, site.block] = tokens

        def see_mlp(site: BlockSite, m: Tensor) -> None:
            m = m.reshape(clips, -1, m.shape[-1])
            if "mlp" in wanted:
                kept["mlp mean", site.stage, site.block] = m.mean(1)
            if direct:
                kept["mlp", site.stage, site.block] = m

        def see_entry(site: BlockSite, x: Tensor) -> None:
            x = x.reshape(clips, -1, x.shape[-1])
            if "block" in wanted:
                kept["entry mean", site.stage, site.block] = x.mean(1)
            if direct and (site.stage, site.block) == (0, 0):
                streams["embedding"] = x

        looks = {}
        if direct or "stage" in wanted:
            for i, stage in enumerate(self.encoder.stages[:-1]):
                looks[stage.merge_norm] = lambda x, i=i: streams.__setitem__(f"end {i}", x)
        if self.encoder.readout.linear1:
            looks[self.encoder.readout.linear1] = lambda x: streams.__setitem__("pooled", x)
        needs_heads = bool(wanted & {"head", "moments", "direct", "tokens"})
        last = self.encoder.module.get_submodule(self.encoder.sites[-1].module)
        with (
            leaving(last, lambda x: streams.__setitem__(f"end {len(self.encoder.stages) - 1}", x)),
            record(
                self.encoder,
                heads=see_heads if needs_heads else None,
                mlp=see_mlp if direct or "mlp" in wanted else None,
                entry=see_entry if direct or "block" in wanted else None,
                inputs=looks,
            ),
        ):
            embedding = self.encoder.encode(features, longer)
        arrays["embedding.joint"] = embedding
        arrays["embedding.pooled"] = streams.get("pooled", embedding)
        if "head" in wanted:
            arrays["head"] = torch.cat(pooled_heads, 1)
        for i, sites in enumerate(self.stage_sites):
            if "mlp" in wanted:
                arrays[f"mlp.{i}"] = torch.stack([kept["mlp mean", i, s.block] for s in sites], 1)
            if "block" in wanted:
                arrays[f"block.{i}"] = torch.stack([kept["entry mean", i, s.block] for s in sites], 1)
            if "stage" in wanted:
                end = streams[f"end {i}"].mean(1)
                arrays[f"stage.{i}"] = end.unflatten(-1, (-1, self.encoder.units.d_model[i])).mean(1)
        if direct:
            arrays |= self._direct(kept, streams, arrays["embedding.pooled"])
        for unit in self.token_units if "tokens" in wanted else ():
            arrays[f"tokens.{unit.label}"] = self._token_map(unit, kept["heads", unit.stage, unit.block])
        return Batch(arrays, Moments.joined(moments) if moments else None)

    def _direct(self, kept: dict, streams: dict[str, Tensor], pooled: Tensor) -> dict[str, Tensor]:
        """Shares of every unit in the table's order, the constant, and what is held of the joint projection."""
        last = len(self.encoder.stages) - 1
        scales = [held_scale(streams[f"end {i}"], merge.norm.eps) for i, merge in enumerate(self.merges)]
        weights = token_weights(scales, self.orders, held_scale(streams[f"end {last}"], self.final.eps), self.pool)
        shares = [stream_shares(weighted_positions(streams["embedding"], self.orders[0], weights[0]), self.maps[0])[:, None]]
        for site in self.encoder.sites:
            key, stage = (site.stage, site.block), site.stage
            bias = self.encoder.module.get_submodule(site.projection).bias
            bias_share = written_everywhere(bias, weights[stage], self.maps[stage])
            summed = weighted_positions(kept[("heads", *key)], self.picks[key], weights[stage])
            shares.append(head_shares(summed, self.head_maps[key], bias_share))
            summed = weighted_positions(kept[("mlp", *key)], self.orders[stage], weights[stage])
            shares.append(stream_shares(summed, self.maps[stage])[:, None])
        result = {
            "direct.units": torch.cat(shares, 1),
            "direct.constant": constant_share(self.merges, self.final, weights, self.maps, self.pool),
        }
        if self.joint is not None:
            held: Held = hold(pooled, self.joint, joint_activation(self.encoder))
            result |= {"direct.ratio": held.ratio, "direct.scale": held.scale}
        return result

    def _token_map(self, unit: Unit, tokens: Float[Tensor, "clip token hd"]) -> Float[Tensor, "clip frequency time d_head"]:
        """One head's outputs, un-shifted and un-windowed, on the spectrogram's axes."""
        site = next(s for s in self.encoder.sites if (s.stage, s.block) == (unit.stage, unit.block))
        pick = to_spectrogram(self.encoder.stages[unit.stage].grid, self.encoder.strips, site.window, site.shift)
        return tokens.unflatten(-1, (site.heads, -1))[:, :, unit.head][:, pick]
