"""What the benchmarks share: a full-size random checkpoint, real files, and fair timing in one run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import torch
from transformers import ClapConfig, ClapFeatureExtractor, ClapModel

from residual_audio.models.precision import WORTH, bf16_ratio, cpu_flags, cpu_name

PAUSE = 0.2
ABILITIES = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8")


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


class Seconds(NamedTuple):
    """The best of several rounds: on the clock, and of CPU over all threads. On a busy machine the second is the fair one."""

    wall: float
    cpu: float


def alternated(runs: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, Seconds]:
    """The best times of each, in alternation, so that a busy moment affects all alike; one warm-up round. A pause before each lets the
    threads of what ran before go to sleep: engines keep them awake for a while, at the next one's expense."""
    times: dict[str, list[Seconds]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            time.sleep(PAUSE)
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            if turn:
                times[name].append(Seconds(time.perf_counter() - wall, time.process_time() - cpu))
    return {name: Seconds(*map(min, zip(*values, strict=True))) for name, values in times.items()}


def alternate(runs: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """The best time of each on the clock, in alternation."""
    return {name: seconds.wall for name, seconds in alternated(runs, rounds).items()}


def machine() -> str:
    """The CPU with what it can do, and how busy it is: what ratios depend on."""
    able = [word for word in ABILITIES if word in cpu_flags().split()]
    ratio = bf16_ratio()
    product = "bf16 products: none" if ratio is None else f"a bf16 product takes {ratio:.2f} of a float32 one (auto: at most {WORTH})"
    load = os.getloadavg()[0]
    return f"{cpu_name()}, {', '.join(able) or 'no AVX2'}; {torch.get_num_threads()} thread(s); {product}; load {load:.1f}"


def bar(what: str, value: float, limit: float, at_most: bool = True) -> str:
    """A line that says whether an aim was reached."""
    reached = value <= limit if at_most else value >= limit
    return f"aim: {what}: {value:.2f} × ({'at most' if at_most else 'at least'} {limit:.2f}): {'reached' if reached else 'NOT reached'}"
