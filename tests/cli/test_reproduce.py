"""``reproduce`` as a user runs it, on ``tiny``: the published protocols end to end, on a small ESC-50 of our own sounds."""

import csv
import dataclasses
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
from safetensors import safe_open
from safetensors.torch import load_file
from sklearn.model_selection import StratifiedKFold

import residual_audio as ra
from residual_audio.analysis.dimension import estimate_dimensions
from residual_audio.data import load_dataset
from residual_audio.report.figures import draw
from residual_audio.reproduction.adapted import last_groups, stage_sets
from residual_audio.reproduction.draws import drawn, evenly, in_random_folds
from residual_audio.reproduction.findings import FINDINGS
from residual_audio.reproduction.reproduce import reproduce
from residual_audio.reproduction.targets import DATA, TARGETS
from residual_audio.units import UnitTable

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
        earlier = figures.source.str.endswith("-earlier") & (target.source == "arcioni-final")
        want = figures[((figures.source == target.source) | earlier) & (figures.table == target.table) & (figures.dataset == "ESC-50")]
        met = table[table.published.notna()]
        assert set(met.level + met["index"] + met.measure) == set(want.level + want["index"] + want.measure), name
        np.testing.assert_allclose(met.difference, met.ours - met.published)
        assert set(table.protocol) <= {"close to theirs" if target.differs else "as they did", "our defaults", "both"}
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
    assert paolini.ours["zero-shot", "accuracy", "close to theirs"] == pytest.approx(100 * right["laion"].mean())
    width, per_stage = encoder.units.d_model[0], {s: len(encoder.units.where("head", s)) * encoder.units.d_head[s] for s in range(4)}
    for how in ("close to theirs", "our defaults"):
        gain = kfold.ours["residual-heads 2+3", "accuracy", how] - kfold.ours["zero-shot", "accuracy", how]
        assert kfold.ours["residual-heads, earlier run", "accuracy_gain", how] == pytest.approx(gain)
        assert paolini.ours["linear-probe", "trained", how] == 2 * encoder.embed_text(["rain"]).shape[1] + 2
        assert paolini.ours["residual-stage 0", "trained", how] == width
        assert kfold.ours["residual-heads 3", "trained", how] == per_stage[3]
        assert kfold.ours["residual-heads 2+3", "trained", how] == per_stage[2] + per_stage[3]
        assert kfold.ours["residual-heads 0+1+2+3", "trained", how] == sum(per_stage.values())
    ablated = read(out, "seed1-fig6")
    assert ablated[ablated.measure == "accuracy"].ours.tolist() == pytest.approx(
        2 * [100 * ra.zero_shot(encoder, data).outcome.correct.mean()]
    )


def test_both_protocols_are_what_they_say(done, esc50):
    """The final report's: its folds, its parts, its optimiser; the settings are read from the files of the folds."""
    out, _ = done
    theirs, ours = (
        json.loads((out / "tiny" / "kfold" / f"esc50-{way}" / "run.json").read_text())["settings"] for way in ("report", "ours")
    )
    assert theirs["recipe"] == {
        "form": "gains", "mean": "drop", "start": 0.95, "logit_scale": 1.0, "decay": 0.0, "weight_decay": 0.05, "optimiser": "adamw",
        "rate": 0.005, "patience": 5, "epochs": 1,
    }  # fmt: skip
    assert (theirs["parts"], ours["parts"]) == ("report", "disjoint")
    assert (theirs["again"], ours["again"]) == (False, True)
    assert ours["recipe"] == {"form": "gains", "epochs": 1}
    targets = load_dataset("esc50", esc50).targets
    tests = [test.tolist() for _, test in StratifiedKFold(5, shuffle=True, random_state=42).split(targets, targets)]
    for way, expected in (("report", tests), ("ours", [list(range(f, 20, 2)) for f in range(2)])):
        cells = (out / "tiny" / "kfold" / f"esc50-{way}" / "trials" / "units=S3_heads" / "comparison" / "cells").glob("residual-*")
        assert sorted(load_file(path)["test"].tolist() for path in cells) == sorted(expected), way
    folder = out / "tiny" / "stages" / "esc50-report" / "S0_stages" / "comparison" / "cells"
    with safe_open(next(folder.glob("residual-*")), "pt") as file:
        assert json.loads(file.metadata()["options"]) | {"units": "S0 stages", "optimiser": "adam"} == json.loads(
            file.metadata()["options"]
        )


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


def test_every_target_on_the_bundled_model_and_notes(tmp_path):
    """As ``reproduce all --model tiny --dataset notes``, on twelve notes in two folds; nothing published stands beside them."""
    notes = load_dataset("notes")
    few = notes.only(lambda clip: clip.label in notes.labels[:2], "two classes").limited(12)
    few = dataclasses.replace(few, clips=tuple(dataclasses.replace(c, fold=1 + i % 2, group="") for i, c in enumerate(few.clips)))
    told = []
    found = reproduce(
        ["all"], ra.load_encoder, lambda name, several: few, tmp_path, models=["tiny"], datasets=["notes"], published=False,
        protocol="published", epochs=1, done=lambda name, title, table, findings: told.append(name),
    )  # fmt: skip
    assert {TARGETS[name].rows for name in told} == {target.rows for target in TARGETS.values()}
    assert set(found.tables) == {f"reproduce_{name}" for name in told} | {"reproduce_findings"}
    for name in told:
        table = found.tables[f"reproduce_{name}"]
        assert "published" not in table
        assert table.ours.notna().any(), name
    findings = found.tables["reproduce_findings"]
    assert set(findings.finding) == {finding.name for finding in FINDINGS}
    assert findings.holds.notna().mean() > 0.9
    folds = found.tables["reproduce_seed2-fig9"]
    by_set = folds[folds.measure.str.startswith("accuracy_fold_")].groupby("index").ours
    assert len(by_set) == 16, "fifteen sets of stages, and the model as it is"
    medians = folds[folds.measure == "accuracy_median"].set_index("index").ours
    pd.testing.assert_series_equal(by_set.median(), medians.sort_index(), check_names=False)
    drawing = draw({"reproduce_seed2-fig9": folds}, tmp_path / "figures", {"model": "tiny", "dataset": "notes"})
    assert [path.name for path in drawing] == ["stage_folds.pdf", "stage_folds.png"]


