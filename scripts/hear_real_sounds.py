"""Zero-shot accuracy of ``tiny`` on real recordings that it was not trained on, with intervals over groups.

    python scripts/hear_real_sounds.py --data ../shared/data [--card]

``--card`` also writes the figures into the model's training log and its card.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tiny.card import write_card

import residual_audio as ra
from residual_audio.progress import progress

CARD = Path(__file__).parents[1] / "src/residual_audio/models/tiny"
# Data set, where it is below --data, and the prompts: those of the package's defaults.
ASKED = {
    "NSynth, 10 families": "nsynth/clips.csv",
    "Philharmonia, 13 instruments": "philharmonia/clips.csv",
    "human sounds, 16 kinds": "nonverbal/clips.csv",
    "ESC-50": "esc50",
    "synthetic (synthesised sources)": "synthetic",
}
TEMPLATE = "sound-of"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with nsynth/, philharmonia/, nonverbal/ and esc50/")
    parser.add_argument("--card", action="store_true", help="write the figures into the model's log and card")
    args = parser.parse_args()
    encoder, rows = ra.load_encoder("tiny"), []
    table = Table("data", "clips", "classes", "chance", "top-1 % [95 %]", "top-5 %", title="tiny on real recordings, zero-shot")
    for name, address in ASKED.items():
        if address.endswith(".csv"):
            data = ra.load_dataset(f"table:{args.data / address}")
        else:
            data = ra.load_dataset(address, root=args.data / "esc50") if address == "esc50" else ra.load_dataset(address)
        with progress(name, len(data)) as advance:
            result = ra.zero_shot(encoder, data, template=TEMPLATE, advance=advance)
        top1, top5 = list(result.summary().values())[:2]
        classes = len(data.labels)
        table.add_row(name, str(len(data)), str(classes), f"{100 / classes:.1f}", top1.percent(), f"{100 * top5.value:.1f}")
        rows.append({"data": name, "clips": len(data), "classes": classes, "top1": top1.percent(), "template": TEMPLATE})
    Console().print(table)
    if args.card:
        log = json.loads((CARD / "training.json").read_text())
        (CARD / "training.json").write_text(json.dumps({**log, "real_recordings": rows}, indent=1) + "\n")
        write_card(CARD)


if __name__ == "__main__":
    main()
