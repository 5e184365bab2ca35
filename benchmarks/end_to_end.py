"""Files to store, against what people do today: ClapProcessor's extractor + ClapModel + pooled hooks, at the same batch size."""

from __future__ import annotations

import argparse
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch
from common import alternated, bar, full_size_checkpoint, machine, write_sounds
from transformers import ClapFeatureExtractor, ClapModel

from residual_audio.data import load_dataset
from residual_audio.exporting.export import export
from residual_audio.extraction import Run, extract
from residual_audio.models import load_encoder
from residual_audio.models.engines.openvino import has_bf16
from residual_audio.models.precision import bf16_ratio

BARS = {"float32": 1.4, "bf16": 2.0}


class ByHooks:
    """The notebook way: read, resample, extract features, run the eager model, mean-pool in hooks, save."""

    def __init__(self, checkpoint: Path) -> None:
        self.model = ClapModel.from_pretrained(checkpoint, dtype=torch.float32).eval()
        self.extractor = ClapFeatureExtractor.from_pretrained(checkpoint)
        self.pooled: dict[str, list[torch.Tensor]] = {}
        for name, module in self.model.audio_model.named_modules():
            if name.endswith("attention.output.dense"):
                module.register_forward_pre_hook(lambda m, a, name=name: self.see(name, a[0]))

    def see(self, name: str, heads: torch.Tensor) -> None:
        self.pooled.setdefault(name, []).append(heads.reshape(self.clips, -1, heads.shape[-1]).mean(1))

    def run(self, paths: list[Path], batch_size: int, out: Path) -> None:
        self.pooled.clear()
        for i in range(0, len(paths), batch_size):
            batch = []
            for path in paths[i : i + batch_size]:
                wave, rate = soundfile.read(path, dtype="float32")
                batch.append(soxr.resample(wave, rate, self.extractor.sampling_rate))
            self.clips = len(batch)
            inputs = self.extractor(batch, sampling_rate=self.extractor.sampling_rate, return_tensors="pt")
            with torch.inference_mode():
                self.model.get_audio_features(input_features=inputs["input_features"].float(), is_longer=inputs["is_longer"])
        heads = torch.cat([torch.cat(parts).reshape(len(paths), -1, 24) for parts in self.pooled.values()], 1)
        np.save(out, heads.numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    precisions = ("float32",) if bf16_ratio() is None else ("float32", "bf16")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = full_size_checkpoint(folder / "checkpoint")
        paths, data = write_sounds(folder / "clips" / "noise", args.clips), load_dataset(f"folder:{folder / 'clips'}")
        encoders = {f"PyTorch, {p}": load_encoder(checkpoint, precision=p) for p in precisions}
        for precision in precisions if has_bf16() else ("float32",):
            path = folder / f"{precision}.xml"
            export(encoders["PyTorch, float32"], path, "openvino", precision=precision)
            encoders[f"OpenVINO, {precision}"] = load_encoder(path)
        theirs, number = ByHooks(checkpoint), count()

        def ours(how: str) -> None:
            made[how] = extract(encoders[how], data, folder / f"run{next(number)}", batch_size=args.batch_size)

        made: dict[str, Run] = {}
        runs = {"theirs": lambda: theirs.run(paths, args.batch_size, folder / "heads.npy")}
        runs |= {how: lambda how=how: ours(how) for how in encoders}
        best = alternated(runs, args.rounds)
        reference = np.load(folder / "heads.npy")
        print(f"{args.clips} files of 5 s, full-size HTS-AT, batch {args.batch_size}, {machine()}")
        print("best of each on the clock, and in seconds of CPU; loading the model is not counted on either side")
        for name, took in best.items():
            shown = "extractor + ClapModel + hooks" if name == "theirs" else f"extract, {name}"
            times = f"{1e3 * took.wall / args.clips:7.1f} ms, {1e3 * took.cpu / args.clips:7.1f} ms of CPU per clip"
            told = (
                ""
                if name == "theirs"
                else f"   {best['theirs'].cpu / took.cpu:.2f} × faster ({best['theirs'].wall / took.wall:.2f} on the clock)"
            )
            print(f"{shown:34s} {times}{told}")
        for how, run in made.items():
            off = np.abs(run.heads[:].numpy() - reference)
            print(f"{how}: heads differ by at most {off.max():.1e}, relative {np.linalg.norm(off) / np.linalg.norm(reference):.1e}")
        for precision in precisions:
            fastest = max((best["theirs"].cpu / best[how].cpu, how) for how in made if how.endswith(precision))
            print(bar(f"files to store, {fastest[1]}", fastest[0], BARS[precision], at_most=False))


if __name__ == "__main__":
    main()
