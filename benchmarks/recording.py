"""What recording costs, on ready-made mels, in float32 and bf16: against the same forward without it, and transformers' bare forward."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from common import alternated, bar, full_size_checkpoint, machine

from residual_audio.extraction.capture import Capture
from residual_audio.models import Encoder, load_encoder
from residual_audio.models.precision import bf16_ratio

RECORDED = "head+moments+embedding"
BAR = 0.58  # bf16 with recording, of transformers' bare float32 forward


def products_alone(encoder: Encoder, mel: torch.Tensor, longer: torch.Tensor) -> Callable[[], object]:
    """Only the linear layers of one forward, on inputs of their shapes: what no way of attending can save."""
    seen: list[tuple[torch.nn.Linear, torch.Tensor]] = []
    layers = [m for m in encoder.module.audio_model.modules() if isinstance(m, torch.nn.Linear)]
    handles = [m.register_forward_pre_hook(lambda m, a: seen.append((m, torch.randn_like(a[0])))) for m in layers]
    with torch.inference_mode():
        encoder.encode(mel, longer)
    for handle in handles:
        handle.remove()

    def run() -> None:
        with torch.inference_mode():
            for layer, x in seen:
                layer(x)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compile", action="store_true", help="also time torch.compile's forward (about 80 s to compile)")
    args = parser.parse_args()
    able = bf16_ratio() is not None
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = full_size_checkpoint(Path(folder))
        eager, fused = load_encoder(checkpoint, fast=False), load_encoder(checkpoint)
        encoders = {"eager": eager, "fused": fused, **({"bf16": load_encoder(checkpoint, precision="bf16")} if able else {})}
        compiled = load_encoder(checkpoint, fast=False) if args.compile else None
    mel, longer = torch.randn(args.batch_size, 1, 1001, 64) * 10 - 30, torch.zeros(args.batch_size, dtype=torch.bool)
    plain = ("head", "moments", "embedding")

    def bare(encoder):
        with torch.inference_mode():
            encoder.encode(mel, longer)

    runs = {f"{name}, bare": lambda e=e: bare(e) for name, e in encoders.items()}
    for what, granularity in ((RECORDED, plain), ("and direct", (*plain, "direct"))):
        runs |= {f"{name}, {what}": lambda c=Capture(e, granularity): c.run(mel, longer) for name, e in encoders.items()}
    if compiled is not None:
        compiled.module.audio_model.forward = torch.compile(compiled.module.audio_model.forward)
        runs["compiled, bare"] = lambda: bare(compiled)
    runs["eager, matrix products alone"] = products_alone(eager, mel, longer)
    best = alternated(runs, args.rounds)
    print(f"full-size HTS-AT, random weights, batch {args.batch_size}, {machine()}")
    print("best of each on the clock, and in seconds of CPU; ratios are of seconds of CPU")
    for name, took in best.items():
        own, theirs = best[name.split(",")[0] + ", bare"], best["eager, bare"]
        wall, cpu = (1e3 * seconds / args.batch_size for seconds in took)
        ratios = f"{took.cpu / own.cpu:5.2f} × its bare forward   {took.cpu / theirs.cpu:5.2f} × transformers'"
        print(f"{name:32s} {wall:7.1f} ms, {cpu:7.1f} ms of CPU per clip   {ratios} ({took.wall / theirs.wall:.2f} on the clock)")
    if able:
        print(
            bar("bf16 with recording, of transformers' bare float32 forward", best[f"bf16, {RECORDED}"].cpu / best["eager, bare"].cpu, BAR)
        )
    else:
        print("this CPU has no bf16: float32 only")


if __name__ == "__main__":
    main()
