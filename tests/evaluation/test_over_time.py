"""A long recording: planted sounds are heard where they are, in memory that does not grow, and a window is a clip like any other."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch
from safetensors.torch import load_file

import residual_audio as ra
from residual_audio.audio import Waveform, read
from residual_audio.data import load_dataset
from residual_audio.data.prompts import templates
from residual_audio.evaluation import EvaluationError, prompt_directions
from residual_audio.evaluation.over_time import OverTime, expected_windows, over_time
from residual_audio.options import OptionError

TEXTS = ("siren", "ticking clock", "white noise")
RATE, WINDOW = 22050, 4.0
PLANTED = {"siren": (123, 129), "ticking clock": (401, 407)}  # seconds
# One process: its peak after a minute, then after ten, and what it heard.
PROGRAM = """
import json, resource, sys
import residual_audio as ra
encoder = ra.load_encoder("tiny")
peaks = []
for path in sys.argv[1:3]:
    found = ra.over_time(encoder, path, sys.argv[3:])
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(json.dumps({"peaks": peaks, "heard": found.heard().to_dict("records"), "windows": len(found.starts)}))
"""


def recording(path, seconds, planted):
    """Noise with sounds of the package in it."""
    wave = 0.02 * np.random.default_rng(0).standard_normal(seconds * RATE).astype(np.float32)
    sounds = {clip.label: clip.source for clip in load_dataset("synthetic", per_class=1).clips}
    for label, (start, end) in planted.items():
        sound = read(sounds[label], RATE)
        wave[start * RATE : end * RATE] = np.resize(sound, (end - start) * RATE)
    soundfile.write(path, wave, RATE, subtype="PCM_16")
    return path


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return recording(tmp_path_factory.mktemp("short") / "short.wav", 21, {"siren": (8, 13)})


def test_ten_minutes_in_constant_memory_with_every_sound_in_its_place(tmp_path):
    minute = recording(tmp_path / "minute.wav", 60, {})
    long = recording(tmp_path / "long.wav", 600, PLANTED)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(minute), str(long), *TEXTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["windows"] == 299
    # Read whole, the last nine minutes alone are 33 MB of samples at the model's 16 kHz, and 46 MB at the file's rate.
    assert found["peaks"][1] - found["peaks"][0] < 20, found["peaks"]
    heard = pd.DataFrame(found["heard"])
    for text, (start, end) in PLANTED.items():
        rows = heard[heard.text == text]
        assert len(rows) == 1, heard
        assert abs(rows.start.item() - start) <= WINDOW
        assert abs(rows.end.item() - end) <= WINDOW
        assert start - WINDOW / 2 <= rows.peak.item() <= end + WINDOW / 2
    noise = heard[heard.text == "white noise"]
    assert (noise.end - noise.start).sum() > 600 - sum(end - start + 2 * WINDOW for start, end in PLANTED.values())


def test_a_window_is_the_clip_that_one_would_cut(short):
    """Embeddings and cosines are those of ordinary clips cut from the recording; half a window is padded as short clips are."""
    encoder = ra.load_encoder("tiny")
    for window in (WINDOW, 2.0):
        found = over_time(encoder, short, TEXTS, window=window, template="ensemble", batch_size=4)
        assert found.starts.tolist() == [*np.arange(0, 21 - window, window / 2), 21 - window][: len(found.starts)]
        assert found.ends[-1] == 21
        assert len(found.starts) == expected_windows(encoder, short, window)
        wave = read(short, 16000)
        cut = [Waveform(wave[round(s * 16000) : round(e * 16000)], 16000) for s, e in zip(found.starts, found.ends, strict=True)]
        torch.testing.assert_close(found.embeddings, encoder.embed(cut), atol=1e-5, rtol=0)
        directions = prompt_directions(encoder, TEXTS, templates("ensemble"))
        torch.testing.assert_close(found.cosines, found.embeddings @ directions.T)
        torch.testing.assert_close(found.probabilities.sum(1), torch.ones(len(found.starts)))


def made(starts, ends, probabilities, threshold=0.5):
    p = torch.tensor(probabilities)
    return OverTime(("a", "b"), np.array(starts), np.array(ends), torch.zeros(len(p), 2), p, p, threshold, {}, {})


def test_the_timeline_is_the_mean_of_the_windows_over_each_moment():
    found = made([0.0, 2.0, 4.0, 5.0], [4.0, 6.0, 8.0, 9.0], [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.25, 0.75]])
    line = found.timeline()
    for start, end, text, value in line.itertuples(index=False):
        inside = [i for i in range(4) if found.starts[i] < (start + end) / 2 < found.ends[i]]
        assert value == pytest.approx(found.probabilities[inside, found.texts.index(text)].mean().item())
    assert line["start"].min() == 0
    assert line["end"].max() == 9


def test_heard_is_where_the_threshold_is_reached():
    found = made([0.0, 2.0, 4.0, 6.0], [2.0, 4.0, 6.0, 8.0], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    expected = [("a", 0, 2, 0.9, 1), ("b", 2, 6, 0.8, 3), ("a", 6, 8, 0.7, 7)]
    for row, told in zip(found.heard().itertuples(index=False), expected, strict=True):
        assert row[0] == told[0]
        assert row[1:] == pytest.approx(told[1:])
    assert made([0.0], [2.0], [[0.5, 0.5]], 0.9).heard().empty


def test_what_cannot_be_heard_is_told(short, whisper_dir):
    encoder = ra.load_encoder("tiny")
    for texts in (["rain"], ["rain", "rain"]):
        with pytest.raises(OptionError, match="two different texts"):
            over_time(encoder, short, texts)
    for options, reason in (({"window": 9.0}, "4 s at a time"), ({"hop": 5.0}, "without gaps"), ({"threshold": 1.5}, "probability")):
        with pytest.raises(OptionError, match=reason):
            over_time(encoder, short, TEXTS, **options)
    with pytest.raises(EvaluationError, match="no text side"):
        over_time(ra.load_encoder(whisper_dir), short, TEXTS)


def test_the_command_shows_and_keeps_it(short, tmp_path, command, capsys):
    texts = [word for text in TEXTS for word in ("--text", text)]
    assert command("zero-shot", "tiny", short, "--over-time", *texts, "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "siren" in said
    assert "not heard: ticking clock" in said
    assert {p.name for p in (tmp_path / "tables").glob("*.csv")} == {"windows.csv", "timeline.csv", "heard.csv"}
    assert (tmp_path / "figures" / "over_time.png").stat().st_size > 2000
    kept = load_file(tmp_path / "embeddings.safetensors")
    assert len(kept["embeddings"]) == len(kept["start"]) == json.loads((tmp_path / "over_time.json").read_text())["windows"]
    for words, reason in (
        (["--over-time", "--text", "rain"], "two texts"),
        (["--over-time", *texts, "--limit", "3", "--folds", "stratified"], "--folds, --limit: not read for a recording"),
        (["--hop", "1"], "--hop: not read for a dataset"),
    ):
        assert command("zero-shot", "tiny", short, *words) == 2
        assert reason in " ".join(capsys.readouterr().err.split())
    assert command("zero-shot", "tiny", tmp_path / "none.wav", "--over-time", *texts) == 2
