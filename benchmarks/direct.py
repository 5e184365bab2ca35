"""An epoch of the original ResiDual on stored direct shares: the encoder never runs."""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from common import alternate

from residual_audio.adaptation.direct import ShareBasis, ShareLearner
from residual_audio.adaptation.objective import Objective
from residual_audio.adaptation.train import Course, Lesson, Training, make_optimiser

# Units and width of CLAP's audio encoder (184 heads, 12 MLPs, 512) and of Whisper tiny's (24 heads, 4 MLPs, 384).
SIZES = {"CLAP": (196, 512), "Whisper tiny": (28, 384)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=2000)
    parser.add_argument("--axes", type=int, default=24)
    parser.add_argument("--classes", type=int, default=50)
    args = parser.parse_args()
    rows, targets = np.arange(args.clips), torch.arange(args.clips) % args.classes
    for name, (units, width) in SIZES.items():
        torch.manual_seed(0)
        shares = torch.randn(args.clips, units, width) / width
        basis = ShareBasis.of(shares[:400], args.axes, None)
        directions = F.normalize(torch.randn(args.classes, width), dim=-1)
        for kind, objective in (("prompts", Objective(directions, False, 20.0)), ("centroids", Objective(None, True, 20.0))):
            learner = ShareLearner(basis, shares.sum(1), shares)
            course = Course(learner, Lesson(rows, rows[:0], targets, args.classes, objective), Training())
            optimiser = make_optimiser(learner, "adam", 0.01)
            batches = list(course.batches(np.random.default_rng(0)))

            def epoch(course: Course = course, optimiser=optimiser, batches=batches) -> None:
                for places in batches:
                    course.step(places, optimiser)

            seconds = alternate({"epoch": epoch}, 2)["epoch"]
            print(f"{name}, {kind}: {learner.gain.numel():,} gains, {args.clips:,} clips: {seconds:.2f} s per epoch")


if __name__ == "__main__":
    main()
