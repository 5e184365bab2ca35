"""README.md of the checkpoint, with the figures of its training log and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .network import D_HEAD, DEPTHS, HEADS
from .recordings import PACKAGES
from .soundfonts import HELD_OUT, TRAINED

CHECKS = {"source": "synthesised sources", "timbre": "timbres", "voice": "voices", "family": "families", "instrument": "instruments"}


def table(rows: list[list[str]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])


def heard(log: dict[str, Any]) -> str:
    """The held-out recordings, as ``scripts/hear_real_sounds.py`` has measured them; empty before it has."""
    if "real_recordings" not in log:
        return ""
    rows = [["data", "clips", "classes", "chance %", "top-1 % [95 %, over groups]", "template"]]
    for r in log["real_recordings"]:
        rows.append([r["data"], f"{r['clips']:,}", str(r["classes"]), f"{100 / r['classes']:.1f}", r["top1"], f"`{r['template']}`"])
    return f"""## What it hears

Zero-shot, nothing of which was trained on, by `python scripts/hear_real_sounds.py`:

{table(rows)}
"""


def write_card(folder: Path) -> None:
    log = json.loads((folder / "training.json").read_text())
    checks = {k: v for k, v in CHECKS.items() if f"zero_shot_{k}" in log["epochs"][-1]}
    rows = [["epoch", "loss", *checks.values()]]
    rows += [[str(e["epoch"]), f"{e['loss']:.2f}", *(f"{100 * e[f'zero_shot_{c}']:.1f}" for c in checks)] for e in log["epochs"]]
    heads = sum(d * h for d, h in zip(DEPTHS, HEADS, strict=True))
    packages = {f.package: f.licence for f in TRAINED} | PACKAGES
    sources = [["what", "licence"], *([f"Debian's `{name}`", licence] for name, licence in packages.items())]
    clips, last = log["clips"], log["epochs"][-1]
    precision = "bfloat16" if log["settings"]["bf16"] else "float32"
    card = f"""---
license: mit
library_name: transformers
tags: [audio, clap]
---

# tiny

A small CLAP with the topology of the real HTS-AT: depths {DEPTHS}, heads {HEADS}, {heads} heads in all, {D_HEAD} channels each,
on a 32 × 32 grid of tokens with windows of 4 × 4; {log["parameters"]:,} parameters with a RoBERTa-like text side. A standard
transformers checkpoint (`ClapModel.from_pretrained`), weights in half precision, loaded as float32. 4 s of 16 kHz audio, 64 mels.

{heard(log)}
## What it was trained on

From scratch, on {clips["synthesised"]:,} synthesised clips, {clips["soundfonts"]:,} clips rendered from soundfonts (notes, chords and
phrases of melodic programs, drums, effects) and {clips["recordings"]:,} variants of other recordings: {log["classes"]} classes,
with captions drawn from what is known of each clip.

{table(sources)}

A bass clarinet and a contrabassoon are not among the programs of General MIDI: clarinets and bassoons below their range stand in for them.
No clip of NSynth, Philharmonia, ESC-50 or the human sounds was used.

    python scripts/train_tiny.py --out src/residual_audio/models/tiny --work runs/tiny

took {last["minutes"]:.0f} minutes on {log["machine"]}, busy with other work too, with products in {precision}.
Zero-shot accuracy in percent after each epoch, on takes not used for training, and on the programs of a soundfont that is not trained on
(Debian's `{HELD_OUT.package}`, {HELD_OUT.licence}; ten families, and all instruments by name):

{table(rows)}

It is small and quickly trained: use it to try things out and to learn, not as a judge of sounds.
"""
    (folder / "README.md").write_text(card)
