"""What lies in a run is what was written, or it is named; nothing in it leads elsewhere; nobody else writes it."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import fsspec.implementations.local
import numpy as np
import pytest
import soundfile
import torch

from residual_audio.data import load_dataset
from residual_audio.extraction import Run, StoreError, extract
from residual_audio.extraction.store import Store, StoreWarning, private_folder
from residual_audio.models import load_encoder
from residual_audio.results import write_table
from residual_audio.writing import LinkError, drafted, drafted_folder

WANTED = ("head", "moments")


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """A folder of 12 sounds in two classes."""
    home = tmp_path_factory.mktemp("sounds")
    for i in range(12):
        place = home / "ab"[i % 2]
        place.mkdir(exist_ok=True)
        soundfile.write(place / f"{i:02}.wav", 0.1 * np.random.default_rng(i).standard_normal(4000), 16000)
    return home


@pytest.fixture(scope="module")
def made(tiny, sounds, tmp_path_factory):
    return extract(tiny, load_dataset(f"folder:{sounds}"), tmp_path_factory.mktemp("made") / "run", WANTED, batch_size=2)


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made.store.local, tmp_path / "run")
    return tmp_path / "run"


def shard(run: Path, number: int) -> Path:
    return run / "shards" / f"{number:05}.safetensors"


def swap(run: Path) -> None:
    shard(run, 1).rename(run / "x")
    shard(run, 2).rename(shard(run, 1))
    (run / "x").rename(shard(run, 2))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


ATTACKS = {
    "swapped": (swap, {1, 2}),
    "copied": (lambda run: shutil.copyfile(shard(run, 0), shard(run, 3)), {3}),
    "truncated": (lambda run: os.truncate(shard(run, 2), 700), {2}),
    "flipped": (lambda run: flip(shard(run, 4)), {4}),
    "deleted": (lambda run: shard(run, 0).unlink(), {0}),
}


def times(run: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in (run / "shards").iterdir()}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_shard_that_is_not_what_was_written_is_named_and_made_again(attack, run, made, tiny, sounds):
    work, hit = ATTACKS[attack]
    work(run)
    with pytest.raises(StoreError, match=r"shards/0000|0000\d\.safetensors") as caught:
        Run.open(run).heads[:]
    assert "extract` command makes it again" in str(caught.value)
    assert Run.open(run).problems()
    before = times(run)
    again = extract(tiny, load_dataset(f"folder:{sounds}"), run, WANTED, batch_size=2)
    after = times(run)
    assert {n for n in after if after[n] != before.get(n)} == {shard(run, n).name for n in hit}, "exactly those"
    assert again.problems() == []
    assert torch.equal(again.heads[:], made.heads[:])
    assert torch.equal(again.moments("tokens").second, made.moments("tokens").second)


def test_other_files_are_watched_too(run, command, capsys, tiny, sounds):
    assert command("check", run) == 0
    flip(run / "moments.safetensors")
    with pytest.raises(StoreError, match=r"moments\.safetensors is not the file"):
        Run.open(run).moments()
    assert command("check", run) == 1
    assert "moments.safetensors" in capsys.readouterr().out.replace("\n", "")
    assert extract(tiny, load_dataset(f"folder:{sounds}"), run, WANTED, batch_size=2).problems() == []


def test_a_clip_that_was_replaced_is_read_again(made, tiny, sounds, tmp_path):
    shutil.copytree(sounds, tmp_path / "clips")
    first = extract(tiny, load_dataset(f"folder:{tmp_path / 'clips'}"), tmp_path / "r", WANTED, batch_size=2)
    assert torch.equal(first.heads[:], made.heads[:])
    soundfile.write(tmp_path / "clips" / "b" / "05.wav", 0.5 * np.sin(np.arange(4000)), 16000)
    before = times(tmp_path / "r")
    second = extract(tiny, load_dataset(f"folder:{tmp_path / 'clips'}"), tmp_path / "r", WANTED, batch_size=2)
    changed = [i for i in range(12) if not torch.equal(second.heads[i], made.heads[i])]
    assert [second.clips.id[i] for i in changed] == ["b/05.wav"]
    assert sum(before[n] != t for n, t in times(tmp_path / "r").items()) == 1


def test_paths_are_good_from_any_folder(tiny, sounds, tmp_path, monkeypatch):
    monkeypatch.chdir(sounds.parent)
    run = extract(tiny, load_dataset(f"folder:{sounds.name}").limited(2), tmp_path / "r", ("head",))
    monkeypatch.chdir(tmp_path)
    assert all(Path(p).is_file() for p in run.clips.path)


@pytest.mark.parametrize("place", ["shards", "digests"])
def test_links_in_a_run_are_not_followed(place, run, tiny, sounds, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(run / place)
    (run / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkError, match="is a link"):
        extract(tiny, load_dataset(f"folder:{sounds}"), run, WANTED, batch_size=2)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_lock_or_a_table_that_is_a_link_harms_nothing(run, tiny, sounds, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(StoreError, match="is it a link"):
        extract(tiny, load_dataset(f"folder:{sounds}"), run, WANTED, batch_size=2)
    (tmp_path / "elsewhere").mkdir()
    (run / "tables").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkError, match="is a link"):
        write_table(Run.open(run).clips, run / "tables", "x")
    (run / "run.json").unlink()
    (run / "run.json").symlink_to(tmp_path / "thesis.tex")
    Store(str(run)).write_json("run.json", {})
    assert (tmp_path / "thesis.tex").read_text() == "precious"
    assert not (run / "run.json").is_symlink()


def test_removing_the_lock_admits_nobody(tmp_path):
    store = Store(str(tmp_path / "run"))
    with store.locked():
        (tmp_path / "run" / ".lock").unlink()
        with pytest.raises(StoreError, match="being written by"), Store(str(tmp_path / "run")).locked():
            pass
    with store.locked():
        pass


class Remote(fsspec.implementations.local.LocalFileSystem):
    protocol = "pretended"

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("pretended://"))


def test_a_remote_run_says_that_it_has_no_lock_and_its_copies_are_private(tmp_path, monkeypatch):
    fsspec.register_implementation("pretended", Remote, clobber=True)
    monkeypatch.setenv("RESIDUAL_AUDIO_CACHE", str(tmp_path / "cache"))
    store = Store(f"pretended://{tmp_path}/run")
    with pytest.warns(StoreWarning, match="cannot be locked"), store.locked():
        store.write_json("x.json", {"a": 1})
    copy = store.reading("x.json")
    assert copy.read_bytes() == (tmp_path / "run" / "x.json").read_bytes()
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    shutil.rmtree(tmp_path / "cache" / "remote")
    (tmp_path / "cache" / "remote").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="not a folder of your own"):
        private_folder()


def test_a_run_that_never_got_anywhere_claims_nothing(tiny, sounds, tmp_path):
    data = load_dataset(f"folder:{sounds}")
    Store(str(tmp_path / "r")).write_json("run.json", {"settings": {"batch_size": 99}, "units": {}})
    assert extract(tiny, data.limited(2), tmp_path / "r", WANTED, batch_size=2).complete
    with pytest.raises(StoreError, match="other settings"):
        extract(tiny, data.limited(2), tmp_path / "r", WANTED, batch_size=4)


def test_small_sets_have_small_shards(tiny, tmp_path):
    """A kill half-way through 96 clips must not cost all of them."""
    from residual_audio.extraction import Settings

    sizes = {clips: -(-clips // Settings(batch_size=16).sized(clips).shard_size) for clips in (1, 16, 96, 1024, 100_000)}
    assert sizes == {1: 1, 16: 1, 96: 6, 1024: 8, 100_000: 782}


FOLDING = """
import signal, sys, time
from pathlib import Path
from residual_audio.cli.screen import fail_clearly
from residual_audio.writing import drafted_folder
with fail_clearly():
    with drafted_folder(Path(sys.argv[1])) as draft:
        (draft / "half").touch()
        print("there", flush=True)
        time.sleep(60)
"""


def test_sigterm_leaves_nothing_half_written(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", FOLDING, tmp_path / "folded"], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".folded.")]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("drafting", [drafted, drafted_folder])
def test_a_signal_at_the_first_moment_of_a_draft_leaves_nothing(drafting, tmp_path, monkeypatch):
    """It comes when the draft has just been made: whatever is called next raises."""
    stat_of = Path.stat

    def interrupted(path, **options):
        if path.suffix == ".tmp":
            raise SystemExit(143)
        return stat_of(path, **options)

    monkeypatch.setattr(Path, "stat", interrupted)
    with pytest.raises(SystemExit), drafting(tmp_path / "folded"):
        pass
    assert os.listdir(tmp_path) == []