def test_findings_on_several_models_and_data(command, whisper_dir, capsys, tmp_path):
    """Each with each, in one call; what one pair cannot answer does not stop the others."""
    words = ("--model", f"tiny,{whisper_dir}", "--dataset", "synthetic-voice,notes", "--limit", 10, "--out", tmp_path)
    assert command("seed1-1", "seed1-7", *words) == 0
    text = capsys.readouterr().out
    assert "Published findings on every pair of model and dataset" in text
    found = pd.read_parquet(tmp_path / "tables" / "reproduce_findings.parquet")
    assert len(found[["model", "dataset"]].drop_duplicates()) == 4
    tiny, other = found[found.model == "tiny"], found[found.model != "tiny"]
    assert tiny.holds.notna().all()
    assert other[other.finding == "dimension-rises"].holds.isna().all(), "it has one stage"
    table = read(tmp_path, "seed1-1")
    assert set(table.model) == {"tiny", str(whisper_dir)}
    one = table[(table.model == "tiny") & (table.dataset == "notes") & (table.measure == "pca_99") & (table.level == "stage")].ours
    said = tiny[(tiny.finding == "dimension-rises") & (tiny.dataset == "notes")].iloc[0]
    assert said.holds == bool((np.diff(one) > 0).all())


def test_folders_of_one_name_are_datasets_of_their_own(tmp_path):
    """Two whose names make one folder's name too: every run holds the clips of one of them, below the folder that was asked for."""
    homes = ("a", "a-b", "a/b")
    for seed, home in enumerate(homes):
        for i in range(6):
            place = tmp_path / home / "drums" / "xy"[i % 2]
            place.mkdir(parents=True, exist_ok=True)
            soundfile.write(place / f"{i}.wav", 0.05 * np.random.default_rng(10 * seed + i).standard_normal(4000), RATE)
    names = [f"folder:{tmp_path}/{home}/drums" for home in homes]
    found = reproduce(
        ["seed1-1"], ra.load_encoder, lambda name, several: load_dataset(name), tmp_path / "out", models=["tiny"], datasets=names,
        published=False, protocol="ours",
    )  # fmt: skip
    assert found.errors == {}
    runs = [ra.Run.open(folder) for folder in sorted((tmp_path / "out" / "tiny" / "runs").iterdir())]
    assert sorted(str(Path(run.clips.path[0]).parents[2].relative_to(tmp_path)) for run in runs) == list(homes)


def test_subsets_of_other_encoders():
    whisper, deep = (UnitTable(heads=((6,) * n,), d_head=(64,), d_model=(384,)) for n in (4, 12))
    assert last_groups(whisper) == {"S0B3": "S0B3 heads", "S0B2+S0B3": "S0B2 S0B3 heads",
                                    "S0B0+S0B1+S0B2+S0B3": "S0B0 S0B1 S0B2 S0B3 heads"}  # fmt: skip
    htsat = UnitTable(heads=((4,) * 2, (8,) * 2, (16,) * 6, (32,) * 2), d_head=(24,) * 4, d_model=(96, 192, 384, 768))
    assert list(last_groups(htsat)) == ["3", "2+3", "0+1+2+3"]
    assert (len(stage_sets(htsat)), stage_sets(htsat)["0"], len(stage_sets(whisper)), len(stage_sets(deep))) == (15, "S0 stages", 15, 13)


def test_without_arguments_it_lists_what_there_is(command, capsys):
    assert command() == 0
    text = capsys.readouterr().out
    assert all(name in text for name in TARGETS)
    assert "--model tiny --dataset notes" in text


def test_errors_say_what_to_do(command, capsys, tmp_path):
    cases = {
        ("seed1-9",): "did you mean seed1-",
        ("nonsense",): "lists them",
        (
            "seed1-1",
            "--data-root",
            tmp_path,
        ): "--model PATH --published. Without it, the same code runs by --model tiny --dataset notes",
        ("kfold-irmas", "--model", "tiny", "--data-root", tmp_path): "--model tiny --dataset notes",
        ("--published-heads", tmp_path / "none.csv", "--model", "tiny"): "none.csv: there is no such file",
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
    even = evenly(uneven, 3 * len(data.labels) + 2)
    assert np.bincount(even.targets).tolist() == [4, 4] + [3] * (len(data.labels) - 2)
    assert np.bincount(evenly(uneven, 7 * len(data.labels)).targets)[0] == 5, "all of a class that has fewer"
    folds = np.array([c.fold for c in in_random_folds(data).clips])
    assert sorted(np.bincount(folds)[1:]) == sorted([len(data) // 5] * 5)
    assert set(DATA.values()) == {"esc50", "tinysol", "vocalsound", "irmas"}
