"""What the benchmarks share: a full-size random checkpoint, real files, and fair timing in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import torch
from transformers import ClapConfig, ClapFeatureExtractor, ClapModel


def full_size_checkpoint(folder: Path) -> Path:
    """LAION's layout with HTS-AT at its real size and random weights; the text side, which is not timed, is small."""
    torch.manual_seed(0)
    text = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = ClapModel(ClapConfig(text_config=text))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    ClapFeatureExtractor(truncation="rand_trunc", frequency_min=50).save_pretrained(folder)
    return folder


def write_sounds(folder: Path, count: int, seconds: float = 5.0, rate: int = 44_100) -> list[Path]:
    """Real WAV files of noise, 16 bit."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    paths = [folder / f"{i:05d}.wav" for i in range(count)]
    for path in paths:
        soundfile.write(path, 0.1 * rng.standard_normal(int(seconds * rate)), rate)
    return paths


def alternate(runs: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """The best time of each in seconds, in alternation, so that a busy moment affects all alike; one warm-up round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in times.items()}
