"""Adapters and checkpoints go to a hub and come back: huggingface_hub's real client against a server on this machine."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.repocard_data import model_index_to_eval_results
from huggingface_hub.utils import validate_repo_id

import residual_audio as ra
from residual_audio.adaptation.adapter import load_adapter, save_adapter
from residual_audio.adaptation.card import adapter_card, base_model, folded_card, licence_of
from residual_audio.adaptation.fold import fold
from residual_audio.adaptation.hub import HubError, kind_of, push
from residual_audio.models import load_encoder
from tests.helpers.gains import made_up
from tests.helpers.hub import running_hub

# Several commands in one process, since its imports take longer than they do; a process each for what is read when they are imported.
RUN = """
import contextlib, io, json, os, sys
from residual_audio.cli import main
told = []
for words, more in json.loads(sys.argv[1]):
    os.environ |= more
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["residual-audio", *words]
    from residual_audio.cli import screen
    screen.console.file, screen.errors.file = out, err
    try:
        main()
    except SystemExit as end:
        told.append((end.code, out.getvalue(), " ".join(err.getvalue().split())))
print(json.dumps(told))
"""
HELD = {"clips": 48, "accuracy": {"plain": [0.4, 0.3, 0.5], "linear probe": [0.5, None, None], "residual": [0.6, 0.5, 0.7]}}


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def residual(encoder):
    notes = {"method": "residual", "dataset": "notes", "held": HELD, "template": "sound-of"}
    return replace(made_up(encoder, "S3B1 heads", "keep"), notes=notes)


def run(hub, home, *commands, **more):
    """Commands in a fresh process, since the address of the hub is read on import; a dictionary among the words changes the environment."""
    env = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_TOKEN": "hf_test", "HF_HUB_OFFLINE": "0"}
    env |= {"HF_HUB_DISABLE_XET": "1", **more}
    work = json.dumps([([str(w) for w in c if not isinstance(w, dict)], next((w for w in c if isinstance(w, dict)), {})) for c in commands])
    done = subprocess.run([sys.executable, "-c", RUN, work], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_adapters_and_checkpoints_go_to_the_hub_and_come_back(encoder, residual, tmp_path):
    folded = fold(encoder, residual)
    adapter, checkpoint = save_adapter(tmp_path / "adapter", encoder, residual), folded.save(tmp_path / "folded")
    for folder in (adapter, checkpoint):
        (folder / "secret.env").write_text("not part of it")
    with running_hub() as hub:
        pushed, *others = run(
            hub,
            tmp_path / "home",
            ("push", adapter, "me/gains", "--license", "cc-by-4.0", "--private"),
            ("push", checkpoint, "me/folded"),
            ("pull", "me/gains", "--out", tmp_path / "gains"),
            ("pull", "me/folded", "--out", tmp_path / "whole"),
            ("pull", "me/nothing", "--out", tmp_path / "none"),
            ("push", adapter, "me/gains", {"HF_TOKEN": ""}),
        )
        assert hub.created == [("me/gains", True), ("me/folded", False)]
        assert {t for t in hub.tokens if t is not None} == {"Bearer hf_test"}
    assert "me/gains/commit" in pushed[1], pushed
    assert [code for code, _, _ in others] == [0, 0, 0, 2, 2], others
    assert "not found, or not yours" in others[3][2]
    assert "set HF_TOKEN" in others[4][2]
    assert not (tmp_path / "none").exists()
    assert sorted(hub.files["me/gains"]) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    assert ModelCard(hub.files["me/gains"]["README.md"].decode()).data.license == "cc-by-4.0"
    again = load_adapter(tmp_path / "gains", encoder)
    assert all(torch.equal(a.values, b.values) for a, b in zip(again.sets, residual.sets, strict=True))
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json", "preprocessor_config.json"} <= set(hub.files["me/folded"])
    assert "secret.env" not in hub.files["me/folded"]
    torch.testing.assert_close(load_encoder(tmp_path / "whole").probe(), folded.probe())
    # The hub is gone, and is not asked: what was pulled before is in the cache.
    first, second, third = run(
        hub,
        tmp_path / "home",
        ("pull", "me/gains", "--out", tmp_path / "offline"),
        ("pull", "me/other", "--out", tmp_path / "none"),
        ("push", adapter, "me/gains"),
        HF_HUB_OFFLINE="1",
    )
    assert (first[0], second[0], third[0]) == (0, 2, 2), (first, second, third)
    assert (tmp_path / "offline" / "adapter_model.safetensors").read_bytes() == hub.files["me/gains"]["adapter_model.safetensors"]
    assert "not in the cache" in second[2]
    assert "unset HF_HUB_OFFLINE" in third[2]


@pytest.mark.parametrize("make", [adapter_card, folded_card])
def test_the_hub_can_read_a_card(encoder, residual, make, tmp_path):
    """Read back by huggingface_hub with every field of the types that its documentation names, and results that are results."""
    (tmp_path / "README.md").write_text(make(encoder, residual))
    card = ModelCard.load(tmp_path / "README.md")
    data = card.data
    assert isinstance(data, ModelCardData)
    assert not {"base_model", "base_model_relation"} & set(data.to_dict()), "no repository is called tiny"
    assert f"- base model: tiny, which comes with residual-audio, revision {encoder.revision}" in card.text
    assert re.fullmatch(r"[a-z0-9.-]+", data.license)
    assert data.license == "mit", "that of the base model's own card"
    assert all(isinstance(tag, str) for tag in data.tags)
    assert data.metrics == ["accuracy"]
    name, results = model_index_to_eval_results(data.to_dict()["model-index"])
    assert name == "ResiDual for tiny"
    (result,) = results
    assert (result.task_type, result.dataset_type, result.metric_type) == ("audio-classification", "notes", "accuracy")
    assert result.metric_value == 0.6
    assert (result.metric_args["interval_low"], result.metric_args["interval_high"], result.metric_args["level"]) == (0.5, 0.7, 0.95)
    assert "| residual | 60.0 [50.0, 70.0] |" in card.text
    assert "| linear probe | 50.0 [–, –] |" in card.text
    folded = make is folded_card
    assert data.library_name == ("transformers" if folded else "residual-audio")
    assert ("ClapModel.from_pretrained" in card.text) == folded


@pytest.mark.parametrize("make", [adapter_card, folded_card])
def test_a_card_names_a_base_model_that_the_hub_has(encoder, residual, make, monkeypatch):
    monkeypatch.setattr(encoder, "name", f"laion/clap-htsat-unfused@{'a' * 40}")
    data = ModelCard(make(encoder, residual)).data
    validate_repo_id(data.base_model)
    assert data.base_model == "laion/clap-htsat-unfused"
    assert data.base_model_relation == ("finetune" if make is folded_card else "adapter")
    # A file that opens by its own name is of a repository with another one.
    monkeypatch.setattr(encoder, "name", "630k-best.pt")
    assert ModelCard(make(encoder, residual)).data.base_model is None
    monkeypatch.setattr(encoder, "repository", "lukewys/laion_clap")
    assert ModelCard(make(encoder, residual)).data.base_model == "lukewys/laion_clap"


def test_a_card_tells_nothing_of_the_machine(laion_dir, tmp_path):
    """Base models and datasets that lie on a disk are called by their last name, and are not given out as repositories."""
    encoder = load_encoder(laion_dir)
    data = tmp_path / "my sounds"
    data.mkdir()
    residual = replace(made_up(encoder, "S3 heads", "keep"), notes={"method": "residual", "dataset": str(data), "held": HELD})
    for card in (adapter_card(encoder, residual), folded_card(encoder, residual)):
        assert str(tmp_path) not in card
        assert str(laion_dir.parent) not in card
        meta = ModelCard(card).data
        assert meta.base_model is None
        assert meta.license == "unknown"
        assert meta.eval_results[0].dataset_type == "my-sounds"
    assert base_model(load_encoder("tiny")) is None


def test_a_folder_of_the_working_directory_is_no_repository(laion_dir, tmp_path, monkeypatch):
    (tmp_path / "me").mkdir()
    (tmp_path / "me" / "model").symlink_to(laion_dir)
    monkeypatch.chdir(tmp_path)
    assert base_model(load_encoder("me/model")) is None


def test_licences_come_from_the_base_models_card(laion_dir, tmp_path):
    home = shutil.copytree(laion_dir, tmp_path / "model")
    encoder = load_encoder(home)
    assert licence_of(encoder) == "unknown"
    (home / "README.md").write_text("---\nlicense: apache-2.0\n---\n# a model\n")
    assert licence_of(encoder) == "apache-2.0"
    (home / "README.md").write_text("# no licence\n")
    assert licence_of(encoder) == "unknown"


@pytest.mark.parametrize("file", ["laion_path", "msclap_path"])
def test_a_readme_beside_a_single_file_is_about_something_else(file, request, tmp_path):
    path = request.getfixturevalue(file)
    shutil.copytree(path.parent, tmp_path / "downloads")
    (tmp_path / "downloads" / "README.md").write_text("---\nlicense: apache-2.0\n---\n# my downloads\n")
    encoder = load_encoder(tmp_path / "downloads" / path.name)
    assert licence_of(encoder) == "unknown"
    assert base_model(encoder) is None


def test_what_is_no_model_is_not_uploaded(tmp_path):
    with pytest.raises(HubError, match="no such directory"):
        push(tmp_path / "nothing", "me/x")
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(HubError, match="neither an adapter"):
        kind_of(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(HubError, match="there already"):
        ra.pull("me/x", tmp_path / "full")
