"""Every sound in the package may be there, and says whose it is."""

import csv
import hashlib
import tomllib
from pathlib import Path

import pytest
import soundfile

from residual_audio.data import DATASETS, Shipped, load_dataset
from residual_audio.data.files import audio_files

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "residual_audio"
# Licences under which a part may be passed on with a program: no "non-commercial", no "no derivatives", no "share alike".
ALLOWED = {"CC0 1.0", "CC BY 3.0", "CC BY 4.0", "MIT"}
# Of the recordings for development, those that may not be shipped.
FORBIDDEN = ("esc50", "philharmonia", "nonverbal")
SHIPPED = [source for source in DATASETS.values() if isinstance(source, Shipped)]


def unattributed(folder: Path) -> list[str]:
    """Sounds below a folder that no table beside them lists with a licence that allows shipping, or that have no README."""
    wrong = []
    for sound in audio_files(folder):
        table = sound.parent / "clips.csv"
        rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines()) if table.exists() else []
        licences = [row["licence"] for row in rows if row["path"] == sound.name]
        if len(licences) != 1 or licences[0] not in ALLOWED or not (sound.parent / "README.md").exists():
            wrong.append(sound.name)
    return wrong


def encoded(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def decoded(path: Path) -> str:
    return hashlib.sha256(soundfile.read(path, dtype="float32")[0].tobytes()).hexdigest()


def length(path: Path) -> tuple[int, int]:
    info = soundfile.info(path)
    return info.frames, info.samplerate


def same_sounds(ours: list[Path], theirs: list[Path]) -> set[str]:
    """Those of ours that are among theirs, as files or, where the length is the same, as samples."""
    files, lengths = {encoded(p) for p in theirs}, {length(p) for p in ours}
    samples = {decoded(p) for p in theirs if length(p) in lengths}
    return {p.name for p in ours if encoded(p) in files or decoded(p) in samples}


def test_every_sound_is_listed_with_its_licence():
    assert len(audio_files(PACKAGE)) == sum(len(load_dataset(source.name)) for source in SHIPPED) > 0
    assert unattributed(PACKAGE) == []


@pytest.mark.parametrize("row", ["other.ogg,CC BY 4.0", "one.ogg,CC BY-NC 4.0", "one.ogg,", "one.ogg,CC BY 4.0"])
def test_a_sound_without_attribution_is_found(tmp_path, row):
    (tmp_path / "one.ogg").write_bytes(b"sound")
    (tmp_path / "clips.csv").write_text(f"path,licence\n{row}\n")
    assert unattributed(tmp_path) == ["one.ogg"], "no README at least"
    (tmp_path / "README.md").write_text("whose it is")
    assert unattributed(tmp_path) == ([] if row == "one.ogg,CC BY 4.0" else ["one.ogg"])


@pytest.mark.parametrize("source", SHIPPED, ids=lambda source: source.name)
def test_the_attribution_names_author_licence_and_changes(source):
    clips = load_dataset(source.name).clips
    text = (Path(clips[0].path).parent / "README.md").read_text(encoding="utf-8")
    assert source.licence in ALLOWED
    for needed in (source.licence, source.credit.split(",")[0], "https://creativecommons.org/licenses/", "**Changes.**"):
        assert needed in text
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert source.licence in page
    assert source.credit in page


def test_the_wheel_takes_sounds_and_attribution_along():
    globs = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["residual_audio"]
    packed = {path for pattern in globs for path in PACKAGE.glob(pattern)}
    for sound in audio_files(PACKAGE):
        assert {sound, sound.parent / "README.md", sound.parent / "clips.csv"} <= packed


def test_nothing_comes_from_a_set_that_may_not_be_shipped(shared):
    present = [shared / "data" / name for name in FORBIDDEN if (shared / "data" / name).is_dir()]
    if len(present) < len(FORBIDDEN):
        pytest.skip("needs the recordings for development in ../shared/data")
    ours = audio_files(PACKAGE)
    assert same_sounds(ours, [p for folder in present for p in audio_files(folder)]) == set()
    originals = shared / "data" / "nsynth" / "audio"
    assert all(encoded(p) == encoded(originals / p.name) for p in ours if p.parent.name == "notes")


def test_a_sound_in_another_wrapping_is_recognised(tmp_path):
    note = Path(load_dataset("notes").clips[0].path)
    samples, rate = soundfile.read(note, dtype="float32")
    soundfile.write(tmp_path / "other-name.wav", samples, rate, subtype="FLOAT")
    assert same_sounds([note], [tmp_path / "other-name.wav"]) == {note.name}
    soundfile.write(tmp_path / "other-name.wav", -samples, rate, subtype="FLOAT")
    assert same_sounds([note], [tmp_path / "other-name.wav"]) == set()
