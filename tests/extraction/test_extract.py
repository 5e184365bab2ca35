"""Runs that are killed, continued, refused, shared and read."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch
from sklearn.decomposition import PCA

from residual_audio.data import load_dataset
from residual_audio.extraction import ExtractionError, Run, StoreError, extract
from residual_audio.extraction.capture import Capture
from residual_audio.extraction.store import Store
from residual_audio.models import load_encoder
from residual_audio.spectra import principal_axes
from residual_audio.units import SelectionError

EVERYTHING = ("head", "mlp", "block", "stage", "embedding", "moments", "direct", "attention")


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def voices():
    return load_dataset("synthetic-voice", per_class=10)


@pytest.fixture(scope="module")
def run(tiny, voices, tmp_path_factory):
    return extract(tiny, voices, tmp_path_factory.mktemp("run") / "r", EVERYTHING, batch_size=4)


def same(a: Run, b: Run) -> None:
    """Bit for bit: arrays, moments, clips."""
    assert a.keys == b.keys
    for key in a.keys:
        assert torch.equal(a.array(key)[:], b.array(key)[:]), key
    if "head" in a.keys and a.store.exists("moments.safetensors"):
        for level in ("tokens", "clips"):
            assert torch.equal(a.moments(level).second, b.moments(level).second)
    assert a.all_clips.equals(b.all_clips)


def test_arrays_line_up_with_clips_and_units(run, tiny, voices):
    assert run.complete
    assert len(run.store.names("shards")) == 7, "small sets have small shards"
    assert run.heads.shape == (80, 184, 8)
    assert run.units == tiny.units
    assert list(run.clips.id) == [c.id for c in voices.clips]
    for row in (0, 37, 79):
        prepared = tiny.prepare(voices.clips[row].source)
        one = Capture(tiny, ("head",)).run(prepared.features, torch.tensor([False])).arrays["head"][0]
        assert (run.heads[row] - one).abs().max() < 1e-5
    embedded = torch.nn.functional.normalize(run.array("embedding.joint")[:], dim=-1)
    assert (embedded - tiny.embed([c.source for c in voices.clips])).abs().max() < 1e-5


def test_rows_can_be_asked_for_in_any_way(run):
    whole = run.heads[:]
    assert torch.equal(run.heads[5], whole[5])
    assert torch.equal(run.heads[-1], whole[-1])
    assert torch.equal(run.heads[30:70:3], whole[30:70:3])
    assert torch.equal(run.heads[[70, 2, 33, 2]], whole[[70, 2, 33, 2]])
    assert torch.equal(run.heads[np.arange(80) % 2 == 0], whole[::2])
    assert torch.equal(torch.cat(list(run.heads.batches(17))), whole)
    assert len(run.heads[[]]) == 0
    with pytest.raises(IndexError, match="80 rows"):
        run.heads[80]


def test_shares_of_a_stored_run_sum_to_its_embeddings(run):
    shares, constant = run.shares()
    pooled = run.array("embedding.pooled")[:]
    assert (shares.sum(1) + constant - pooled).abs().max() < 1e-5 * pooled.abs().max()
    shares, constant = run.joint_shares(slice(10, 30))
    joint = run.array("embedding.joint")[10:30]
    assert (shares.sum(1) + constant - joint).abs().max() < 1e-5 * joint.abs().max()


def test_contributions_are_derived_without_the_model(run, tiny):
    derived = run.contributions(2, 1)
    assert derived.shape == (80, 16, 128)
    bias = tiny.module.get_submodule(tiny.sites[5].projection).bias
    weight = tiny.module.get_submodule(tiny.sites[5].projection).weight
    heads = run.heads[:][:, [i for i, u in enumerate(tiny.units.where("head")) if (u.stage, u.block) == (2, 1)]]
    by_hand = heads.flatten(1) @ weight.T + bias
    assert torch.allclose(derived.sum(1), by_hand, atol=1e-5)


def test_token_level_pca_equals_scikit_learn(run, tiny, voices):
    """Of one head of each stage, from all tokens of all clips."""
    tokens: dict[int, list] = {}
    capture = Capture(tiny, ("tokens",), [tiny.units[tiny.units.index(f"S{s}B1H2")] for s in range(4)])
    for clip in voices.clips:
        arrays = capture.run(tiny.prepare(clip.source).features, torch.tensor([False])).arrays
        for s in range(4):
            tokens.setdefault(s, []).append(arrays[f"tokens.S{s}B1H2"].flatten(0, 2).double().numpy())
    basis = principal_axes(run.moments("tokens"))
    labels = [u.label for u in tiny.units.where("head")]
    for s in range(4):
        theirs = PCA().fit(np.concatenate(tokens[s]))
        assert np.allclose(basis.variance[labels.index(f"S{s}B1H2")], theirs.explained_variance_, rtol=1e-4)
    clip_level = PCA().fit(run.heads[:][:, 7].double().numpy())
    assert np.allclose(principal_axes(run.moments("clips")).variance[7], clip_level.explained_variance_, rtol=1e-6, atol=1e-12)


COMMAND = """
import sys
from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder
data = load_dataset("synthetic-voice", per_class=10)
wanted = sys.argv[2].split(",")
extract(load_encoder("tiny"), data, sys.argv[1], wanted, batch_size=4, advance=lambda n: print(n, flush=True))
"""


def start(out, granularity=EVERYTHING):
    command = [sys.executable, "-c", COMMAND, str(out), ",".join(granularity)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_full_disk_loses_nothing_that_was_done(tiny, voices, tmp_path):
    """A real limit on file size stands in for the full disk: writing a shard fails half-way."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))\n" + COMMAND
    out = tmp_path / "r"
    failed = subprocess.run([sys.executable, "-c", limited, str(out), "head,direct"], capture_output=True, text=True)
    assert failed.returncode != 0
    assert "File too large" in failed.stderr
    assert [p for p in out.rglob("*") if p.name.endswith(".tmp")] == []
    assert Store(str(out)).names("shards") == []
    again = extract(tiny, voices, out, ("head", "direct"), batch_size=4)
    # Of the same granularities: recording attention weights switches the fused attention off, which rounds otherwise.
    whole = extract(tiny, voices, tmp_path / "whole", ("head", "direct"), batch_size=4)
    assert torch.equal(again.heads[:], whole.heads[:])


