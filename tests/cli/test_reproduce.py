"""``reproduce`` as a user runs it, on ``tiny``: the published protocols end to end, on a small ESC-50 of our own sounds."""

import csv
import json
import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
import soundfile
from safetensors import safe_open

import residual_audio as ra
from residual_audio.analysis.dimension import estimate_dimensions
from residual_audio.data import load_dataset
from residual_audio.reproduction.bench import drawn
from residual_audio.reproduction.targets import DATA, TARGETS

ESC50 = ["seed1-1", "seed1-fig2", "seed1-fig4", "seed1-fig5", "seed1-fig6", "seed2-1", "kfold-esc50"]
RATE = 16000


@pytest.fixture(scope="module")
def command(command):
    """``command(…)`` → exit code of ``residual-audio reproduce …``."""
    return partial(command, "reproduce")


@pytest.fixture(scope="module")
def esc50(tmp_path_factory):
    """ESC-50's layout, two classes, and two folds in place of five: trainings cost."""
    root, rng = tmp_path_factory.mktemp("data") / "esc50", np.random.default_rng(0)
    (root / "meta").mkdir(parents=True)
    (root / "audio").mkdir()
    rows = []
    for number in range(20):
        fold, category = number % 2 + 1, ("rain", "siren")[number // 2 % 2]
        t = np.arange(RATE // 2) / RATE
        noise, tone = rng.normal(0, 0.1, len(t)), np.sin(2 * np.pi * rng.uniform(400, 900) * t * (1 + t))
        name = f"{fold}-{number}-A-0.wav"
        soundfile.write(root / "audio" / name, noise if category == "rain" else 0.3 * tone + 0.1 * noise, RATE)
        rows.append({"filename": name, "fold": fold, "target": 0, "category": category, "esc10": "False", "src_file": number, "take": "A"})
    with (root / "meta" / "esc50.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return root


@pytest.fixture(scope="module")
def done(esc50, command, tmp_path_factory):
    """Every table of ESC-50 by tiny in the place of the published checkpoints, compared, with one epoch a training."""
    out = tmp_path_factory.mktemp("reproduced")
    words = (*ESC50, "--model", "tiny", "--published", "--data-root", esc50, "--epochs", 1, "--out", out)
    assert command(*words) == 0
    return out, words


def read(out, name: str) -> pd.DataFrame:
    return pd.read_parquet(out / "tables" / f"reproduce_{name}.parquet")


def test_every_published_figure_has_ours_beside_it(done):
    out, _ = done
    from residual_audio.reproduction.published import published_figures

    figures = published_figures()
    for name in ESC50:
        table, target = read(out, name), TARGETS[name]
        want = figures[(figures.source == target.source) & (figures.table == target.table) & (figures.dataset == "ESC-50")]
        met = table[table.published.notna()]
        assert set(met.level + met["index"] + met.measure) == set(want.level + want["index"] + want.measure), name
        np.testing.assert_allclose(met.difference, met.ours - met.published)
        assert set(table.protocol) <= {"as they did", "our defaults", "both"}
        text = pd.read_csv(out / "tables" / f"reproduce_{name}.csv", dtype={"index": str})
        np.testing.assert_allclose(text.ours, table.ours, rtol=1e-7)


def test_dimensions_are_those_of_the_heads(done):
    """From the run under OUT, by an estimate of our own heads and plain means."""
    out, _ = done
    run = ra.Run.open(out / "tiny" / "runs" / "esc50")
    heads = estimate_dimensions(run.heads[:], k=5).table
    stage = np.array([u.stage for u in run.units.where("head")])
    table = read(out, "seed1-1").set_index(["level", "index", "measure", "protocol"])
    for s in range(4):
        mine = heads[stage == s]
        assert table.ours["stage", str(s), "pca_99", "both"] == pytest.approx(mine.pca_99.mean())
        assert table["std"]["stage", str(s), "evr_1", "both"] == pytest.approx(np.std(mine.evr_1, ddof=1))
        assert table.ours["stage", str(s), "twonn", "our defaults"] == pytest.approx(mine.twonn.mean())
        assert table.ours["stage", str(s), "twonn", "as they did"] == pytest.approx(mine.twonn_fit.mean())
    block = read(out, "seed1-fig2").set_index(["index", "measure", "protocol"]).ours
    first = [i for i, u in enumerate(run.units.where("head")) if (u.stage, u.block) == (0, 0)]
    assert block["0", "l_n", "as they did"] == pytest.approx(heads.pca_99[first].mean() / heads.twonn_fit[first].mean())


def test_accuracies_are_those_of_the_model(done, esc50):
    out, _ = done
    data, encoder = load_dataset("esc50", esc50), ra.load_encoder("tiny")
    right = {t: ra.zero_shot(encoder, data, template=t).per_fold().accuracy for t in ("sound-of", "laion")}
    kfold, paolini = (read(out, n).set_index(["index", "measure", "protocol"]) for n in ("kfold-esc50", "seed2-1"))
    assert kfold.ours["zero-shot", "accuracy", "our defaults"] == pytest.approx(100 * right["sound-of"].mean())
    assert kfold["std"]["zero-shot", "accuracy", "our defaults"] == pytest.approx(100 * np.std(right["sound-of"]))
    assert paolini.ours["zero-shot", "accuracy", "as they did"] == pytest.approx(100 * right["laion"].mean())
    width, per_stage = encoder.units.d_model[0], {s: len(encoder.units.where("head", s)) * encoder.units.d_head[s] for s in range(4)}
    for how in ("as they did", "our defaults"):
        assert paolini.ours["residual-stage 0", "trained", how] == width
        assert kfold.ours["residual-heads 3", "trained", how] == per_stage[3]
        assert kfold.ours["residual-heads 2+3", "trained", how] == per_stage[2] + per_stage[3]
        assert kfold.ours["residual-heads 0+1+2+3", "trained", how] == sum(per_stage.values())
    ablated = read(out, "seed1-fig6")
    assert ablated[ablated.measure == "accuracy"].ours.tolist() == pytest.approx(
        2 * [100 * ra.zero_shot(encoder, data).outcome.correct.mean()]
    )


def test_both_protocols_are_what_they_say(done):
    out, _ = done
    theirs, ours = (
        json.loads((out / "tiny" / "kfold" / f"esc50-{folds}" / "run.json").read_text())["settings"] for folds in ("stratified", "official")
    )
    assert theirs["folds"] == "stratified"
    given = {
        "form": "gains",
        "mean": "drop",
        "start": 0.95,
        "logit_scale": 1.0,
        "decay": 0.0,
        "optimiser": "schedulefree",
        "rate": 0.01,
        "patience": 5,
    }
    assert theirs["recipe"] == {**given, "epochs": 1}
    assert ours["folds"] == "official"
    assert ours["recipe"] == {"form": "gains", "epochs": 1}
    cell = next((out / "tiny" / "baselines" / "esc50-as-they-did" / "comparison" / "cells").glob("residual-*"))
    with safe_open(cell, "pt") as file:
        assert json.loads(file.metadata()["options"])["units"] == "S0 stages"


def test_the_same_command_goes_on(done, command, capsys):
    """Nothing that is finished is done again, and the tables are the same."""
    out, words = done
    kept = [p for p in out.rglob("*.safetensors") if p.parent.name in ("shards", "cells")]
    before = {p: p.stat().st_mtime_ns for p in kept}
    old = read(out, "seed1-fig6")
    assert len(before) > 40
    assert command("seed1-fig6", "seed2-1", *words[len(ESC50) :]) == 0
    assert {p: p.stat().st_mtime_ns for p in kept} == before
    pd.testing.assert_frame_equal(read(out, "seed1-fig6"), old)
    text = capsys.readouterr().out
    assert "within the published ±" in text
    assert "note: its 47 % before ablation contradicts" in text
    assert command("seed1-fig6", *words[len(ESC50) :], "--limit", 10) == 2, "other clips are not mixed with these"
    assert "another --out" in capsys.readouterr().err


def test_heads_against_a_table_of_heads(done, command, capsys, tmp_path):
    out, words = done
    heads = ra.analyze(ra.Run.open(out / "tiny" / "runs" / "esc50"), k=5).tables["heads"]
    names = [f"L{r.stage}_B{r.block}_H{r['head']}" for _, r in heads.iterrows()]
    mine = pd.DataFrame({"head_id": names, "pr": heads.participation_ratio, "twonn": heads.twonn, "mle": heads.mle})
    mine.loc[7, "pr"] += 2
    mine.to_csv(tmp_path / "heads.csv", index=False)
    assert command("--published-heads", tmp_path / "heads.csv", *words[len(ESC50) :]) == 0
    found = read(out, "heads").set_index("measure")
    assert found.loc["participation_ratio", ["heads", "at"]].tolist() == [184, heads.label[7]]
    assert found.largest["participation_ratio"] == pytest.approx(2)
    assert found.largest["mle"] < 1e-9
    assert found.correlation["mle"] == pytest.approx(1)
    assert found.largest["mle_k20"] > 0.1, "another number of neighbours is another estimate"
    assert "head by head" in capsys.readouterr().out


def test_every_protocol_runs_on_other_data(done, esc50, command, capsys, tmp_path):
    """Other data: nothing published beside them, and of all tables one a protocol. What these data have had done is used again."""
    shutil.copytree(done[0], tmp_path, ignore=shutil.ignore_patterns("tables"), dirs_exist_ok=True)
    words = ("--model", "tiny", "--dataset", "esc50", "--data-root", esc50, "--epochs", 1, "--protocol", "ours", "--out", tmp_path)
    assert command("all", *words) == 0
    text = capsys.readouterr().out
    protocols = {target.rows for target in TARGETS.values()}
    names = [p.stem.removeprefix("reproduce_") for p in (tmp_path / "tables").glob("*.parquet")]
    assert {TARGETS[n].rows for n in names} == protocols
    assert len(names) == len(protocols) == text.count("not compared: ")
    assert "a quick look" in text
    for name in names:
        assert "published" not in read(tmp_path, name)
        assert read(tmp_path, name).ours.notna().any(), name
    record = json.loads((tmp_path / "reproduce.json").read_text())
    assert set(record["tables"]) == set(names)
    assert record["settings"] | {"model": "tiny", "published": False} == record["settings"]


def test_without_arguments_it_lists_what_there_is(command, capsys):
    assert command() == 0
    text = capsys.readouterr().out
    assert all(name in text for name in TARGETS)
    assert "--model tiny --dataset synthetic-timbre" in text


def test_errors_say_what_to_do(command, capsys, tmp_path):
    cases = {
        ("seed1-9",): "did you mean seed1-",
        ("nonsense",): "lists them",
        (
            "seed1-1",
            "--data-root",
            tmp_path,
        ): "--model PATH --published. Without it, the same code runs by --model tiny --dataset synthetic-timbre",
        ("kfold-irmas", "--model", "tiny", "--data-root", tmp_path): "--model tiny --dataset synthetic-timbre",
        ("--published-heads", tmp_path / "none.csv", "--model", "tiny"): "cannot be read as a table of heads",
    }
    for words, says in cases.items():
        assert command(*words) == 2, words
        assert says in capsys.readouterr().err.replace("\n", " "), words


def test_draws_are_in_proportion():
    data = load_dataset("synthetic-voice", per_class=10)
    uneven = data.only(lambda c: c.label != data.labels[0] or int(c.id.split("/")[-1]) % 2 == 0, "half of one class")
    found = drawn(uneven, len(uneven) // 2)
    share = np.bincount(found.targets) / np.bincount(uneven.targets)
    assert len(found) == len(uneven) // 2
    np.testing.assert_allclose(share, 0.5, atol=0.11)
    assert [c.id for c in found.clips] == [c.id for c in drawn(uneven, len(uneven) // 2).clips]
    assert drawn(data, 10**6) is data
    assert len(drawn(data, 3)) == 3
    assert set(DATA.values()) == {"esc50", "tinysol", "vocalsound", "irmas"}
