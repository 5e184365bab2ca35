"""One odd clip or image never ends a run: every kind of bad file among good ones."""

import os
import resource
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch

from residual_audio.audio import Prepared
from residual_audio.data import Clip, load_dataset, make_dataset
from residual_audio.evaluation import zero_shot
from residual_audio.extraction import Run, extract
from residual_audio.images import ImageError
from residual_audio.media import MediaError
from residual_audio.models import load_encoder
from residual_audio.models.batching import prepared_ahead
from residual_audio.models.encoders.clip import DEFAULT as CLIP_POLICY
from tests.audio.test_bad_files import POLICY
from tests.helpers.bad_files import IMAGES, SOUNDS, make_all, table, tone, wav
from tests.helpers.pictures import picture

DOCS = Path(__file__).resolve().parents[2] / "docs" / "audio.md"


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture
def little_memory():
    """No test here may take gigabytes: what asks for them fails instead of taking the machine along."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def among_good(kinds, paths: list[str], good: list[Path]):
    """Bad ones and good ones in turn, so that every batch has both."""
    bad = [Clip(f"bad/{kind.name}", path, "ab"[i % 2]) for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))]
    fine = [Clip(f"good/{i}", str(good[i % len(good)]), "ab"[i % 2]) for i in range(len(bad) // 3)]
    return make_dataset("mixed", [c for i, clip in enumerate(bad) for c in (*fine[i // 3 : (i + 3) // 3 if i % 3 == 2 else i // 3], clip)])


def check_run(run: Run, kinds) -> None:
    """All good clips are there, every bad one is named with its reason."""
    fates = run.all_clips.set_index("id")
    assert (fates.status[[i for i in fates.index if i.startswith("good/")]] == "ok").all()
    for kind in kinds:
        fate = fates.loc[f"bad/{kind.name}"]
        assert fate.status == "error", kind
        assert kind.says in fate.error, kind
    assert torch.isfinite(run.heads[:]).all()
    assert torch.isfinite(run.moments("clips").second).all()


def test_there_are_enough_of_them():
    assert len({k.what for k in SOUNDS}) + len({(k.what, 1) for k in IMAGES}) >= 60
    assert len(SOUNDS) >= 50


def test_every_bad_sound_is_named_and_every_good_one_is_there(tiny, sound_files, tmp_path, little_memory):
    data = among_good(SOUNDS, make_all(SOUNDS, tmp_path / "bad"), sound_files)
    run = extract(tiny, data, tmp_path / "run", ("head", "moments"), batch_size=4)
    check_run(run, SOUNDS)


def test_every_bad_image_is_named_and_every_good_one_is_there(clip_dir, image_files, tmp_path, little_memory):
    data = among_good(IMAGES, make_all(IMAGES, tmp_path / "bad"), image_files)
    check_run(extract(load_encoder(clip_dir), data, tmp_path / "run", ("head", "moments"), batch_size=4), IMAGES)


def test_the_page_shows_these_kinds():
    text = DOCS.read_text()
    assert table(SOUNDS) in text
    assert table(IMAGES) in text


def test_the_command_ends_well(command, capsys, tmp_path, sound_files):
    """A table with bad rows: exit 0, and the class of which nothing could be read is listed and left out."""
    bad = [k for k in SOUNDS if k.name != "null"]
    paths = make_all(tuple(bad), tmp_path / "bad")
    rows = [{"path": p, "label": "[/red]gone" if i % 2 else "a"} for i, p in enumerate(paths)]
    rows += [{"path": str(p), "label": "ab"[i % 2]} for i, p in enumerate(sound_files)]
    pd.DataFrame(rows).assign(id=range(len(rows))).to_csv(tmp_path / "clips.csv", index=False)
    assert command("zero-shot", "tiny", tmp_path / "clips.csv", "--out", tmp_path / "out") == 0
    told = capsys.readouterr().err
    assert f"{len(bad)} of {len(rows)} clips could not be read" in told
    assert "classes left out, because none of their clips could be read: [/red]gone" in told
    clips = pd.read_parquet(tmp_path / "out" / "clips.parquet")
    assert (clips.status == "ok").sum() == len(sound_files)


def test_anything_that_one_clip_raises_is_its_own(tmp_path):
    raised = (MemoryError, ZeroDivisionError, TypeError)

    def prepare(source):
        raise {kind.__name__: kind for kind in raised}[source]("boo")

    outcomes = list(prepared_ahead([kind.__name__ for kind in raised], prepare))
    assert [str(o) for o in outcomes] == [f"{k.__name__}: cannot be read ({k.__name__}: boo)" for k in raised]
    assert all(isinstance(o, MediaError) for o in outcomes)


def test_a_name_that_is_no_utf8_is_read_and_shown(tiny, tmp_path):
    home = os.fsencode(tmp_path / "clips" / "a")
    os.makedirs(home)
    for name in (b"caf\xe9.wav", b"line\nbreak.wav", b"plain.wav"):
        with open(home + b"/" + name, "wb") as file:
            soundfile.write(file, tone(), 16000, format="WAV")
    run = extract(tiny, load_dataset(f"folder:{tmp_path / 'clips'}"), tmp_path / "run", ("head",))
    assert list(run.clips.id) == ["a/caf\\udce9.wav", "a/line\\nbreak.wav", "a/plain.wav"]
    assert torch.allclose(run.heads[0], run.heads[2], atol=1e-5)


def test_a_file_without_permission_says_so(tmp_path):
    """Dropped rights in a child: for root no file is forbidden."""
    (tmp_path / "x.wav").write_bytes(wav())
    (tmp_path / "x.wav").chmod(0)
    program = (
        "import os, sys; from residual_audio.audio import read\n"
        "os.chdir(sys.argv[1]); os.geteuid() or os.setuid(65534)\n"
        "try: read('x.wav', 16000)\nexcept ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True)
    assert done.stdout.strip() == "x.wav: no permission to read it", done.stderr


def claims(frames: int) -> bytes:
    """A FLAC of 4,000 frames whose header claims others."""
    import io

    file = io.BytesIO()
    soundfile.write(file, tone(0.25), 16000, format="FLAC")
    whole = bytearray(file.getvalue())
    low = frames & 0xFFFFFFFF
    whole[21] = (whole[21] & 0xF0) | (frames >> 32)
    whole[22:26] = struct.pack(">I", low)
    return bytes(whole)


@pytest.mark.parametrize("fusion", [False, True])
def test_a_header_that_claims_the_moon_costs_what_is_there(tmp_path, fusion, little_memory):
    (tmp_path / "x.flac").write_bytes(claims(2**36 - 1))
    with soundfile.SoundFile(tmp_path / "x.flac") as sound:
        assert sound.frames == 2**36 - 1
    (tmp_path / "honest.flac").write_bytes(claims(4000))
    policy = replace(POLICY, fusion=fusion)
    assert torch.equal(policy.prepare(tmp_path / "x.flac").features, policy.prepare(tmp_path / "honest.flac").features)


def test_feature_fusion_reads_no_more_than_half_an_hour(tmp_path, monkeypatch):
    from residual_audio.audio import decode

    monkeypatch.setattr(decode, "LONGEST_SECONDS", 2)
    soundfile.write(tmp_path / "x.wav", tone(3), 16000)
    with pytest.raises(MediaError, match=r"x\.wav: lasts more than .* minutes, too long to be read whole"):
        replace(POLICY, fusion=True).prepare(tmp_path / "x.wav")
    assert isinstance(POLICY.prepare(tmp_path / "x.wav"), Prepared)


def test_what_a_flac_holds_before_it_breaks_off_is_used(tmp_path):
    soundfile.write(tmp_path / "whole.flac", tone(4) + 0.01 * np.random.default_rng(0).standard_normal(64000), 16000)
    content = (tmp_path / "whole.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(content[: len(content) // 2])
    from residual_audio.audio import read

    half = read(tmp_path / "cut.flac", 16000)
    assert 16000 < len(half) < 40000
    assert np.array_equal(half, read(tmp_path / "whole.flac", 16000)[: len(half)])


def test_channels_first_is_refused(tiny):
    stereo = np.stack([tone(), tone()])
    with pytest.raises(MediaError, match=r"more channels than frames; pass its transpose"):
        tiny.embed([stereo], sample_rate=16000)
    assert torch.allclose(tiny.embed([stereo.T], sample_rate=16000), tiny.embed([tone()], sample_rate=16000), atol=1e-5)


def test_pictures_are_bounded_after_resizing_too():
    with pytest.raises(ImageError, match="pixels are more than"):
        CLIP_POLICY.prepare(np.zeros((60000, 1), np.uint8))
    assert isinstance(CLIP_POLICY.prepare(np.asarray(picture("square", "red", 0))), Prepared)


def test_a_class_of_which_nothing_can_be_read_is_left_out(tiny, tmp_path):
    data = load_dataset("synthetic-voice", per_class=2)
    broken = data.labels[2]
    clips = tuple(replace(c, path=str(tmp_path / "gone.wav")) if c.label == broken else c for c in data.clips)
    result = zero_shot(tiny, replace(data, clips=clips))
    assert broken not in result.dataset.labels
    assert result.info["classes_left_out"] == [broken]
    without = zero_shot(tiny, data.only(lambda c: c.label != broken, "others"))
    assert torch.allclose(result.scores, without.scores, atol=1e-5)
    assert result.summary() == without.summary()
