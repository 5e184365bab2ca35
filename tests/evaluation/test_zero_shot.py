"""Classification of a dataset end to end on real files, and the folder that it leaves."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch
from sklearn.neighbors import NearestCentroid

from residual_audio.data import load_dataset
from residual_audio.data.prompts import TEMPLATES, fill, templates
from residual_audio.evaluation import CLASSIFIERS, EvaluationError, centroid_directions, prompt_directions, zero_shot
from residual_audio.evaluation.folds import with_folds
from residual_audio.models import load_encoder


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two easy classes as real files, a broken one among them."""
    root = tmp_path_factory.mktemp("mine")
    rng = np.random.default_rng(0)
    t = np.arange(16000) / 16000
    for i in range(6):
        (root / "pure tone").mkdir(exist_ok=True)
        (root / "white noise").mkdir(exist_ok=True)
        soundfile.write(root / "pure tone" / f"{i}.wav", 0.4 * np.sin(2 * np.pi * rng.uniform(300, 1500) * t), 16000)
        soundfile.write(root / "white noise" / f"{i}.flac", 0.2 * rng.standard_normal(16000), 16000)
    (root / "white noise" / "broken.wav").write_text("not audio")
    return root


def test_own_files_are_classified_and_the_broken_one_is_listed(tiny, folder):
    result = zero_shot(tiny, load_dataset(f"folder:{folder}"))
    assert len(result.dataset) == 12
    assert list(result.errors) == ["white noise/broken.wav"]
    assert result.summary()["top1"].value >= 0.9
    table = result.per_class()
    assert list(table.label) == ["pure tone", "white noise"]
    assert table.clips.tolist() == [6, 6]
    assert (table.high - table.low > 0.3).all(), "six clips that are all right do not make certainty"
    assert result.confusion().to_numpy().sum() == 12


def test_tiny_knows_its_source_classes_and_finds_the_targets_hard(tiny):
    """The promise of the embedded model, on clips that its training never drew."""
    source = zero_shot(tiny, load_dataset("synthetic", per_class=4)).summary()["top1"]
    assert source.value > 0.8
    for name in ("synthetic-timbre", "synthetic-voice"):
        data = load_dataset(name, per_class=12)
        target = zero_shot(tiny, data).summary()["top1"]
        assert 1.5 / len(data.labels) < target.value < 0.85


def test_prompts_are_averaged_as_directions(tiny):
    names = ["bell", "rain"]
    ours = prompt_directions(tiny, names, TEMPLATES["ensemble"])
    for row, name in zip(ours, names, strict=True):
        mean = torch.stack([tiny.embed_text([t.format(name)])[0] for t in TEMPLATES["ensemble"]]).mean(0)
        assert torch.allclose(row, mean / mean.norm(), atol=1e-5)


def test_templates():
    assert templates("a {} sound") == ("a {} sound",)
    assert fill(("{}", "the {}"), ["dog"]) == [["dog", "the dog"]]
    with pytest.raises(ValueError, match="one of sound-of"):
        templates("nonsense")


def test_centroids_equal_scikit_learn():
    rng = np.random.default_rng(0)
    x = torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((60, 8)) + 2 * np.eye(8)[np.arange(60) % 3]), dim=-1)
    y = torch.arange(60) % 3
    theirs = NearestCentroid().fit(x.numpy(), y.numpy()).centroids_
    theirs = theirs / np.linalg.norm(theirs, axis=1, keepdims=True)
    assert np.allclose(centroid_directions(x, y, 3).numpy(), theirs)


def test_no_clip_helps_to_classify_itself():
    """With labels that mean nothing, centroids of the other folds are at chance; centroids of all clips would not be."""
    data = with_folds(load_dataset("synthetic-voice", per_class=30), "stratified")
    x = torch.randn(len(data), 300)
    accuracy = CLASSIFIERS["centroids"].fit_folds(x, data).scores(x).argmax(1).eq(torch.from_numpy(data.targets)).float().mean()
    cheating = (torch.nn.functional.normalize(x, dim=-1) @ centroid_directions(x, torch.from_numpy(data.targets), 8).T).argmax(1)
    assert accuracy < 0.22
    assert cheating.eq(torch.from_numpy(data.targets)).float().mean() > 0.5


def test_an_encoder_without_text_uses_centroids(whisper_dir, folder):
    encoder = load_encoder(whisper_dir, seconds=1.0)
    result = zero_shot(encoder, load_dataset(f"folder:{folder}"))
    assert result.classifier == "centroids"
    assert result.scores.shape == (12, 2)
    assert len(result.per_fold()) == 5


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_scores_a_dataset_and_says_so(tiny, name):
    data = load_dataset("synthetic-voice", per_class=5)
    result = zero_shot(tiny, data, classifier=name)
    assert result.classifier == result.info["settings"]["classifier"] == name
    assert ("template" in result.info["settings"]) == (CLASSIFIERS[name].texts != "none")
    embeddings = tiny.embed([c.source for c in data.clips])
    directions = prompt_directions(tiny, [data.names[x] for x in data.labels], TEMPLATES["sound-of"])
    expected = CLASSIFIERS[name].fit_folds(embeddings, data, directions, tiny.logit_scale).scores(embeddings)
    torch.testing.assert_close(result.scores, expected)


