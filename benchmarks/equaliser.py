"""The true equaliser of `serve`: seconds from a moved gain to the network's accuracy on 100 clips, for `tiny` and a full-size HTS-AT.

The first move in a stage runs the clips up to there; further ones run only what comes after.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from common import full_size_checkpoint, machine

from residual_audio.adaptation.gain import ResiDual, gain_set
from residual_audio.adaptation.select import choose_places
from residual_audio.data import load_dataset
from residual_audio.models import Encoder, load_encoder
from residual_audio.serve.board import Bench
from residual_audio.spectra import Basis

HEADS = ("S3B1H0", "S3B0H0", "S2B3H0", "S2B0H0", "S1B0H0", "S0B0H0")


def quieter(encoder: Encoder, head: str, gain: float) -> ResiDual:
    """All of a head by one gain."""
    (place,) = choose_places(encoder.units, head)
    width = encoder.units.d_head[int(head[1])]
    basis = Basis(torch.eye(width)[None], torch.ones(1, width), torch.zeros(1, width))
    one = gain_set(place, basis)
    return ResiDual((replace(one, values=torch.full_like(one.values, gain)),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=100)
    given = parser.parse_args()
    clips = [clip.source for clip in load_dataset("notes").limited(given.clips).clips]
    print(f"{len(clips)} clips, {machine()}\n")
    print("| model | gain of | first answer, s | further ones, s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, model in (("tiny", "tiny"), ("full-size HTS-AT", full_size_checkpoint(Path(folder)))):
            encoder = load_encoder(model)
            bench = Bench(encoder, clips, torch.nn.functional.normalize(torch.randn(10, encoder.dim), dim=-1), None)
            bench.streams(len(encoder.sites) - 1)  # decoded when the server starts
            for head in HEADS:
                times = []
                for turn in range(3):
                    start = time.perf_counter()
                    bench.scores(quieter(encoder, head, 0.5 + 0.1 * turn))
                    times.append(time.perf_counter() - start)
                print(f"| {name} | {head} | {times[0]:.2f} | {min(times[1:]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
