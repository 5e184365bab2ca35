"""The one way to look into a running encoder, or to reach into it: hooks in a ``with``, and what one pass left behind.

Hooks exist only inside the ``with``; they are gone afterwards, also after an exception; a site that was watched
and never fired is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..spectra import Moments
from .attention import Gaze, Reader, revealed
from .encoder import BlockSite, Encoder
from .precision import unrounded

Reach = Callable[[BlockSite, Tensor], Tensor | None]
Look = Callable[[Tensor], object]
Watch = Callable[[BlockSite, Tensor], object]
Block = tuple[int, int]
Level = Literal["tokens", "mean"]


class RecordError(RuntimeError):
    """A site that was watched did not fire."""


@contextmanager
def record(
    encoder: Encoder,
    *,
    heads: Reach | None = None,
    write: Reach | None = None,
    mlp: Reach | None = None,
    entry: Reach | None = None,
    weights: Watch | None = None,
    inputs: Mapping[str, Look] | None = None,
    outputs: Mapping[str, Look] | None = None,
    sites: tuple[BlockSite, ...] | None = None,
    silent_ok: bool = False,
) -> Iterator[None]:
    """Watch an encoder's blocks (all, or ``sites``) while it runs.

    - ``heads(site, z)`` sees the concatenated head outputs ``[window, token, head · d_head]`` before the projection;
    - ``write(site, a)`` sees what the attention writes, after it; ``mlp(site, m)`` what the MLP writes;
    - ``entry(site, x)`` sees the stream that enters the block;
    - what any of these returns, unless None, takes the place of what it saw;
    - ``weights(site, a)`` sees the attention weights ``[window, head, token, token]``; meanwhile nothing runs fused;
    - ``inputs[name](x)`` sees the input of any other sub-module, ``outputs[name](x)`` its output (the first of several).

    ``silent_ok``: a site need not fire (an adapted model that is attached but not run is no mistake).
    """
    chosen = encoder.sites if sites is None else sites
    watched: set[tuple[str, str]] = set()
    fired: set[tuple[str, str]] = set()
    handles: list[RemovableHandle] = []

    def before(name: str, act: Callable[[Tensor], Tensor | None]) -> None:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            fired.add((name, "before"))
            changed = act(args[0])
            return None if changed is None else (changed, *args[1:])

        watched.add((name, "before"))
        handles.append(encoder.module.get_submodule(name).register_forward_pre_hook(hook))

    def after(name: str, act: Callable[[Tensor], Tensor | None]) -> None:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Tensor | tuple[Tensor, ...]) -> Tensor | None:
            fired.add((name, "after"))
            return act(output[0] if isinstance(output, tuple) else output)

        watched.add((name, "after"))
        handles.append(encoder.module.get_submodule(name).register_forward_hook(hook))

    def shown(site: BlockSite, watch: Watch) -> None:
        def hook(module: nn.Module, args: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            fired.add((site.attention, "weights"))
            watch(site, output[1])

        watched.add((site.attention, "weights"))
        handles.append(encoder.module.get_submodule(site.attention).register_forward_hook(hook))

    def only_seen(look: Look) -> Callable[[Tensor], None]:
        def seen(x: Tensor) -> None:
            look(x)

        return seen

    def at(reach: Reach, site: BlockSite) -> Callable[[Tensor], Tensor | None]:
        return lambda x: reach(site, x)

    opened = ExitStack()
    try:
        if weights is not None:
            opened.enter_context(revealed(encoder, chosen))
        for site in chosen:
            if weights is not None:
                shown(site, weights)
            for reach, name, attach in (
                (heads, site.projection, before),
                (write, site.projection, after),
                (mlp, site.mlp, after),
                (entry, site.entry, before),
            ):
                if reach is not None:
                    attach(name, at(reach, site))
        for name, look in (inputs or {}).items():
            before(name, only_seen(look))
        for name, look in (outputs or {}).items():
            after(name, only_seen(look))
        yield
        silent = sorted(watched - fired)
        if silent and not silent_ok:
            raise RecordError(
                f"{len(silent)} of {len(watched)} watched sites never fired, the first is {silent[0][0]}; "
                "did the encoder run inside the `with`?"
            )
    finally:
        opened.close()
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Keep:
    """What a recording keeps of each block or stage: all ``tokens``, only their ``mean`` (kept as one token), or nothing.

    ``input``: the stream that enters the first block; ``moments``: of the head outputs over all tokens; ``attention``: what is read off
    the attention weights of each block, by whom (the weights themselves are never kept).
    """

    heads: Level | None = None
    mlps: Level | None = None
    entries: Level | None = None
    ends: Level | None = None
    input: bool = False
    moments: bool = False
    attention: Mapping[Block, Reader] | None = None


@dataclass(frozen=True)
class Recording:
    """What one pass left behind, token by token, by (stage, block) or stage; what was not asked for is empty.

    - ``heads``: concatenated head outputs before the projection, tokens in the attention's window layout;
    - ``mlps``: what the MLPs write; ``entries``: the streams that enter the blocks;
    - ``ends``: what leaves a stage: four concatenated tokens of each merge, or the stream that leaves the last block;
    - ``pooled``: the readout's input to the projection; the embedding where there is none.
    """

    embedding: Float[Tensor, "clip d"]
    pooled: Float[Tensor, "clip pooled"]
    heads: dict[Block, Float[Tensor, "clip _ _"]] = field(default_factory=dict)
    mlps: dict[Block, Float[Tensor, "clip _ _"]] = field(default_factory=dict)
    entries: dict[Block, Float[Tensor, "clip _ _"]] = field(default_factory=dict)
    ends: dict[int, Float[Tensor, "clip _ _"]] = field(default_factory=dict)
    input: Float[Tensor, "clip _ _"] | None = None
    moments: dict[Block, Moments] = field(default_factory=dict)
    attention: dict[Block, Gaze] = field(default_factory=dict)

    @property
    def first_stream(self) -> Float[Tensor, "clip _ _"]:
        """What the input embedding wrote: the stream that enters the first block."""
        if self.input is None:
            raise RecordError("the stream that enters the first block was not recorded; ask for it with Keep(input=True)")
        return self.input


def recorded(
    encoder: Encoder, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"], keep: Keep
) -> Recording:  # fmt: skip
    """Run a batch once and keep what was asked for. Means are taken as the pass goes, so that they cost no memory."""
    clips = features.shape[0]  # a length would be a fixed number in an export
    heads: dict[Block, Tensor] = {}
    mlps: dict[Block, Tensor] = {}
    entries: dict[Block, Tensor] = {}
    ends: dict[int, Tensor] = {}
    moments: dict[Block, Moments] = {}
    attention: dict[Block, Gaze] = {}
    first: list[Tensor] = []
    pooled: list[Tensor] = []

    def by_clip(x: Tensor) -> Tensor:
        return x.reshape(clips, -1, x.shape[-1])

    def kept(x: Tensor, level: Level) -> Tensor:
        return x.to(unrounded(x)) if level == "tokens" else x.mean(1, keepdim=True, dtype=unrounded(x))

    def see_heads(site: BlockSite, z: Tensor) -> None:
        if keep.heads is not None:
            heads[site.key] = kept(by_clip(z), keep.heads)
        if keep.moments:
            moments[site.key] = Moments.of(z.reshape(-1, site.heads, z.shape[-1] // site.heads))

    def see_mlp(site: BlockSite, m: Tensor) -> None:
        if keep.mlps is not None:
            mlps[site.key] = kept(by_clip(m), keep.mlps)

    def see_entry(site: BlockSite, x: Tensor) -> None:
        if keep.entries is not None:
            entries[site.key] = kept(by_clip(x), keep.entries)
        if keep.input and site is encoder.sites[0]:
            first.append(by_clip(x))

    def see_weights(site: BlockSite, a: Tensor) -> None:
        if keep.attention is not None:
            attention[site.key] = keep.attention[site.key].read(a)

    def see_end(stage: int) -> Look:
        return lambda x: ends.__setitem__(stage, kept(x, keep.ends or "mean"))

    inputs: dict[str, Look] = {}
    outputs: dict[str, Look] = {}
    if keep.ends is not None:
        inputs |= {stage.merge_norm: see_end(i) for i, stage in enumerate(encoder.stages) if stage.merge_norm}
        # Not the final norm's input: it may be given only the tokens that are read.
        outputs[encoder.sites[-1].module] = see_end(len(encoder.stages) - 1)
    if encoder.readout.pooled_at:
        inputs[encoder.readout.pooled_at] = pooled.append
    with record(
        encoder,
        heads=see_heads if keep.heads or keep.moments else None,
        mlp=see_mlp if keep.mlps else None,
        entry=see_entry if keep.entries or keep.input else None,
        weights=see_weights if keep.attention is not None else None,
        inputs=inputs,
        outputs=outputs,
    ):
        embedding = encoder.encode(features, longer)
    return Recording(
        embedding, pooled[0] if pooled else embedding, heads, mlps, entries, ends, first[0] if first else None, moments, attention
    )  # fmt: skip
