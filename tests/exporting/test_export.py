"""An exported file does what the model does, says what it is, and is not left behind where it is not close enough."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import residual_audio as ra
from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.fold import fold
from residual_audio.data import Clip, make_dataset
from residual_audio.evaluation.retrieval import retrieve
from residual_audio.exporting import check
from residual_audio.exporting.check import ExportError
from residual_audio.exporting.export import export, recorded_of
from residual_audio.extraction import Run, extract
from residual_audio.lazy import MissingExtra
from residual_audio.models import EncoderError, load_encoder
from residual_audio.models.engines.onnx import pruned
from residual_audio.options import OptionError
from tests.helpers.gains import made_up

CLOSE = 1e-4
RECORD = ("head", "mlp", "block", "stage", "moments", "embedding")


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference in units of the largest number."""
    return float((a - b).abs().max() / a.abs().max())


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def clips(sound_files):
    rows = [
        Clip(id=p.name, path=str(p), label="low" if i % 2 else "high", fold=1, captions=(f"a tone {i}",)) for i, p in enumerate(sound_files)
    ]
    return make_dataset("tones", rows)


@pytest.fixture(scope="module")
def written(tmp_path_factory, tiny):
    """`tiny` as ONNX with everything that can be recorded."""
    return ra.export(tiny, tmp_path_factory.mktemp("onnx") / "tiny.onnx", record=RECORD, check_clips=ra.load_dataset("notes").limited(4))


@pytest.fixture(scope="module")
def opened(written):
    return load_encoder(written.path)


@pytest.fixture(scope="module")
def small_openvino(tmp_path_factory, whisper_dir):
    """A small Whisper through OpenVINO."""
    live = load_encoder(whisper_dir)
    made = export(
        live, tmp_path_factory.mktemp("ov") / "whisper.xml", "openvino", record=RECORD, check_clips=ra.load_dataset("notes").limited(4)
    )
    return live, made


def test_one_file_and_its_text_side_say_what_they_are(written, tiny, opened):
    assert [p.name for p in (written.path, *written.others)] == ["tiny.onnx", "tiny.text.onnx"]
    assert sorted(written.path.parent.iterdir()) == sorted((written.path, *written.others))
    sheet = opened.sheet
    assert sheet["policy_hash"] == tiny.policy.hash
    assert sheet["model"] == {"name": "tiny", "revision": tiny.revision}
    assert (opened.units, opened.sites, opened.stages, opened.dim) == (tiny.units, tiny.sites, tiny.stages, tiny.dim)
    assert sheet["check"]["clips"] == 4
    assert max(sheet["check"]["errors"].values()) == max(written.agreement.errors.values()) <= CLOSE
    assert set(sheet["check"]["errors"]) >= {"embedding.joint", "head", "mlp.0", "block.1", "stage.2", "moments.second"}
    assert {o.name for o in written.path.parent.iterdir()} == {"tiny.onnx", "tiny.text.onnx"}


def test_clips_and_texts_embed_alike(tiny, opened, sound_files):
    """Also in batches of other sizes than any that export saw."""
    for size in (1, 2, 7):
        assert apart(tiny.embed(sound_files, batch_size=size), opened.embed(sound_files, batch_size=size)) <= CLOSE
    texts = ["a dog", "rain on a tin roof, and thunder far away " * 20, ""]
    assert apart(tiny.embed_text(texts), opened.embed_text(texts)) <= CLOSE
    assert opened.logit_scale == tiny.logit_scale


def test_a_run_of_the_file_holds_what_a_run_of_the_model_does(tiny, opened, clips, tmp_path):
    """Every array, moments and kept weights, contributions that are derived from them; and the run opens its file again."""
    runs = [extract(e, clips, tmp_path / name, RECORD, batch_size=3) for name, e in (("live", tiny), ("exported", opened))]
    assert set(runs[0].keys) == set(runs[1].keys)
    for key in runs[0].keys:
        assert apart(runs[0].array(key)[:], runs[1].array(key)[:]) <= CLOSE, key
    for level in ("tokens", "clips"):
        ours, theirs = (run.moments(level) for run in runs)
        assert torch.equal(ours.count, theirs.count)
        assert apart(ours.total, theirs.total) <= CLOSE
        assert apart(ours.second, theirs.second) <= CLOSE
    weights = [{k: v for k, v in run.weights.items() if k != "probe"} for run in runs]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(v, weights[1][k]) for k, v in weights[0].items())
    again = Run.open(tmp_path / "exported").open_encoder()
    assert torch.equal(again.probe(), opened.probe())


