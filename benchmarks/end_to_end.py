"""Files to store, against what people do today: ClapProcessor's extractor + ClapModel + pooled hooks, at the same batch size."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch
from common import full_size_checkpoint, write_sounds
from transformers import ClapFeatureExtractor, ClapModel

from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder


def by_hooks(checkpoint: Path, paths: list[Path], batch_size: int, out: Path) -> np.ndarray:
    """The notebook way: read, resample, extract features, run the eager model, mean-pool in hooks, save."""
    model = ClapModel.from_pretrained(checkpoint, dtype=torch.float32).eval()
    extractor = ClapFeatureExtractor.from_pretrained(checkpoint)
    pooled: dict[str, list[torch.Tensor]] = {}
    for name, module in model.audio_model.named_modules():
        if name.endswith("attention.output.dense"):
            module.register_forward_pre_hook(
                lambda m, a, name=name: pooled.setdefault(name, []).append(a[0].reshape(len(batch), -1, a[0].shape[-1]).mean(1))
            )
    for i in range(0, len(paths), batch_size):
        batch = []
        for path in paths[i : i + batch_size]:
            wave, rate = soundfile.read(path, dtype="float32")
            batch.append(soxr.resample(wave, rate, extractor.sampling_rate))
        inputs = extractor(batch, sampling_rate=extractor.sampling_rate, return_tensors="pt")
        with torch.inference_mode():
            model.get_audio_features(input_features=inputs["input_features"].float(), is_longer=inputs["is_longer"])
    heads = torch.cat([torch.cat(parts).reshape(len(paths), -1, 24) for parts in pooled.values()], 1)
    np.save(out, heads.numpy())
    return heads.numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = full_size_checkpoint(folder / "checkpoint")
        paths = write_sounds(folder / "clips" / "noise", args.clips)
        encoder, data = load_encoder(checkpoint), load_dataset(f"folder:{folder / 'clips'}")
        extract(encoder, data.limited(args.batch_size), folder / "warm", batch_size=args.batch_size)
        start = time.perf_counter()
        run = extract(encoder, data, folder / "run", batch_size=args.batch_size)
        ours = time.perf_counter() - start
        start = time.perf_counter()
        theirs_heads = by_hooks(checkpoint, paths, args.batch_size, folder / "heads.npy")
        theirs = time.perf_counter() - start
        difference = np.abs(run.heads[:].numpy() - theirs_heads).max()
    print(f"{args.clips} files of 5 s, full-size HTS-AT, batch {args.batch_size}, {torch.get_num_threads()} threads")
    print(f"extractor + ClapModel + hooks  {1e3 * theirs / args.clips:7.1f} ms per clip")
    print(f"residual-audio extract         {1e3 * ours / args.clips:7.1f} ms per clip   {theirs / ours:.2f} × faster")
    print(f"heads differ by at most {difference:.1e}")


if __name__ == "__main__":
    main()
