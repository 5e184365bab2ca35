"""Ablation studies against the slow way, and what becomes of them when something goes wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch
from scipy import stats

from residual_audio.ablation import ablate
from residual_audio.ablation.study import parts_folder
from residual_audio.analysis.simultaneous import simultaneous_means
from residual_audio.cli import main
from residual_audio.data import DataError, load_dataset
from residual_audio.evaluation import CLASSIFIERS, EvaluationError, mean_interval
from residual_audio.evaluation.classifiers import class_directions
from residual_audio.evaluation.metrics import margins
from residual_audio.extraction import StoreError
from residual_audio.models import load_encoder
from residual_audio.models.recording import record
from residual_audio.units import SelectionError, Unit

DROPS = [f"{name}_{what}" for name in ("accuracy", "margin") for what in ("drop", "low", "high", "all_low", "all_high", "all_p")]
COLUMNS = ["label", "kind", "stage", "block", "depth", "head", *DROPS, "first_order", "clips"]
STUDIES = [
    ("msclap", "stage", "zero", "prompts"),
    ("whisper", "head", "mean", "centroids"),
    ("whisper", "block", "zero", "probe"),
    ("whisper", "mlp", "mean", "kernel"),
]


@pytest.fixture(scope="module")
def encoders(msclap_path, whisper_dir):
    """In double precision, so that two ways to the same number can be told from two numbers."""
    both = {"msclap": load_encoder(msclap_path), "whisper": load_encoder(whisper_dir, seconds=1.0)}
    for encoder in both.values():
        encoder.module.to(torch.float64)
    return both


@pytest.fixture(scope="module")
def voices():
    """Two clips of each of eight classes, in two folds."""
    return load_dataset("synthetic-voice", per_class=2)


@pytest.fixture(scope="module")
def inputs(encoders, voices):
    """All clips as one batch of each encoder."""
    batches = {}
    for name, encoder in encoders.items():
        prepared = [encoder.prepare(c.source) for c in (few(voices) if name == "msclap" else voices).clips]
        longer = torch.tensor([p.longer for p in prepared])
        batches[encoder.name] = torch.cat([p.features for p in prepared]).to(encoder.dtype), longer
    return batches


def few(data):
    """For the slower encoder, whose classifier needs no folds."""
    return data.limited(8)


@pytest.fixture(scope="module", params=STUDIES, ids="-".join)
def study(request, encoders, voices):
    name, kind, how, classifier = request.param
    data = few(voices) if name == "msclap" else voices
    result = ablate(encoders[name], data, f"{kind}s", how, classifier, batch_size=6, rows=5, seed=3)
    return encoders[name], kind, how, classifier, data, result


def slow_means(encoder, batch):
    """Mean over tokens and clips of every head output and MLP write."""
    heads, mlp = {}, {}
    with torch.inference_mode(), record(
        encoder,
        heads=lambda site, z: heads.update({(site.stage, site.block): z.reshape(-1, z.shape[-1]).mean(0)}),
        mlp=lambda site, m: mlp.update({(site.stage, site.block): m.reshape(-1, m.shape[-1]).mean(0)}),
    ):  # fmt: skip
        encoder.encode(*batch)
    return heads, mlp


def replaced(encoder, label, kind, how, means):
    """Hooks that put zero or the mean in a unit's place, written from the definition."""
    heads, mlp = means

    def here(site):
        return label.startswith(f"S{site.stage}B{site.block}") if "B" in label else label == f"S{site.stage}"

    def in_heads(site, z):
        unit = Unit.parse(label)
        if (unit.stage, unit.block) != (site.stage, site.block):
            return None
        d = encoder.units.d_head[site.stage]
        part, z = slice(unit.head * d, (unit.head + 1) * d), z.clone()
        z[..., part] = heads[site.stage, site.block][part] if how == "mean" else 0.0
        return z

    def in_write(site, a):
        if not here(site):
            return None
        projection = encoder.module.get_submodule(site.projection)
        mean = projection.weight @ heads[site.stage, site.block] + projection.bias
        return (mean if how == "mean" else torch.zeros_like(mean)).expand_as(a)

    def in_mlp(site, m):
        return (mlp[site.stage, site.block] if how == "mean" else torch.zeros_like(m[0, 0])).expand_as(m) if here(site) else None

    hooks = {"head": {"heads": in_heads}, "mlp": {"mlp": in_mlp}}.get(kind, {"write": in_write})
    return record(encoder, **hooks)