def test_what_is_not_asked_for_is_not_computed(opened):
    nodes = [len(pruned(opened.graph.model, names).graph.node) for names in (["embedding.joint"], list(opened.graph.outputs))]
    assert nodes[1] == len(opened.graph.model.graph.node) > nodes[0] + len(opened.sites)


def test_zero_shot_and_retrieval(tiny, opened, clips):
    scores = [ra.zero_shot(e, clips) for e in (tiny, opened)]
    pd.testing.assert_frame_equal(scores[0].confusion(), scores[1].confusion())
    found = [retrieve(e, clips).tables["retrieval"].value for e in (tiny, opened)]
    assert np.allclose(found[0], found[1])


def test_what_needs_the_network_is_refused_in_one_line(opened, clips, tmp_path):
    for granularity in ("direct", "attention"):
        with pytest.raises(EncoderError, match=f"^{opened.name}: {granularity} cannot be had of this exported file"):
            extract(opened, clips, tmp_path / granularity, (granularity,))
    for reach in (
        lambda: ra.ablate(opened, clips),
        lambda: fold(opened, made_up(opened, "S3 heads", "keep")),
        lambda: attached(opened, made_up(opened, "S3 heads", "keep")).__enter__(),
        lambda: opened.save(tmp_path / "saved"),
        lambda: opened.run_block(opened.sites[0], torch.zeros(1, 4, 4)),
    ):
        with pytest.raises(EncoderError, match="exported file") as told:
            reach()
        assert "\n" not in str(told.value)
    with pytest.raises(EncoderError, match="exported file already"):
        export(opened, tmp_path / "again.onnx")
    with pytest.raises(EncoderError, match="run on the CPU"):
        load_encoder(opened.loading.source, "meta")
    with pytest.raises(OptionError, match="window of one length"):
        load_encoder(opened.loading.source, seconds=5)


def test_openvino_records_the_same(small_openvino, clips, tmp_path):
    live, made = small_openvino
    opened = load_encoder(made.path)
    assert [p.name for p in (made.path, *made.others)] == ["whisper.xml", "whisper.bin"]
    runs = [extract(e, clips, tmp_path / name, RECORD, batch_size=3) for name, e in (("live", live), ("exported", opened))]
    assert set(runs[0].keys) == set(runs[1].keys)
    assert all(apart(runs[0].array(key)[:], runs[1].array(key)[:]) <= CLOSE for key in runs[0].keys)
    assert apart(runs[0].moments("tokens").second, runs[1].moments("tokens").second) <= CLOSE
    with pytest.raises(EncoderError, match="no text side"):
        opened.embed_text(["a dog"])


def test_gains_are_folded_into_what_is_exported(whisper_dir, sound_files, tmp_path):
    live = load_encoder(whisper_dir)
    residual = made_up(live, "last heads mlps", "keep")
    made = export(fold(live, residual), tmp_path / "gains.onnx", record=("embedding",), check_clips=ra.load_dataset("notes").limited(2))
    with attached(live, residual.to(live.device, live.dtype)):
        wanted = live.embed(sound_files)
    opened = load_encoder(made.path)
    assert apart(wanted, opened.embed(sound_files)) <= CLOSE
    assert apart(live.embed(sound_files), opened.embed(sound_files)) > 100 * CLOSE


def test_microsofts_text_side_goes_along(msclap_path, tmp_path, sound_files):
    live = load_encoder(msclap_path)
    made = export(live, tmp_path / "ms.onnx", record=("embedding",), check_clips=ra.load_dataset("notes").limited(2))
    opened = load_encoder(made.path)
    texts = ["a dog", "the long and slow ringing of church bells " * 30]
    assert apart(live.embed_text(texts), opened.embed_text(texts)) <= CLOSE
    assert apart(live.embed(sound_files), opened.embed(sound_files)) <= CLOSE
    assert torch.equal(opened.filters, live.filters)


def test_the_precision_of_a_file_is_its_own(written, opened):
    assert opened.precision == load_encoder(written.path, precision="auto").precision == "float32"
    with pytest.raises(OptionError, match=r"--precision bf16: .*tiny.onnx was exported in float32; leave it out, or export it in bf16"):
        load_encoder(written.path, precision="bf16")


def test_int8_that_loses_too_much_is_not_left_behind(whisper_dir, sound_files, tmp_path):
    live, notes = load_encoder(whisper_dir), ra.load_dataset("notes").limited(3)
    with pytest.raises(ExportError, match="lowest cosine"):
        export(live, tmp_path / "w.onnx", precision="int8", record=("embedding",), check_clips=notes, least_cosine=1.0)
    assert list(tmp_path.iterdir()) == []
    made = export(live, tmp_path / "w.onnx", precision="int8", record=("embedding",), check_clips=notes)
    assert made.agreement.cosine >= check.BOUNDS["int8"].cosine
    assert load_encoder(made.path).precision == "int8"
    quantised = load_encoder(made.path)
    assert quantised.precision == "int8"
    run = extract(quantised, notes, tmp_path / "run", ("embedding",))
    assert torch.equal(run.open_encoder().probe(), quantised.probe())
    for other in ("bf16", "float32"):
        with pytest.raises(OptionError, match="was exported in int8"):
            load_encoder(made.path, precision=other)
    assert 1e-5 < apart(live.embed(sound_files), quantised.embed(sound_files)) < 0.2
    assert (live.embed(sound_files) * quantised.embed(sound_files)).sum(-1).min() > 0.98


