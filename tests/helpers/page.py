"""A small real run for the page: sound files on disk, one class of which is named to break out of the page; gains that were not learned."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import soundfile

from residual_audio.adaptation.adapter import save_adapter
from residual_audio.adaptation.gain import ResiDual, gain_set
from residual_audio.adaptation.select import choose_places
from residual_audio.data import Dataset, load_dataset
from residual_audio.data.synthesis import TASKS
from residual_audio.data.synthetic import SyntheticSound
from residual_audio.extraction import Run, extract
from residual_audio.models import Encoder, load_encoder
from residual_audio.spectra import Basis, principal_axes

HOSTILE = "<script>alert(1)</script>"
# Of a task that `tiny` finds hard, so that gains matter; the first class gets another name.
TIMBRES = (0, 4, 8, 11)
CLASSES = (HOSTILE, *(TASKS["timbre"][i].label for i in TIMBRES[1:]))
PER_CLASS = 7


@dataclass(frozen=True)
class Made:
    """A run, its encoder, its dataset and an adapter for it."""

    run: Run
    folder: Path
    encoder: Encoder
    dataset: Dataset
    adapter: Path
    residual: ResiDual


def make(home: Path) -> Made:
    """The run, from nothing."""
    rows = []
    for number, label in enumerate(CLASSES):
        for take in range(PER_CLASS):
            path = home / f"{number}-{take}.wav"
            sound = SyntheticSound("timbre", TIMBRES[number], 40 + take).waveform()
            soundfile.write(path, np.asarray(sound.samples, np.float32), sound.sample_rate)
            rows.append({"id": f"{number}/{take} & <img src=x onerror=alert(2)>", "path": str(path), "label": label})
    broken = home / "broken.wav"
    broken.write_bytes(b"no sound")
    rows.append({"id": "broken", "path": str(broken), "label": CLASSES[0]})
    pd.DataFrame(rows).to_csv(home / "breaking.csv", index=False)
    dataset = load_dataset(f"table:{home / 'breaking.csv'}")
    encoder = load_encoder("tiny")
    run = extract(encoder, dataset, home / "run", ("head", "moments", "direct"))
    basis, heads = principal_axes(run.moments("tokens")), [u.label for u in run.units.where("head")]
    rng, sets = np.random.default_rng(3), []
    for place in choose_places(encoder.units, "S3 heads"):
        mine = [heads.index(label) for label in place.labels]
        found = gain_set(place, Basis(basis.axes[mine].float(), basis.variance[mine].float(), basis.mean[mine].float()))
        sets.append(found)
        found.values.copy_(found.values.new_tensor(rng.uniform(-0.5, 2.5, found.values.shape)))
    residual = ResiDual(tuple(sets))
    save_adapter(home / "adapter", encoder, residual)
    return Made(run, home / "run", encoder, dataset, home / "adapter", residual)
