"""A run opens its own encoder again, from its folder alone; or says what differs and what to do."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from residual_audio.adaptation.adapter import save_adapter
from residual_audio.adaptation.fold import fold
from residual_audio.data import make_dataset
from residual_audio.data.clip import Clip
from residual_audio.extraction import Run, extract
from residual_audio.extraction.engines import ray as engine
from residual_audio.models import EncoderError, load_encoder
from tests.helpers.gains import made_up
from tests.helpers.layouts import ALL, clip_files, open_layout

# Every layout as it is, and with options that change what it does.
CASES = [
    *((layout, {}) for layout in ALL),
    ("whisper_dir", {"seconds": 1.2, "pad": "pad"}),
    ("laion_dir", {"crop": "centre", "fast": False}),
    ("fused_dir", {"pad": "pad"}),
    ("ast_dir", {"crop": "windows"}),
]


def dataset_of(files, names=None):
    clips = [Clip(path.name, str(path), "ab"[i % 2]) for i, path in enumerate(files)]
    return make_dataset("files", clips, names=names)


def forget(folder: Path, *keys: str) -> None:
    """As a run was written before these keys existed; then there was no probe either."""
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({k: v for k, v in info.items() if k not in (*keys, "digests")}))
    store = Run.open(folder).store
    store.write_tensors("weights.safetensors", {k: v for k, v in store.read_tensors("weights.safetensors").items() if k != "probe"})


@pytest.mark.parametrize(("layout", "options"), CASES, ids=lambda x: x if isinstance(x, str) else ",".join(x) or "plain")
def test_a_run_of_any_layout_opens_its_encoder(layout, options, request, tmp_path, monkeypatch):
    """Also from another working folder, and where the run does not say how its encoder was loaded."""
    encoder = open_layout(layout, request, **options)
    files = clip_files(encoder, request)[:3]
    extract(encoder, dataset_of(files), tmp_path / "run", ("head",))
    expected = encoder.embed(files)
    monkeypatch.chdir(tmp_path)
    again = Run.open(tmp_path / "run").open_encoder()
    assert torch.equal(again.embed(files), expected)
    assert (again.policy, again.revision) == (encoder.policy, encoder.revision)
    assert again.loading == encoder.loading
    forget(tmp_path / "run", "loading", "class_names")
    before = Run.open(tmp_path / "run")
    derived = before.open_encoder()
    assert torch.allclose(derived.embed(files), expected, atol=1e-6)
    assert before.class_names == {"a": "a", "b": "b"}
    # What was derived is recorded when such a run is resumed, and serves from then on.
    next((tmp_path / "run" / "shards").iterdir()).unlink()
    extract(derived, dataset_of(files), tmp_path / "run", ("head",))
    assert torch.equal(Run.open(tmp_path / "run").open_encoder().embed(files), derived.embed(files))


def test_a_run_keeps_the_names_of_its_classes(sound_files, tmp_path):
    data = dataset_of(sound_files[:3], {"a": "a church bell", "b": "rain"})
    assert extract(load_encoder("tiny"), data, tmp_path / "run", ("head",)).class_names == {"a": "a church bell", "b": "rain"}


@pytest.fixture
def moved(laion_dir, sound_files, tmp_path):
    """A run whose checkpoint lies in a folder of its own."""
    shutil.copytree(laion_dir, tmp_path / "checkpoint")
    encoder = load_encoder(tmp_path / "checkpoint")
    return extract(encoder, dataset_of(sound_files[:3]), tmp_path / "run", ("head",)), tmp_path / "checkpoint"


def test_a_checkpoint_that_is_gone_or_changed(moved, tmp_path, monkeypatch):
    run, checkpoint = moved
    checkpoint.rename(tmp_path / "elsewhere")
    with pytest.raises(EncoderError, match=r"checkpoint, which is not there.*a link will do"):
        run.open_encoder()
    checkpoint.symlink_to(tmp_path / "elsewhere")
    run.open_encoder()
    settings = json.loads((checkpoint / "preprocessor_config.json").read_text())
    (checkpoint / "preprocessor_config.json").write_text(json.dumps({**settings, "frequency_max": 12000}))
    with pytest.raises(EncoderError, match=r"prepares its clips otherwise.*mel\.f_max: 14000.0 → 12000.0.*extract again"):
        run.open_encoder()
    (checkpoint / "preprocessor_config.json").write_text(json.dumps(settings))
    other = load_encoder(checkpoint)
    with torch.no_grad():
        other.module.logit_scale_a.add_(1)
    other.module.save_pretrained(checkpoint)
    with pytest.raises(EncoderError, match=r"is revision sha256:.* here, and sha256:.* where the run was made"):
        run.open_encoder()


def test_a_project_that_moves_as_a_whole_finds_its_checkpoint(laion_dir, sound_files, tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()
    shutil.copytree(laion_dir, tmp_path / "old" / "checkpoint")
    monkeypatch.chdir(tmp_path / "old")
    extract(load_encoder("checkpoint"), dataset_of(sound_files[:2]), "run", ("head",))
    (tmp_path / "old").rename(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    again = Run.open("run").open_encoder()
    assert again.name == "checkpoint"
    assert again.embed(sound_files[:1]).shape == (1, 32)


def test_an_encoder_that_was_changed_in_memory_is_not_taken_for_the_one_on_disk(laion_dir, sound_files, tmp_path):
    """By folding, by hand in a projection that the run keeps, and by hand elsewhere (the probe tells)."""
    encoder, data = load_encoder(laion_dir), dataset_of(sound_files[:2])
    folded = fold(encoder, made_up(encoder, "mlps", "keep"))
    run = extract(folded, data, tmp_path / "folded", ("head",))
    with pytest.raises(EncoderError, match=r"changed in memory and not saved.*encoder\.save"):
        run.open_encoder()
    forget(tmp_path / "folded", "loading")
    with pytest.raises(EncoderError, match=r"folded in memory and not saved"):
        Run.open(tmp_path / "folded").open_encoder()
    saved = load_encoder(folded.save(tmp_path / "saved"))
    again = extract(saved, data, tmp_path / "again", ("head",)).open_encoder()
    assert torch.equal(again.embed(sound_files[:2]), folded.embed(sound_files[:2]))
    for number, name in enumerate((encoder.sites[-1].projection, encoder.sites[-1].module + ".intermediate.dense")):
        touched = load_encoder(laion_dir)
        with torch.no_grad():
            touched.linear(name).weight.mul_(1.5)
        with pytest.raises(EncoderError, match="does not do what the run's encoder did"):
            extract(touched, data, tmp_path / str(number), ("head",)).open_encoder()


def test_runs_from_before_are_resumed_and_completed(sound_files, tmp_path):
    """A run that was begun without these keys is the same run."""
    encoder, data = load_encoder("tiny"), dataset_of(sound_files[:5])
    whole = extract(encoder, data, tmp_path / "run", ("head",), batch_size=1)
    heads = whole.heads[:]
    forget(tmp_path / "run", "loading", "class_names")
    shutil.rmtree(tmp_path / "run" / "shards")
    (tmp_path / "run" / "weights.safetensors").unlink()
    again = extract(encoder, data, tmp_path / "run", ("head",), batch_size=1)
    assert torch.equal(again.heads[:], heads)
    assert {"loading", "class_names"} <= set(again.info)
    again.open_encoder()


def test_actors_open_the_encoder_as_the_run_does(sound_files, tmp_path):
    """Precision and an eager attention come along; what a worker would do otherwise is refused."""
    pytest.importorskip("ray")
    eager = load_encoder("tiny", crop="centre", fast=False)
    eager.module.double()
    data = dataset_of(sound_files[:2])
    run = extract(eager, data, tmp_path / "run", ("head",))
    plan = engine.make_plan(run_settings(run), run.store, [], None, 1, 0)
    encoder = engine.ShardActor(plan, None).writer.encoder
    assert (encoder.policy, encoder.dtype) == (eager.policy, torch.float64)
    assert torch.equal(encoder.embed(sound_files[:2]), eager.embed(sound_files[:2]))
    info = {**run.info, "model": {**run.info["model"], "revision": "other"}}
    with pytest.raises(EncoderError, match="and other where the run was made"):
        replace(run, info=info).open_encoder()


def run_settings(run):
    from residual_audio.extraction import Settings

    return Settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in run.info["settings"].items()})


@pytest.mark.parametrize(("umask", "readable"), [(0o022, True), (0o077, False)])
def test_files_have_the_permissions_that_the_umask_gives(umask, readable, request, sound_files, tmp_path):
    laion_dir, *others = (request.getfixturevalue(layout) for layout in ("laion_dir", "msclap_path", "whisper_dir", "clip_dir"))
    before = os.umask(umask)
    try:
        encoder = load_encoder(laion_dir)
        extract(encoder, dataset_of(sound_files[:2]), tmp_path / "run", ("head", "moments"))
        residual = made_up(encoder, "S3 heads", "keep")
        save_adapter(tmp_path / "adapter", encoder, residual)
        save_adapter(tmp_path / "adapter", encoder, residual, replace=True)
        fold(encoder, residual).save(tmp_path / "folded")
        for path in others:
            load_encoder(path).save(tmp_path / path.name)
    finally:
        os.umask(before)
    written = [p for p in tmp_path.rglob("*") if p.name != ".lock"]
    assert len([p for p in written if p.is_file()]) > 20
    for path in written:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == ((0o055 if path.is_dir() else 0o044) if readable else 0), f"{path} has mode {mode:o}"
