"""An encoder drawn as text: its grids, windows and widths, where every unit sits, and what is held for direct shares."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from ..units import UnitTable
from .encoder import BlockSite, Encoder, StageSite

HTSAT = "htsat"
MERGED = "  held: 1/σ of every merged token"


@runtime_checkable
class Laid(Protocol):
    """What can be drawn: an encoder, or as much of one as has been built."""

    @property
    def module(self) -> nn.Module: ...
    @property
    def units(self) -> UnitTable: ...
    @property
    def sites(self) -> tuple[BlockSite, ...]: ...
    @property
    def stages(self) -> tuple[StageSite, ...]: ...
    @property
    def strips(self) -> int: ...


def full_size() -> Laid:
    """HTS-AT as LAION and Microsoft trained it, from transformers' default configuration: its shape, no weights."""
    from transformers import ClapAudioConfig
    from transformers.models.clap.modeling_clap import ClapAudioModel

    from .htsat import htsat_sites, htsat_stages, htsat_units

    with torch.device("meta"):
        model = ClapAudioModel(ClapAudioConfig())
    holder: Any = nn.Module()
    holder.audio_model = model
    return SimpleNamespace(
        module=holder, units=htsat_units(model), sites=htsat_sites(model, "audio_model"), stages=htsat_stages(model, "audio_model"),
        strips=model.audio_encoder.freq_ratio,
    )  # fmt: skip


def hidden_width(module: nn.Module) -> int:
    """Of the MLP whose write leaves ``module``: the input of its last linear layer."""
    return [part for part in module.modules() if isinstance(part, nn.Linear)][-1].in_features


def block_line(laid: Laid, site: BlockSite) -> str:
    heads, width = laid.units.d_head[site.stage], laid.units.d_model[site.stage]
    name = f"S{site.stage}B{site.block}"
    moved = f", windows moved by {site.shift}" if site.shift else ""
    hidden = hidden_width(laid.module.get_submodule(site.mlp))
    return f"  {name}   {name}H0–H{site.heads - 1}: {site.heads} heads of {heads}{moved}   {name}M: {width} → {hidden} → {width}"


def stage_lines(laid: Laid, stage: int) -> Iterator[str]:
    site, sites = laid.stages[stage], [s for s in laid.sites if s.stage == stage]
    (rows, columns), width, window = site.grid, laid.units.d_model[stage], sites[0].window
    tokens = rows * columns
    count = tokens // window**2 if window else 1
    cut = f"{count} windows" if count > 1 else "one window"
    windows = f"{cut} of {window} × {window}" if window else f"{cut} over everything"
    path = 4 ** sum(s.merge_norm is not None for s in laid.stages[stage:])
    ways = f"; a share takes one of {path} paths, by position" if path > 1 else ""
    yield f"S{stage}   {rows} × {columns} = {tokens:,} tokens of {width}, {windows}{ways}"
    for s in sites:
        yield block_line(laid, s)
    if site.merge_norm is not None and site.merge_linear is not None:
        after = laid.module.get_submodule(site.merge_linear)
        assert isinstance(after, nn.Linear)
        yield f"  merge  2 × 2 tokens side by side: {after.in_features} → norm → {after.out_features}{MERGED}"


def end_lines(encoder: Encoder) -> Iterator[str]:
    """From the last stream to the embedding."""
    readout, width = encoder.readout, encoder.units.d_model[-1]
    tokens = encoder.stages[-1].grid[0] * encoder.stages[-1].grid[1]
    read = f"mean over {tokens} tokens" if readout.tokens is None else "token " + ", ".join(map(str, readout.tokens))
    yield f"end    norm → {read}: {width}  held: 1/σ of every token that is read"
    weights = readout.joint_weights()
    if weights is None:
        yield f"       this is the embedding: {encoder.dim}"
        return
    held = [] if type(readout).__name__ == "LinearReadout" else ["act(x)/x of every hidden channel"]
    held += ["1/σ of the last norm"] if weights.norm is not None else []
    kind = {"LinearReadout": "linear", "MlpReadout": "linear → activation → linear", "ResidualReadout": "norm(e + W₂ act(e)), e = W₁ x"}
    yield f"       projection ({kind[type(readout).__name__]}): embedding of {encoder.dim}" + (f"  held: {', '.join(held)}" if held else "")


def layout_lines(laid: Laid | Encoder) -> list[str]:
    """The drawing, line by line, in the order of computation."""
    grid, width = laid.stages[0].grid, laid.units.d_model[0]
    folded = f", time folded into {laid.strips} strips above each other" if laid.strips > 1 else ""
    lines = [f"E    {grid[0]} × {grid[1]} tokens of {width}: what the input embedding writes{folded}"]
    for stage in range(len(laid.stages)):
        lines += stage_lines(laid, stage)
    lines += end_lines(laid) if isinstance(laid, Encoder) else ["end    norm → mean over the last tokens → projection, by checkpoint"]
    heads, mlps = (len(laid.units.where(kind)) for kind in ("head", "mlp"))
    return [*lines, f"{heads} heads and {mlps} MLPs in {len(laid.units.blocks)} blocks; with E, {len(laid.units)} units that write"]
