"""An epoch of learning: gains on cached streams against the papers' loop, which runs everything every time, and a matrix per head
against gains; in one run."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from common import alternate, full_size_checkpoint, write_sounds
from transformers import ClapFeatureExtractor, ClapModel

from residual_audio.adaptation.gain import ResiDual, Shape, gain_set
from residual_audio.adaptation.learner import GainLearner
from residual_audio.adaptation.objective import Objective
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.streams import cache_streams, first_block, place_bases
from residual_audio.adaptation.train import Course, Lesson, Training, make_optimiser
from residual_audio.models import load_encoder

RATE, CLASSES = 0.05, 10
FORMS = ("gains", "mixing")


class PapersLoop:
    """Features by ClapFeatureExtractor and the whole eager ClapModel, forward and backward, for every batch of every epoch."""

    def __init__(self, checkpoint: Path, waves: list[np.ndarray], residual: ResiDual, directions: torch.Tensor, scale: float, frozen: bool):
        self.model = ClapModel.from_pretrained(checkpoint).eval().requires_grad_(not frozen)
        self.extractor = ClapFeatureExtractor.from_pretrained(checkpoint)
        self.waves, self.directions, self.scale = waves, directions, scale
        self.gains = [s.values.clone().requires_grad_() for s in residual.sets]
        self.optimiser = torch.optim.AdamW(self.gains, lr=RATE, weight_decay=0.0)
        for one, gain in zip(residual.sets, self.gains, strict=True):
            (stage, block), axes, mean = one.place.blocks[0], one.axes, one.mean

            def reweight(module, args, axes=axes, mean=mean, gain=gain):
                z = args[0].unflatten(-1, (len(axes), -1)) - mean
                y = torch.einsum("...ha,had->...hd", torch.einsum("...hd,had->...ha", z, axes) * gain, axes) + mean
                return (y.flatten(-2),)

            dense = self.model.audio_model.audio_encoder.layers[stage].blocks[block].attention.output.dense
            dense.register_forward_pre_hook(reweight)

    def epoch(self, batches: list[np.ndarray], targets: torch.Tensor) -> None:
        for rows in batches:
            inputs = self.extractor([self.waves[i] for i in rows], sampling_rate=48_000, return_tensors="pt")
            embedding = self.model.get_audio_features(**inputs).pooler_output
            loss = F.cross_entropy(self.scale * F.normalize(embedding, dim=-1) @ self.directions.T, targets[rows])
            self.optimiser.zero_grad()
            self.model.zero_grad()
            loss.backward()
            self.optimiser.step()


class Ours:
    """One form on cached streams."""

    def __init__(self, learner: GainLearner, lesson: Lesson) -> None:
        self.learner, self.course = learner, Course(learner, lesson, Training(decay=0.0))
        self.optimiser = make_optimiser(learner, "adamw", RATE)

    def epoch(self, batches: list[np.ndarray]) -> None:
        for batch in batches:
            self.course.step(batch, self.optimiser)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    directions = F.normalize(torch.randn(CLASSES, 512), dim=-1)
    targets = torch.arange(args.clips) % CLASSES
    rows = np.arange(args.clips)
    batches = np.split(rows, range(args.batch, args.clips, args.batch))
    print(f"full-size HTS-AT with random weights, {args.clips} clips of 10 s, batches of {args.batch}, {torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = full_size_checkpoint(Path(folder) / "model")
        paths = write_sounds(Path(folder) / "sounds", args.clips, seconds=10.0, rate=48_000)
        waves = [soundfile.read(p, dtype="float32")[0] for p in paths]
        for units in ("S2 S3 heads", "S3 heads", "S2 S3 heads mlps"):
            encoder = load_encoder(checkpoint)
            places = choose_places(encoder.units, units)
            streams = cache_streams(encoder, list(paths), first_block(encoder, places))
            bases = place_bases(streams, rows[:4], places, "token")
            by_form = {form: ResiDual(tuple(gain_set(p, b, Shape(form)) for p, b in zip(places, bases, strict=True))) for form in FORMS}
            residual = by_form[FORMS[0]]
            lesson = Lesson(rows, rows[:0], targets, CLASSES, Objective(directions, False, encoder.logit_scale))
            ours = {form: Ours(GainLearner(made, streams), lesson) for form, made in by_form.items()}
            loops = {
                f"papers' loop, weights {how}": PapersLoop(checkpoint, waves, residual, directions, encoder.logit_scale, how == "frozen")
                for how in ("frozen", "not frozen")
                if "mlps" not in units  # their loop changes heads
            }
            runs = {name: lambda loop=loop: loop.epoch(batches, targets) for name, loop in loops.items()}
            runs |= {f"ours, {form}": lambda one=one: one.epoch(batches) for form, one in ours.items()}
            best = alternate(runs, args.rounds)
            size = streams.values.nbytes / args.clips / 2**20
            trained = ", ".join(f"{form} {made.trained:,}" for form, made in by_form.items())
            print(f"\n{units}: {trained} numbers; streams of {size:.2f} MiB per clip, made once")
            for name, seconds in best.items():
                gains = best[f"ours, {FORMS[0]}"]
                ratio = (
                    f"   ours with gains is {seconds / gains:.2f} × faster"
                    if name in loops
                    else f"   {seconds / gains:.2f} × the time of gains"
                )
                print(f"{name:30s} {1000 * seconds / args.clips:8.1f} ms per clip and epoch{ratio}")
            for name, loop in loops.items():
                furthest = max((a - b).abs().max().item() for a, b in zip(loop.gains, ours[FORMS[0]].learner.parameters, strict=True))
                moved = max((g - 1).abs().max().item() for g in loop.gains)
                print(f"{name}: gains differ by at most {furthest:.1e} after {args.rounds + 1} epochs (moved by up to {moved:.2f})")


if __name__ == "__main__":
    main()
