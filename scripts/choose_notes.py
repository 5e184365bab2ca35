"""Choose the notes that come with the package out of NSynth's: ``python scripts/choose_notes.py nsynth/clips.csv``.

The table lists notes by ``path,label,group``: INSTRUMENT-PITCH-VELOCITY.ogg (MIDI numbers, as in NSynth's own names), family, instrument.
Of every family 24 audible notes are taken, from all of its instruments in turn. An instrument's notes are cut into as many bands of pitch
as it may give notes, and each band gives one, at the velocity that the family has least of so far. What is left open is drawn by seed.
Files are copied as they are. ``clips.csv`` beside them lists instruments in turn, with folds (no instrument in two), captions, licences.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from residual_audio.data import grouped_folds
from residual_audio.data.files import read_csv
from residual_audio.data.sets.notes import COLUMNS, HERE, NAMES

PER_FAMILY = 24
LARGEST = 4_000_000  # bytes of all sounds together: they are in every wheel
AUDIBLE = 1e-3  # root mean square; some of NSynth's highest notes are next to silent
LICENCE = "CC BY 4.0"
LOW, HIGH = 48, 72  # MIDI: below C3, from C5
SOFT, LOUD = 50, 100


@dataclass(frozen=True)
class Note:
    file: Path
    family: str
    instrument: str

    @property
    def pitch(self) -> int:
        return int(self.file.stem.split("-")[-2])

    @property
    def velocity(self) -> int:
        return int(self.file.stem.split("-")[-1])

    @property
    def audible(self) -> bool:
        samples, _ = soundfile.read(self.file)
        return bool(np.sqrt((samples**2).mean()) > AUDIBLE)

    @property
    def caption(self) -> str:
        """What the name says: "a low, soft note of an acoustic brass instrument"."""
        height = "low" if self.pitch < LOW else "high" if self.pitch >= HIGH else ""
        loudness = "soft" if self.velocity <= SOFT else "loud" if self.velocity >= LOUD else ""
        adjectives = ", ".join(word for word in (height, loudness) if word)
        source = self.instrument.split("_")[-2]
        noun = "bass" if self.family == "bass" else NAMES[self.family]
        return f"a {adjectives} note of a{'' if source == 'synthetic' else 'n'} {source} {noun}".replace("  ", " ")


def shares(available: Counter[str], count: int) -> Counter[str]:
    """How many notes each instrument gives: one each in turn, for as long as it has any."""
    given: Counter[str] = Counter()
    while given.total() < min(count, available.total()):
        for instrument in sorted(available):
            if given[instrument] < available[instrument] and given.total() < count:
                given[instrument] += 1
    return given


def of_family(notes: list[Note], rng: np.random.Generator) -> list[Note]:
    """24 notes, spread over the instruments, their pitches and the velocities."""
    velocities: Counter[int] = Counter()
    chosen = []
    for instrument, count in shares(Counter(n.instrument for n in notes), PER_FAMILY).items():
        own = sorted((n for n in notes if n.instrument == instrument), key=lambda n: (n.pitch, n.velocity))
        for band in np.array_split(np.arange(len(own)), count):
            drawn = [own[i] for i in rng.permutation(band)]
            best = min(drawn, key=lambda n: velocities[n.velocity])
            velocities[best.velocity] += 1
            chosen.append(best)
    return sorted(chosen, key=lambda n: n.file.name)


def in_turn(notes: list[Note], rng: np.random.Generator) -> list[Note]:
    """Instruments take turns, so that the first few notes of a family are of several: a limit, or a page, takes those."""
    turns: Counter[str] = Counter()
    places = {}
    for note in (notes[i] for i in rng.permutation(len(notes))):
        places[note] = (turns[note.instrument], note.instrument)
        turns[note.instrument] += 1
    return sorted(notes, key=places.__getitem__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = read_csv(given.table, ("path", "label", "group"))
    notes = [Note(given.table.parent / row["path"], row["label"], row["group"]) for row in rows]
    rng = np.random.default_rng(given.seed)
    families = [of_family([n for n in notes if n.family == family and n.audible], rng) for family in sorted(NAMES)]
    chosen = [note for family in families for note in in_turn(family, rng)]
    size = sum(n.file.stat().st_size for n in chosen)
    if size > LARGEST:
        raise SystemExit(f"{size:,} bytes of sound are more than {LARGEST:,}")
    folds = grouped_folds([n.family for n in chosen], [n.instrument for n in chosen], seed=given.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    for old in given.out.glob("*.ogg"):
        old.unlink()
    with (given.out / "clips.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for note, fold in zip(chosen, folds, strict=True):
            shutil.copyfile(note.file, given.out / note.file.name)
            table.writerow((note.file.name, note.family, fold, note.instrument, note.caption, LICENCE))
    print(
        f"{len(chosen)} notes of {len({n.instrument for n in chosen})} instruments, {size:,} bytes, folds {sorted(Counter(folds).items())}"
    )


if __name__ == "__main__":
    main()