def test_bounds_tell_what_is_broken():
    good = check.Agreement(3, {"head": 1e-6}, 0.9999, (0.5, 0.5), 1e-7)
    assert all(good.broken(bounds) == "" for bounds in check.BOUNDS.values())
    far = check.Agreement(3, {"head": 1e-3, "stage.0": 1e-6}, 0.98, (0.5, 0.4), 1e-7)
    assert "head differs by 1.0e-03" in far.broken(check.BOUNDS["float32"])
    assert "0.9800" in far.broken(check.BOUNDS["int8"])
    fallen = check.Agreement(40, {"head": 1e-3}, 0.999, (0.5, 0.45), 1e-7)
    assert "accuracy falls from 50.0 to 45.0" in fallen.broken(check.BOUNDS["int8"])
    assert check.Agreement(40, {"head": 1e-3}, 0.999, (0.5, 0.475), 1e-7).broken(check.BOUNDS["int8"]) == ""  # one clip of forty
    assert "texts differ" in check.Agreement(3, {"head": 0.0}, 1.0, None, 1e-3).broken(check.BOUNDS["int8"])
    nan = check.Agreement(3, {"head": float("inf")}, float("nan"))
    assert nan.broken(check.BOUNDS["float32"])
    assert nan.broken(check.BOUNDS["int8"])


def test_places_and_words_that_make_no_sense(whisper_dir, tmp_path, monkeypatch):
    live = load_encoder(whisper_dir)
    for options, words in (
        ({"out": "model.xml"}, "ends in .onnx"),
        ({"out": "model.onnx", "format": "openvino"}, "ends in .xml"),
        ({"out": "a.text.onnx"}, "text sides are called"),
        ({"out": "a.onnx", "precision": "bf16"}, "bf16 is of --format openvino"),
        ({"out": "a.onnx", "precision": "int4"}, "unknown precision"),
        ({"out": "a.onnx", "record": ("tokens",)}, "--record tokens: cannot be exported"),
        ({"out": "a.onnx", "least_cosine": 0.9}, "--least-cosine is read by"),
    ):
        with pytest.raises(OptionError, match=words):
            export(live, **{**options, "out": tmp_path / options["out"]})
    (tmp_path / "there.onnx").touch()
    with pytest.raises(OptionError, match="there already"):
        export(live, tmp_path / "there.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["there.onnx"]
    assert recorded_of(["moments"]) == ("head", "embedding", "moments")
    monkeypatch.setattr("residual_audio.lazy.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'pip install "residual-audio\[onnx\]"'):
        export(live, tmp_path / "a.onnx")


def test_fusion_is_refused(fused_dir, tmp_path):
    with pytest.raises(ExportError, match="feature fusion"):
        export(load_encoder(fused_dir), tmp_path / "fused.onnx")


def test_real_recordings(shared: Path, tiny, opened):
    """Recorded notes and sounds that are not in the package."""
    files = [path for name in ("nsynth", "esc50") for path in sorted((shared / "data" / name).rglob("*.ogg"))[:4]]
    assert len(files) == 8
    live = tiny.embed(files)
    assert apart(live, opened.embed(files)) <= CLOSE


def test_the_command(command, whisper_dir, tmp_path, capsys):
    assert command("export", whisper_dir, "--out", tmp_path / "w.onnx", "--record", "head", "--check-clips", "notes", "--limit", "3") == 0
    told = capsys.readouterr().out
    assert "w.onnx" in told
    assert "on 3 clips: largest difference" in told
    assert command("extract", tmp_path / "w.onnx", "notes", "--limit", "10", "--out", tmp_path / "run", "--granularity", "head") == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["model"]["name"] == str(tmp_path / "w.onnx")
    capsys.readouterr()
    assert command("extract", tmp_path / "w.onnx", "notes", "--limit", "10", "--out", tmp_path / "other", "--granularity", "block") == 2
    assert "error:" in capsys.readouterr().err
    assert command("export", whisper_dir, "--out", tmp_path / "v.onnx", "--limit", "3") == 2
    assert "--check-clips" in capsys.readouterr().err
