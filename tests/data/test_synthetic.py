from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from residual_audio.audio import read
from residual_audio.data import DataError, load_dataset
from residual_audio.data.synthesis import RATE, TASKS, take
from residual_audio.data.synthetic import FIRST_TAKE, PER_CLASS, SyntheticSound

NAMES = {"synthetic": "source", "synthetic-timbre": "timbre", "synthetic-voice": "voice"}
CLASSES = [(task, index) for task, kinds in TASKS.items() for index in range(len(kinds))]


@pytest.mark.parametrize(("task", "index"), CLASSES, ids=[f"{t}-{TASKS[t][i].label}" for t, i in CLASSES])
def test_every_class_renders_finite_audible_and_the_same_each_time(task, index):
    sound = SyntheticSound(task, index, FIRST_TAKE + 7)
    first, again = sound.waveform(), SyntheticSound.parse(str(sound)).waveform()
    assert first.sample_rate == RATE == 16000
    assert first.samples.shape == (4 * 16000,)
    assert first.samples.dtype == np.float32
    assert np.isfinite(first.samples).all()
    assert 0.01 < np.abs(first.samples).max() <= 1
    assert np.sqrt((first.samples**2).mean()) > 1e-3
    assert first.samples.tobytes() == again.samples.tobytes()
    assert first.samples.tobytes() != SyntheticSound(task, index, FIRST_TAKE + 8).waveform().samples.tobytes()


def test_another_process_renders_the_same_bits():
    code = (
        "import sys; from residual_audio.data.synthetic import SyntheticSound as S; "
        "sys.stdout.buffer.write(S.parse(sys.argv[1]).waveform().samples.tobytes())"
    )
    sound = SyntheticSound("voice", 3, FIRST_TAKE)
    done = subprocess.run([sys.executable, "-c", code, str(sound)], capture_output=True, check=True)
    assert done.stdout == sound.waveform().samples.tobytes()


@pytest.mark.parametrize(("name", "task"), NAMES.items())
def test_dataset_sizes_folds_and_labels(name, task):
    data = load_dataset(name)
    kinds = TASKS[task]
    assert (data.name, data.folds, len(data)) == (name, "stratified", PER_CLASS[task] * len(kinds))
    assert set(data.labels) == {kind.label for kind in kinds}
    assert len(data.labels) == len(kinds)
    assert data.names == {label: label for label in data.labels}
    sizes = Counter((c.label, c.fold) for c in data.clips)
    assert sizes == {(label, fold): PER_CLASS[task] // 5 for label in data.labels for fold in range(1, 6)}
    assert all(SyntheticSound.parse(c.path).take >= FIRST_TAKE for c in data.clips)


def test_draws_of_the_same_classes_have_no_take_in_common():
    draws = [load_dataset(name) for name in ("synthetic", "synthetic-more", "synthetic-spare")]
    assert len({clip.path for data in draws for clip in data.clips}) == sum(map(len, draws)) == 3 * len(draws[0])
    assert all(data.labels == draws[0].labels for data in draws)
    with pytest.raises(DataError, match="a draw has 1,000,000 takes"):
        load_dataset("synthetic", per_class=1_000_001)


def test_takes_do_not_meet_those_of_training():
    """Training draws from 0 on and checks itself from 10,000,000 on; a dataset starts after both."""
    assert FIRST_TAKE == 20_000_000
    takes = {SyntheticSound.parse(c.path).take for c in load_dataset("synthetic", per_class=3).clips}
    assert takes == {FIRST_TAKE, FIRST_TAKE + 1, FIRST_TAKE + 2}


def test_a_clip_reads_like_a_file_and_survives_pickling():
    clip = load_dataset("synthetic-voice", per_class=1).clips[2]
    samples = read(clip.source, 16000)
    assert samples.tobytes() == read(pickle.loads(pickle.dumps(clip)).source, 16000).tobytes()
    assert len(read(clip.source, 48000)) == 4 * 48000


def test_captions_only_when_asked_for_and_true():
    assert all(c.captions == () for c in load_dataset("synthetic", per_class=1).clips)
    data = load_dataset("synthetic-voice", per_class=2, captions=True)
    for clip in data.clips:
        sound = SyntheticSound.parse(clip.path)
        rendered = take(sound.task, sound.index, sound.take)
        assert clip.captions == (rendered.caption.text,)
        assert rendered.caption.true_of(clip.label, rendered.words)


def test_errors():
    with pytest.raises(DataError, match="at least one take"):
        load_dataset("synthetic", per_class=0)
    for address in ("synthetic:voice/99/1", "synthetic:choir/0/1", "synthetic:voice/0"):
        with pytest.raises(ValueError, match="TASK/CLASS/TAKE"):
            SyntheticSound.parse(address)
