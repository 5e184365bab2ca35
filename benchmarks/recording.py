"""What recording costs, on ready-made mels: against the same forward without it, and against transformers' bare forward."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from common import alternate, full_size_checkpoint

from residual_audio.extraction.capture import Capture
from residual_audio.models import Encoder, load_encoder


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
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = full_size_checkpoint(Path(folder))
        eager, fused, compiled = load_encoder(checkpoint, fast=False), load_encoder(checkpoint), load_encoder(checkpoint, fast=False)
    mel, longer = torch.randn(args.batch_size, 1, 1001, 64) * 10 - 30, torch.zeros(args.batch_size, dtype=torch.bool)
    plain = ("head", "moments", "embedding")
    captures = {
        "eager, head+moments+embedding": Capture(eager, plain),
        "eager, and direct": Capture(eager, (*plain, "direct")),
        "fused, head+moments+embedding": Capture(fused, plain),
        "fused, and direct": Capture(fused, (*plain, "direct")),
    }

    def bare(encoder):
        with torch.inference_mode():
            encoder.encode(mel, longer)

    runs = {"eager, bare": lambda: bare(eager), "fused, bare": lambda: bare(fused)}
    runs |= {name: lambda c=c: c.run(mel, longer) for name, c in captures.items()}
    if args.compile:
        compiled.module.audio_model.forward = torch.compile(compiled.module.audio_model.forward)
        runs["compiled, bare"] = lambda: bare(compiled)
    runs["eager, matrix products alone"] = products_alone(eager, mel, longer)
    best = alternate(runs, args.rounds)
    print(f"full-size HTS-AT, random weights, batch {args.batch_size}, {torch.get_num_threads()} threads")
    for name, seconds in best.items():
        own = best[name.split(",")[0] + ", bare"]
        times = f"{seconds / own:5.2f} × its bare forward   {seconds / best['eager, bare']:5.2f} × transformers'"
        print(f"{name:32s} {1e3 * seconds / args.batch_size:7.1f} ms per clip   {times}")


if __name__ == "__main__":
    main()
