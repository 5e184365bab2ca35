"""Exported graphs against transformers' eager float32, in one run, by turns: embedding alone, and extraction with recording."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from common import alternate, bar, full_size_checkpoint, machine

from residual_audio.exporting.export import DEFAULT_RECORD, as_graph, described_model
from residual_audio.exporting.trace import audio_graph, quantised
from residual_audio.extraction.capture import Capture
from residual_audio.models import Encoder, load_encoder
from residual_audio.models.encoders.exported import ExportedEncoder
from residual_audio.models.engines.openvino import has_bf16

BARE = "transformers, eager float32"


def engines(live: Encoder) -> dict[str, ExportedEncoder]:
    """Every format and precision of one model, as export makes them."""
    model = audio_graph(live, DEFAULT_RECORD)
    graphs = {"float32": model}
    copy = type(model)()
    copy.CopyFrom(model)
    graphs["int8"] = quantised(copy)
    kinds = [
        ("onnx", "float32"),
        ("onnx", "int8"),
        ("openvino", "float32"),
        *([("openvino", "bf16")] if has_bf16() else []),
        ("openvino", "int8"),
    ]
    made = {}
    for format, precision in kinds:
        graph, _ = as_graph(format, graphs.get(precision, model), precision)
        sheet = described_model(live, format, precision, DEFAULT_RECORD, None)
        made[f"{format} {precision}"] = ExportedEncoder(f"{format} {precision}", sheet, graph, None)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        live = load_encoder(full_size_checkpoint(Path(folder)), fast=False)
    mel, longer = torch.randn(args.batch_size, 1, 1001, 64) * 10 - 30, torch.zeros(args.batch_size, dtype=torch.bool)
    exported = engines(live)

    def bare(encoder: Encoder) -> torch.Tensor:
        with torch.inference_mode():
            return encoder.encode(mel, longer)

    runs: dict[str, Callable[[], object]] = {BARE: lambda: bare(live)}
    runs |= {f"{name}, embedding alone": lambda e=e: bare(e) for name, e in exported.items()}
    recorders = {name: Capture(e, DEFAULT_RECORD) for name, e in exported.items() if "int8" not in name}
    runs |= {f"{name}, head+moments+embedding": lambda c=c: c.run(mel, longer) for name, c in recorders.items()}
    found = alternate(runs, args.rounds)
    wanted = bare(live)
    cosines = {name: float(torch.cosine_similarity(wanted, bare(e)).min()) for name, e in exported.items()}
    print(f"full-size HTS-AT, random weights, batch {args.batch_size}, {args.threads} threads, best of {args.rounds} rounds")
    print(machine())
    for name, seconds in found.items():
        engine = name.partition(",")[0]
        cosine = f"   lowest cosine {cosines[engine]:.6f}" if engine in cosines else ""
        print(f"{name:42s} {1e3 * seconds / args.batch_size:7.1f} ms per clip   {seconds / found[BARE]:5.2f} × transformers'{cosine}")
    alone = {name: t / found[BARE] for name, t in found.items() if name.endswith("alone") and "float32" not in name}
    print(bar(f"embedding alone, {min(alone, key=alone.__getitem__)}", min(alone.values()), 0.50))
    print(bar("recording, OpenVINO float32", found["openvino float32, head+moments+embedding"] / found[BARE], 0.85))


if __name__ == "__main__":
    main()
