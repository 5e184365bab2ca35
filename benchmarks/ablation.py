"""Ablating every head: with the prefix reused, against one head at a time through the whole transformers model; in one run."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from common import full_size_checkpoint
from transformers import ClapModel

from residual_audio.ablation.engine import Ablation, Replacements
from residual_audio.models import load_encoder


@torch.inference_mode()
def naive(model: ClapModel, mel: torch.Tensor, longer: torch.Tensor) -> torch.Tensor:
    """``[head, clip, d]``: a hook sets one head's slice to zero, and the whole model runs."""
    results = []
    for stage in model.audio_model.audio_encoder.layers:
        for block in stage.blocks:
            width = block.attention.self.attention_head_size
            for head in range(block.attention.self.num_attention_heads):

                def zero(module, args, at=slice(head * width, (head + 1) * width)):
                    z = args[0].clone()
                    z[..., at] = 0
                    return (z,)

                handle = block.attention.output.dense.register_forward_pre_hook(zero)
                results.append(model.get_audio_features(input_features=mel, is_longer=longer[:, None]).pooler_output)
                handle.remove()
    return torch.stack(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = full_size_checkpoint(Path(folder))
        encoder, model = load_encoder(checkpoint), ClapModel.from_pretrained(checkpoint).eval()
    mel, longer = torch.randn(args.clips, 1, 1001, 64) * 10 - 30, torch.zeros(args.clips, dtype=torch.bool)
    classes = F.normalize(torch.randn(50, encoder.dim), dim=-1)
    ablation = Ablation(encoder, encoder.units.select("heads"), Replacements.zero(encoder), args.rows)
    best = {"ours": float("inf"), "naive": float("inf")}
    for _ in range(args.rounds):
        start = time.perf_counter()
        _, ours = ablation.run(mel, longer)
        middle = time.perf_counter()
        theirs = naive(model, mel, longer)
        best = {"ours": min(best["ours"], middle - start), "naive": min(best["naive"], time.perf_counter() - middle)}
    logits = [encoder.logit_scale * F.normalize(e, dim=-1) @ classes.T for e in (ours, F.normalize(theirs, dim=-1))]
    print(f"{len(ours)} heads, full-size HTS-AT with random weights, {args.clips} clips, {torch.get_num_threads()} threads")
    print(f"one head at a time through ClapModel: {best['naive']:7.1f} s")
    print(f"prefix reused, heads of a block together: {best['ours']:7.1f} s   {best['naive'] / best['ours']:.2f} × faster")
    print(f"largest difference in logits: {(logits[0] - logits[1]).abs().max():.1e}")


if __name__ == "__main__":
    main()