def test_a_second_process_is_told(tiny, voices, tmp_path):
    out = tmp_path / "r"
    process = start(out)
    process.stdout.readline()
    try:
        with pytest.raises(StoreError, match=f"being written by process {process.pid}"):
            extract(tiny, voices, out, EVERYTHING, batch_size=4)
    finally:
        process.kill()
        process.communicate()


def test_settings_are_not_mixed(run, tiny, voices):
    address = run.store.address
    with pytest.raises(StoreError, match=r"settings\.batch_size: 4 → 8"):
        extract(tiny, voices, address, EVERYTHING, batch_size=8)
    with pytest.raises(StoreError, match=r"dataset\.clips: 80 → 8"):
        extract(tiny, voices.limited(8), address, EVERYTHING, batch_size=4)
    with pytest.raises(StoreError, match=r"preprocessing\.crop: start → centre"):
        extract(load_encoder("tiny", crop="centre"), voices, address, EVERYTHING, batch_size=4)
    with pytest.raises(StoreError, match=r"settings\.dtype"):
        extract(tiny, voices, address, EVERYTHING, batch_size=4, dtype="float16")


def test_another_model_is_not_mixed_in(run, tiny, voices):
    other = load_encoder("tiny")
    other.revision = "sha256:0000"
    with pytest.raises(StoreError, match=r"model\.revision"):
        extract(other, voices, run.store.address, EVERYTHING, batch_size=4)


def test_a_finished_run_is_not_touched(run, tiny, voices):
    before = {p: p.stat().st_mtime_ns for p in run.store.local.rglob("*.safetensors")}
    same(run, extract(tiny, voices, run.store.address, EVERYTHING, batch_size=4))
    assert before == {p: p.stat().st_mtime_ns for p in run.store.local.rglob("*.safetensors")}


def test_a_lost_shard_is_made_again(run, tiny, voices, tmp_path):
    shutil.copytree(run.store.local, tmp_path / "r")
    (tmp_path / "r" / "shards" / "00001.safetensors").unlink()
    same(run, extract(tiny, voices, tmp_path / "r", EVERYTHING, batch_size=4))


def test_broken_files_among_good_ones(tiny, tmp_path):
    root = tmp_path / "clips"
    rng = np.random.default_rng(0)
    for label in "ab":
        (root / label).mkdir(parents=True)
        for i in range(6):
            soundfile.write(root / label / f"{i}.wav", 0.1 * rng.standard_normal(8000), 16000)
    (root / "a" / "2.wav").write_text("no")
    (root / "b" / "0.wav").write_bytes(b"")
    run = extract(tiny, load_dataset(f"folder:{root}"), tmp_path / "r", ("head",), batch_size=4)
    assert run.info["clips"] == {"ok": 10, "errors": 2}
    assert list(run.all_clips[run.all_clips.status == "error"].id) == ["a/2.wav", "b/0.wav"]
    assert run.heads.shape[0] == len(run.clips) == 10
    alone = extract(tiny, load_dataset(f"folder:{root}").only(lambda c: c.id == "b/5.wav", "one"), tmp_path / "one", ("head",))
    assert (run.heads[9] - alone.heads[0]).abs().max() < 1e-5


