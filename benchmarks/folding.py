"""What gains cost at inference: attached by hooks, and folded into the weights, against the model as it was; in one run."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from common import alternate, full_size_checkpoint

from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.fold import fold
from residual_audio.adaptation.gain import ResiDual, gain_set
from residual_audio.adaptation.select import choose_places
from residual_audio.models import Encoder, load_encoder
from residual_audio.spectra import Basis


def some_gains(encoder: Encoder, selection: str) -> ResiDual:
    """Random axes and gains: their cost does not depend on their values."""
    sets = []
    for place in choose_places(encoder.units, selection):
        stage, units = place.blocks[0][0], max(1, len(place.heads))
        d = encoder.units.d_head[stage] if place.kind == "heads" else encoder.units.d_model[stage]
        axes = torch.linalg.qr(torch.randn(units, d, d)).Q
        unit_gains = gain_set(place, Basis(axes, torch.ones(units, d), 0.1 * torch.randn(units, d)))
        sets.append((unit_gains, 0.5 + torch.rand(units, d)))
    return ResiDual(tuple(s for s, _ in sets)).with_values([g for _, g in sets])


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        encoder = load_encoder(full_size_checkpoint(Path(folder)))
    mel, longer = torch.randn(args.batch, 1, 1001, 64) * 10 - 30, torch.zeros(args.batch, dtype=torch.bool)
    print(f"full-size HTS-AT with random weights, a batch of {args.batch}, {torch.get_num_threads()} threads")
    for selection in ("heads", "heads mlps"):
        residual = some_gains(encoder, selection)
        folded = fold(encoder, residual)

        def hooked(residual: ResiDual = residual) -> torch.Tensor:
            with attached(encoder, residual):
                return encoder.encode(mel, longer)

        runs = {"as it was": lambda: encoder.encode(mel, longer), "folded": lambda f=folded: f.encode(mel, longer), "attached": hooked}
        best = alternate(runs, args.rounds)
        print(f"\n{selection}: {residual.trained:,} gains")
        for name, seconds in best.items():
            print(f"{name:12s} {1000 * seconds / args.batch:7.1f} ms per clip   {seconds / best['as it was']:.2f} ×")
        print(f"folded and attached differ by at most {(folded.encode(mel, longer) - hooked()).abs().max():.1e}")


if __name__ == "__main__":
    main()