def embeddings(encoder, batch):
    with torch.inference_mode():
        return encoder.encode(*batch)


def test_one_row_per_unit(study):
    encoder, kind, how, classifier, data, result = study
    table = result.table()
    assert list(table.columns) == COLUMNS
    assert (table.kind == kind).all()
    assert (table.clips == len(data)).all()
    units = encoder.units
    expected = {
        "head": [u.label for u in units.where("head")],
        "mlp": [u.label for u in units.where("mlp")],
        "block": [f"S{s}B{b}" for s, b in units.blocks],
        "stage": [f"S{s}" for s in range(len(units.heads))],
    }[kind]
    assert table.label.tolist() == expected == result.labels
    assert (table["head"] >= 0).all() == (kind == "head")
    assert (table.block >= 0).all() == (kind != "stage")
    for _, row in table.iterrows():
        assert row.label.startswith(f"S{row.stage}" if kind == "stage" else f"S{row.stage}B{row.block}")
        assert units.blocks[row.depth] == (row.stage, max(row.block, 0))
    assert (result.kinds, result.how, result.classifier, result.errors) == ((kind,), how, classifier, {})
    assert result.ablated.shape == (len(table), len(data), 8)


def test_drops_equal_the_slow_way(study, inputs):
    """Whole forwards with hooks; the classifier is that of the whole model throughout."""
    encoder, kind, how, classifier, data, result = study
    batch = inputs[encoder.name]
    whole = embeddings(encoder, batch)
    directions = class_directions(encoder, data) if encoder.has_text else None
    fitted = CLASSIFIERS[classifier].fit_folds(whole, data, directions, encoder.logit_scale, 3)
    means, table = slow_means(encoder, batch), result.table().set_index("label")

    def right_and_margin(scores):
        own = [float(s[t]) for s, t in zip(scores, data.targets, strict=True)]
        best = [max(float(x) for c, x in enumerate(s) if c != t) for s, t in zip(scores, data.targets, strict=True)]
        return np.array([a > b for a, b in zip(own, best, strict=True)], float), np.array(own) - np.array(best)

    before = right_and_margin(fitted.scores(whole))
    assert result.accuracy == before[0].mean()
    for label in result.labels[:: len(result.labels) // 2]:
        with replaced(encoder, label, kind, how, means):
            scores = fitted.scores(embeddings(encoder, batch))
        np.testing.assert_allclose(result.ablated[result.labels.index(label)], scores, rtol=1e-6, atol=1e-8)
        after = right_and_margin(scores)
        assert table.accuracy_drop[label] == pytest.approx((before[0] - after[0]).mean())
        assert table.margin_drop[label] == pytest.approx((before[1] - after[1]).mean(), rel=1e-5, abs=1e-8)
        assert np.abs(before[1] - after[1]).max() > 1e-6, "the unit does nothing, so the test proves nothing"


def test_intervals_are_the_paired_bootstrap_over_groups(study):
    result = replace(study[-1], groups=[f"group {i // 2}" for i in range(len(study[-1].targets))])
    assert study[-1].groups == [c.id for c in study[-2].clips]
    table = result.table()
    for name in ("accuracy", "margin"):
        assert (table[f"{name}_low"] <= table[f"{name}_drop"] + 1e-12).all()
        assert (table[f"{name}_drop"] <= table[f"{name}_high"] + 1e-12).all()
    rows, targets = np.arange(len(result.targets)), result.targets
    for i in (0, len(table) - 1):
        right = [s[rows, targets] > np.where(np.eye(8)[targets] == 1, -np.inf, s).max(1) for s in (result.whole, result.ablated[i])]
        expected = mean_interval(right[0].astype(float) - right[1], result.groups, seed=3)
        assert tuple(table.loc[i, ["accuracy_drop", "accuracy_low", "accuracy_high"]]) == pytest.approx(expected)
    # For all units at once: as the function says it of the same drops, and not narrower than for one alone (but for the resamples).
    margin = np.stack([margins(result.whole, targets) - margins(scores, targets) for scores in result.ablated], 1)
    every = simultaneous_means(margin, result.groups, seed=3)
    np.testing.assert_allclose(table[["margin_all_low", "margin_all_high", "margin_all_p"]], np.stack([every.low, every.high, every.p], 1))
    widths = (table.margin_all_high - table.margin_all_low) / (table.margin_high - table.margin_low)
    assert widths.dropna().median() >= 1


def test_classes_add_up_to_the_whole(study):
    result = study[-1]
    by_class, table = result.per_class(), result.table().set_index("label")
    assert list(by_class.columns) == ["label", "class", "clips", "accuracy_drop", "margin_drop"]
    assert len(by_class) == 8 * len(table)
    for label, part in by_class.groupby("label"):
        assert part["class"].tolist() == list(result.classes)
        assert part.clips.tolist() == [len(result.targets) // 8] * 8
        for name in ("accuracy_drop", "margin_drop"):
            assert np.average(part[name], weights=part.clips) == pytest.approx(table[name][label])


def test_agreement_with_first_order_is_spearmans(study):
    result = study[-1]
    table = result.table()
    theirs = stats.spearmanr(table.first_order, table.margin_drop)
    assert len(table) >= 3
    assert result.agreement(study[1]) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_no_gradients_are_left_on_the_model(study):
    assert all(p.grad is None for p in study[0].module.parameters())


def test_a_part_of_the_units_is_that_part_of_the_whole(encoders, voices):
    """Any selection: the same numbers as among all units of the kind, and a table for each kind."""
    whisper = encoders["whisper"]
    choices = {"how": "zero", "classifier": "centroids", "batch_size": 6, "rows": 5}
    every = {kind: ablate(whisper, voices, f"{kind}s", **choices) for kind in ("head", "mlp")}
    some = ablate(whisper, voices, "S0B1 S0B2H3 heads mlps", **choices)
    assert some.labels == ["S0B1H0", "S0B1H1", "S0B1H2", "S0B1H3", "S0B1M", "S0B2H3"]
    assert some.kinds == ("head", "mlp")
    assert set(some.tables) == {"ablation_head", "ablation_class_head", "ablation_mlp", "ablation_class_mlp"}
    for kind, whole in every.items():
        for name, keys in ((f"ablation_{kind}", ["label"]), (f"ablation_class_{kind}", ["label", "class"])):
            # What holds for all units at once depends on which there are.
            part, full = (table.filter(regex="^(?!.*_all_)") for table in (some.tables[name], whole.tables[name]))
            expected = full[full.label.isin(some.labels)].reset_index(drop=True)
            assert len(expected) in (1, 5, 8, 40), "a part, and not nothing"
            pd.testing.assert_frame_equal(part, expected, rtol=1e-7, atol=1e-9)
            assert not part.duplicated(keys).any()
    assert np.isnan(some.agreement("mlp")[0]), "one unit has no rank"


def test_a_class_without_clips_has_no_value(encoders, voices):
    labels = (*voices.labels, "silence")
    data = replace(voices, labels=labels, names={**voices.names, "silence": "silence"})
    part = ablate(encoders["whisper"], data, "blocks", "zero", "centroids").per_class()
    silent = part[part["class"] == "silence"]
    assert (silent.clips == 0).all()
    assert silent[["accuracy_drop", "margin_drop"]].isna().all(axis=None)
    assert part[part["class"] != "silence"].notna().all(axis=None)


@pytest.mark.parametrize("classifier", ["centroids", "probe"])
def test_some_clips_are_ablated_with_the_classifier_and_the_means_of_all(encoders, voices, classifier):
    """Their rows are bit by bit those of a study of all clips; a study of these clips alone has another classifier."""
    whisper, choices = encoders["whisper"], {"units": "blocks", "how": "mean", "classifier": classifier, "batch_size": 1}
    every, told = ablate(whisper, voices, **choices), []
    some = ablate(whisper, voices, **choices, clips=5, seed=0, advance=told.append)
    rows = [every.groups.index(group) for group in some.groups]
    assert (len(rows), sum(told)) == (5, len(voices) + 5)
    assert len({int(t) for t in some.targets}) == 5, "spread over the classes"
    assert some.classes == every.classes, "all classes can be chosen"
    np.testing.assert_array_equal(some.targets, every.targets[rows])
    for name in ("whole", "ablated", "estimate"):
        ours, theirs = getattr(some, name), getattr(every, name)
        np.testing.assert_allclose(ours, theirs[rows] if name == "whole" else theirs[:, rows], rtol=1e-12, atol=1e-14)
    assert some.made_by["settings"]["clips"] == 5
    assert parts_folder(some.made_by["settings"]) == f"ablation/blocks-mean-{classifier}-5clips"


# Going on, being refused


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    """Files of two classes, one of them broken."""
    root, rng = tmp_path_factory.mktemp("mine"), np.random.default_rng(0)
    for label, shape in (("noise", 0.0), ("tone", 1.0)):
        (root / label).mkdir()
        for i in range(6):
            tone = np.sin(2 * np.pi * rng.uniform(200, 900) * np.arange(8000) / 16000)
            soundfile.write(root / label / f"{i}.wav", 0.1 * (shape * tone + (1 - shape) * rng.standard_normal(8000)), 16000)
    (root / "noise" / "2.wav").write_text("no audio")
    return root


def equal(a, b) -> None:
    """Bit for bit."""
    for x, y in ((a.whole, b.whole), (a.ablated, b.ablated), (a.estimate, b.estimate)):
        assert np.array_equal(x, y)
    pd.testing.assert_frame_equal(a.table(), b.table(), check_exact=True)
    pd.testing.assert_frame_equal(a.per_class(), b.per_class(), check_exact=True)


def test_a_broken_file_is_left_out_and_listed(encoders, two_classes):
    data = load_dataset(f"folder:{two_classes}")
    result = ablate(encoders["whisper"], data, "blocks", "mean", "centroids", batch_size=4)
    assert list(result.errors) == ["noise/2.wav"]
    assert "2.wav" in result.errors["noise/2.wav"]
    assert len(result.targets) == 11
    good = data.only(lambda c: c.id != "noise/2.wav", "readable")
    without = ablate(encoders["whisper"], good, "blocks", "mean", "centroids", batch_size=4)
    np.testing.assert_allclose(result.table()[COLUMNS[6:]], without.table()[COLUMNS[6:]], rtol=1e-6, atol=1e-9)


def test_the_same_call_resumes_and_a_finished_one_is_not_touched(encoders, voices, tmp_path):
    def call(**changes):
        told = []
        choices = {"units": "blocks", "how": "mean", "classifier": "probe", "batch_size": 6, "out": tmp_path / "a"} | changes
        return ablate(encoders["whisper"], voices, **choices, advance=told.append), sum(told)

    first, told = call()
    assert told == 32, "two passes"
    home = tmp_path / "a" / "ablation" / "blocks-mean-probe"
    files = {p: p.stat().st_mtime_ns for p in home.rglob("*.safetensors")}
    assert sorted(p.name for p in files) == ["00000.safetensors", "00001.safetensors", "00002.safetensors", "base.safetensors"]
    assert json.loads((home / "run.json").read_text())["status"] == "complete"
    again, told = call()
    assert told == 32
    equal(first, again)
    assert files == {p: p.stat().st_mtime_ns for p in home.rglob("*.safetensors")}
    (home / "shards" / "00001.safetensors").unlink()
    equal(first, call()[0])
    equal(first, call(out=None)[0])
    for change, says in (
        ({"folds": "stratified"}, r"settings\.folds: official → stratified"),
        ({"seed": 1}, r"settings\.seed: 0 → 1"),
        ({"batch_size": 4}, r"settings\.batch_size: 6 → 4"),
    ):
        with pytest.raises(StoreError, match=says):
            call(**change)
    with pytest.raises(StoreError, match=r"dataset\.clips: 16 → 8"):
        ablate(encoders["whisper"], voices.limited(8), "blocks", "mean", "probe", batch_size=6, out=tmp_path / "a")


def test_other_units_ways_and_classifiers_have_folders_of_their_own():
    def folder(units, how="mean", classifier="prompts"):
        return parts_folder({"units": units, "how": how, "classifier": classifier})

    assert folder("S3 heads") == "ablation/S3-heads-mean-prompts"
    long = " ".join(f"S3B1H{i}" for i in range(40))
    names = {
        folder("heads"),
        folder("blocks"),
        folder("heads", how="zero"),
        folder("heads", classifier="probe"),
        folder(long),
        folder(long[:-1]),
    }
    assert len(names) == 6
    assert max(map(len, names)) < 120


def test_kinds_in_one_folder_do_not_overwrite_each_other(encoders, voices, tmp_path):
    for units in ("S0B1 heads mlps", "S0B0 blocks"):
        ablate(encoders["whisper"], voices, units, classifier="centroids").write(tmp_path)
    for kind, units in (("head", "S0B1 heads mlps"), ("mlp", "S0B1 heads mlps"), ("block", "S0B0 blocks")):
        record = json.loads((tmp_path / f"ablation_{kind}.json").read_text())
        assert (record["kind"], record["settings"]["units"]) == (kind, units)
        assert len(record["first_order_spearman"]) == 2
        assert "template" not in record["settings"], "the centroids read none"
    assert len(list((tmp_path / "tables").glob("*.parquet"))) == 6


def run_command(words, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["residual-audio", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


def test_killed_and_run_again(whisper_dir, tmp_path, monkeypatch):
    """SIGKILL between shards: the same command resumes, and its files are bit by bit those of a command that was left alone."""

    def words(out):
        return ["ablate", whisper_dir, "synthetic-voice", "--limit", 16, "--seconds", 1, "--batch-size", 1, "--out", out]

    killed, alone = tmp_path / "killed", tmp_path / "alone"
    program = Path(sys.executable).parent / "residual-audio"
    shards = killed / "ablation" / "heads-mean-centroids" / "shards"
    process = subprocess.Popen(
        [program, *map(str, words(killed))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"HF_HUB_OFFLINE": "1"}
    )
    deadline = time.monotonic() + 120
    while len(list(shards.glob("0*.safetensors"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    _, complaint = process.communicate()
    assert process.returncode == -signal.SIGKILL, complaint.decode()
    assert 2 <= len(list(shards.glob("0*.safetensors"))) < 16
    assert not (killed / "tables").exists()
    run_command(words(killed), monkeypatch)
    run_command(words(alone), monkeypatch)
    names = sorted(p.relative_to(alone) for p in alone.rglob("*") if p.suffix in (".safetensors", ".parquet", ".csv"))
    assert len(names) == 17 + 4
    for name in names:
        assert (killed / name).read_bytes() == (alone / name).read_bytes(), name
    assert json.loads((alone / "ablation_head.json").read_text())["settings"]["classifier"] == "centroids"


# Questions without an answer


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"units": "layers"}, "names no unit"),
        ({"units": "embedding"}, "only head, mlp, block, stage can be used"),
        ({"units": "all"}, "of the kind input"),
        ({"how": "noise"}, "zero or mean"),
        ({"classifier": "centroid"}, "did you mean centroids"),
        ({"classifier": "prompts"}, "no text side.*use --classifier centroids or probe or gda"),
        ({"template": "laion"}, "centroids reads no prompts"),
        ({"folds": "random"}, "one of official, stratified"),
    ],
)
def test_words_that_make_no_sense(encoders, voices, tmp_path, choices, says):
    with pytest.raises((EvaluationError, SelectionError), match=says):
        ablate(encoders["whisper"], voices, **{"units": "blocks", "classifier": "centroids", "out": tmp_path / "a"} | choices)
    assert not (tmp_path / "a").exists()


def test_what_the_data_or_the_model_do_not_allow(encoders, voices, msclap_path, whisper_dir, tmp_path):
    whisper = encoders["whisper"]
    with pytest.raises(EvaluationError, match="one class"):
        ablate(whisper, voices.only(lambda c: c.label == voices.labels[0], "one"), "blocks", "zero", "centroids")
    with pytest.raises(EvaluationError, match="at least two folds"):
        ablate(whisper, voices.only(lambda c: c.fold == 1, "fold 1"), "blocks", "zero", "probe")
    with pytest.raises(EvaluationError, match="one window per clip"):
        ablate(load_encoder(whisper_dir, seconds=1.0, crop="windows"), voices, "blocks", "zero", "centroids")
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    for name in ("x/a.wav", "y/a.wav"):
        (tmp_path / name).write_text("no")
    with pytest.raises(EvaluationError, match="none of 2 clips could be read"):
        ablate(whisper, load_dataset(f"folder:{tmp_path}"), "blocks", "zero", "centroids")
    with pytest.raises(DataError, match="one of sound-of"):
        ablate(encoders["msclap"], voices, "blocks", template="nonsense", out=tmp_path / "a")
    with pytest.raises(EvaluationError, match="reads no folds"):
        ablate(encoders["msclap"], voices, "blocks", folds="stratified", out=tmp_path / "a")
    assert not (tmp_path / "a").exists(), "told before any audio is encoded, and nothing is left that would refuse the right word"