def test_windows_are_averaged(tmp_path):
    encoder = load_encoder("tiny", crop="windows")
    (tmp_path / "clips" / "x").mkdir(parents=True)
    soundfile.write(tmp_path / "clips" / "x" / "long.wav", 0.1 * np.random.default_rng(0).standard_normal(16000 * 12), 16000)
    data = load_dataset(f"folder:{tmp_path / 'clips'}")
    run = extract(encoder, data, tmp_path / "r", ("head", "moments"))
    features = encoder.prepare(data.clips[0].source).features
    windows = Capture(encoder, ("head",)).run(features, torch.zeros(3, dtype=torch.bool)).arrays["head"]
    assert torch.allclose(run.heads[0], windows.mean(0), atol=1e-5)
    with pytest.raises(ExtractionError, match="one window per clip"):
        extract(encoder, data, tmp_path / "other", ("direct",))


def test_narrow_storage_and_tokens(tiny, voices, tmp_path):
    run = extract(tiny, voices.limited(8), tmp_path / "r", ("head", "tokens"), dtype="float16", units="S3B0H9 S0B1H2")
    assert run.heads[:].dtype == torch.float16
    assert run.array("embedding.joint")[:].dtype == torch.float32
    assert run.array("tokens.S0B1H2").shape == (8, 16, 64, 8)
    assert run.array("tokens.S3B0H9").shape == (8, 2, 8, 8)
    assert run.info["settings"]["token_units"] == ["S0B1H2", "S3B0H9"], "in the order of computation, however they were named"
    with pytest.raises(SelectionError, match="only head can be used"):
        extract(tiny, voices.limited(8), tmp_path / "other", ("tokens",), units="S3 mlps")


def test_a_remote_store(tiny, voices, tmp_path):
    """An fsspec address: here a directory through its URL, which takes the very same road as a bucket."""
    import fsspec

    class Remote(fsspec.implementations.local.LocalFileSystem):
        protocol = "pretend"

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(str(path).removeprefix("pretend://"))

    fsspec.register_implementation("pretend", Remote, clobber=True)
    run = extract(tiny, voices.limited(16), f"pretend://{tmp_path}/r", ("head",), batch_size=4)
    assert run.store.local is None
    assert run.heads.shape == (16, 184, 8)
    here = extract(tiny, voices.limited(16), tmp_path / "here", ("head",), batch_size=4)
    assert torch.equal(run.heads[:], here.heads[:])


def test_words_for_what_makes_no_sense(tiny, voices, tmp_path):
    with pytest.raises(ExtractionError, match="one or more of head, mlp"):
        extract(tiny, voices, tmp_path / "r", ("layer",))
    with pytest.raises(ExtractionError, match="goes with the heads"):
        extract(tiny, voices, tmp_path / "r", ("tokens",))
    with pytest.raises(ExtractionError, match="one of local, ray"):
        extract(tiny, voices, tmp_path / "r", ("head",), engine="spark")
    with pytest.raises(StoreError, match=r"no run\.json"):
        Run.open(tmp_path / "nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match="not empty"):
        extract(tiny, voices, tmp_path / "full", ("head",))
    with pytest.raises(KeyError, match="has no 'head'"):
        extract(tiny, voices.limited(4), tmp_path / "e", ("embedding",)).heads  # noqa: B018


def test_the_command(tmp_path):
    root = tmp_path / "clips" / "x"
    root.mkdir(parents=True)
    for i in range(3):
        soundfile.write(root / f"{i}.wav", 0.1 * np.random.default_rng(i).standard_normal(8000), 16000)
    (root / "bad.wav").write_text("no")
    program = os.path.join(os.path.dirname(sys.executable), "residual-audio")
    command = [program, "extract", "tiny", f"folder:{root.parent}", "--out", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "3 clips" in done.stdout
    assert "1 of 4 clips could not be read" in done.stderr
    assert "bad.wav" in done.stderr.replace("\n", "")
    assert subprocess.run([*command, "--strict"], capture_output=True).returncode == 1
    info = json.loads((tmp_path / "r" / "run.json").read_text())
    assert info["status"] == "complete"
    assert info["versions"]["torch"] == torch.__version__.split("+")[0] or info["versions"]["torch"] == torch.__version__
    assert pd.read_parquet(tmp_path / "r" / "clips.parquet").status.tolist().count("ok") == 3
    refused = subprocess.run([*command, "--batch-size", "2"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "settings.batch_size" in refused.stderr
