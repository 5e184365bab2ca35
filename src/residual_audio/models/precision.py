"""The precision of products: float32, or bfloat16 where the machine multiplies it fast.

CPUs differ: on some a bfloat16 product runs at twice float32's speed, on others it is slower, and on a few it ends the process with an
illegal instruction. So nothing is tried in this process: a child multiplies both ways once, and its answer is kept per CPU and version of
torch.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from ..options import OptionError
from ..writing import drafted
from .batched import BatchedAttention

PRECISIONS = ("float32", "bf16", "auto")
# bfloat16 pays where its products take at most this part of float32's time: casting to and fro costs something too.
WORTH = 0.8
SECONDS = 60
# How an unsupported product ends a process; no other end says anything about the CPU.
CRASHES = (signal.SIGILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE)
# Prints how long a bfloat16 product takes in units of a float32 one: seconds of CPU, on which other work hardly tells; both are warm, and
# each is at its best of several.
TRIAL = """
import time, torch
torch.set_num_threads(1)
def best(kind):
    x, w = torch.randn(1024, 512).to(kind), torch.randn(512, 512).to(kind)
    times = []
    for _ in range(12):
        began = time.process_time()
        torch.nn.functional.linear(x, w)
        times.append(time.process_time() - began)
    return min(times[2:])
print(best(torch.bfloat16) / best(torch.float32))
"""


class PrecisionError(OptionError):
    """This precision cannot be had here; the message says why."""


def cpu_name() -> str:
    """The model name that Linux gives, or what the platform says."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor() or "unknown")


def cpu_flags() -> str:
    """What of the CPU's abilities concerns products; two CPUs of one name may differ in them."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    words = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    return " ".join(sorted(w for w in words if w.startswith(("avx", "amx"))))


def answers() -> Path:
    """Where answers are kept."""
    return Path(os.environ.get("RESIDUAL_AUDIO_CACHE") or "~/.cache/residual-audio").expanduser() / "bf16.json"


def tried(trial: str = TRIAL) -> float | None:
    """A bfloat16 product's time in units of float32's, asked of a child; None where the product ended the child.

    A child that cannot be started, is killed, takes too long or gives no number says nothing about the CPU: that error is the caller's.
    """
    done = subprocess.run([sys.executable, "-c", trial], capture_output=True, text=True, timeout=SECONDS)
    if -done.returncode in CRASHES:
        return None
    done.check_returncode()
    return float(done.stdout)


def bf16_ratio(kept: Path | None = None) -> float | None:
    """What :func:`tried` says on this CPU; asked once, and kept in a file that is only a memory: unreadable, it is made anew."""
    path, key = kept or answers(), f"{cpu_name()} | {cpu_flags()} | torch {torch.__version__}"
    try:
        known = json.loads(path.read_text())
        known = known if isinstance(known, dict) else {}
    except (OSError, ValueError):
        known = {}
    if key not in known:
        try:
            known[key] = tried()
        except (subprocess.SubprocessError, ValueError, OSError):
            return None  # a machine that is busy or short of memory: asked again next time
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with drafted(path) as draft:
                draft.write_text(json.dumps(known, indent=1))
        except OSError:
            pass  # a home that cannot be written costs another trial next time
    ratio = known[key]
    return float(ratio) if isinstance(ratio, int | float) else None


def chosen_precision(precision: str, device: torch.device) -> str:
    """``float32`` or ``bf16``; ``auto`` is bf16 where it is worth it. bf16 is refused where a product of it ends the process."""
    if precision == "float32":
        return precision
    if device.type == "cuda":
        able: bool = torch.cuda.is_bf16_supported(including_emulation=False)  # emulated, it would be slower than float32
        ratio = 0.5 if able else None
    elif device.type == "cpu":
        ratio = bf16_ratio()
    else:
        ratio = None
    if precision == "auto":
        return "bf16" if ratio is not None and ratio <= WORTH else "float32"
    if ratio is None:
        where = cpu_name() if device.type == "cpu" else device
        raise PrecisionError(f"no bf16 on {where}: it cannot multiply so, or a trial gave no answer; use --precision float32 or auto")
    return precision


def explained(chosen: str, device: torch.device) -> str:
    """Why ``auto`` chose this precision here, as a line for people."""
    if device.type != "cpu":
        return f"{chosen}, on {device}"
    ratio, name = bf16_ratio(), cpu_name()
    if ratio is None:
        return f"{chosen}: a trial of bf16 in a child process gave no answer on {name}, so it is not used"
    speed = f"a product in bf16 takes {ratio:.2f} of its time in float32 on {name}"
    return f"{chosen}: {speed}" + ("" if chosen == "bf16" else f", and at most {WORTH} would pay")


def unrounded(x: torch.Tensor) -> torch.dtype:
    """The type in which a tensor is summed: its own, or float32 where that is narrower."""
    return torch.promote_types(x.dtype, torch.float32)


@contextmanager
def multiplying(precision: str, device: torch.device) -> Iterator[None]:
    """Inside, products of this thread run in the precision; norms, softmax and sums stay in float32, as autocast has it."""
    narrow = precision == "bf16"
    batched = BatchedAttention() if narrow and device.type == "cpu" else nullcontext()
    with torch.autocast(device.type, torch.bfloat16, enabled=narrow), batched:
        yield


def narrowed(device: torch.device) -> bool:
    """Whether this thread is inside ``multiplying`` in bfloat16."""
    return torch.is_autocast_enabled(device.type)