def test_the_result_writes_itself(tiny, folder, tmp_path):
    """Everything that the command line writes, from Python."""
    result = zero_shot(tiny, load_dataset(f"folder:{folder}"), template="laion")
    assert result.write(tmp_path / "out") == tmp_path / "out"
    for name, table in result.tables.items():
        stored = pd.read_parquet(tmp_path / "out" / "tables" / f"{name}.parquet")
        pd.testing.assert_frame_equal(stored, table.reset_index() if table.index.name else table)
    assert set(result.tables) == {"classes", "confusion", "folds"}
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["settings"] | {"template": "laion", "classifier": "prompts", "folds": "official", "seed": 0} == record["settings"]
    assert record["clips"] == {"used": 12, "errors": 1}
    assert record["errors"] == result.errors
    assert record["result"]["top1"]["value"] == result.summary()["top1"].value
    clips = pd.read_parquet(tmp_path / "out" / "clips.parquet")
    assert clips.group.tolist() == clips.id.tolist(), "every clip stands for itself"
    assert clips[clips.status == "error"].id.tolist() == ["white noise/broken.wav"]


def test_a_template_that_nobody_reads_is_refused_before_anything_runs(tiny, whisper_dir, folder):
    data = load_dataset(f"folder:{folder}")
    for encoder, name in ((tiny, "centroids"), (load_encoder(whisper_dir, seconds=1.0), "auto")):
        with pytest.raises(EvaluationError, match=r"--template 'laion'.*reads no prompts"):
            zero_shot(encoder, data, classifier=name, template="laion", advance=lambda n: pytest.fail("a clip was read"))


def test_when_nothing_can_be_read(tiny, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.wav").write_text("no")
    with pytest.raises(EvaluationError, match="none of 1 clips"):
        zero_shot(tiny, load_dataset(f"folder:{tmp_path}"))


def test_folds_are_kept_or_made():
    data = load_dataset("synthetic-voice", per_class=10)
    assert with_folds(data, "official") is data
    bare = replace(data, clips=tuple(replace(c, fold=-1) for c in data.clips), folds="none")
    made = with_folds(bare, "official")
    assert made.folds == "stratified"
    assert sorted({c.fold for c in made.clips}) == [1, 2, 3, 4, 5]
    with pytest.raises(EvaluationError, match="one of official, stratified"):
        with_folds(data, "random")


def test_made_folds_keep_a_speaker_together():
    data = load_dataset("synthetic-voice", per_class=40)
    clips = tuple(replace(c, fold=-1, group=f"speaker {i // 4}") for i, c in enumerate(data.clips))
    made = with_folds(replace(data, clips=clips, folds="official-split"), "official")
    assert len({c.fold for c in made.clips}) == 5
    assert all(len({c.fold for c in made.clips if c.group == f"speaker {i}"}) == 1 for i in range(80))
    loose = with_folds(replace(data, clips=clips, folds="official-split"), "stratified")
    assert any(len({c.fold for c in loose.clips if c.group == f"speaker {i}"}) > 1 for i in range(80))


def test_a_fold_may_be_numbered_zero(tiny):
    """TinySOL's official folds are 0 to 4; a clip without a fold (−1) belongs to none."""
    data = load_dataset("synthetic-voice", per_class=3)
    numbers = [0, 1, -1] * 8
    data = replace(data, clips=tuple(replace(c, fold=f) for c, f in zip(data.clips, numbers, strict=True)), folds="official")
    result = zero_shot(tiny, data)
    table = result.per_fold()
    assert table.fold.tolist() == [0, 1]
    assert table.clips.tolist() == [8, 8]
    for fold, accuracy in zip(table.fold, table.accuracy, strict=True):
        assert accuracy == result.outcome.correct[np.array(numbers) == fold].mean()


def test_real_whisper_on_real_recordings(shared):
    """The encoder of Whisper tiny.en on ten classes of ESC-50: far above chance, official folds, no text side."""
    weights, recordings = shared / "models" / "whisper-tiny.en-encoder", shared / "data" / "esc50"
    if not (weights.is_dir() and recordings.is_dir()):
        pytest.skip("no Whisper weights or no ESC-50 beside the project")
    data = load_dataset("esc10", root=recordings).limited(100)
    result = zero_shot(load_encoder(weights, seconds=5), data)
    assert result.classifier == "centroids"
    assert not result.errors
    assert result.summary()["top1"].value > 0.5
