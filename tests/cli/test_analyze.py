"""``analyze`` and what ``ablate`` leaves for it, as a user runs them: words in, files and exit codes out."""

import inspect
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import residual_audio.analysis
from residual_audio.analysis import MEASURES, battery, select
from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder
from residual_audio.report import figures

# Every figure is tested in tests/report; here three stand for all, and small, since all would take most of a minute to draw.
SOME = ("panel_A", "fisher_vs_ablation", "block_ablation")


@pytest.fixture(scope="module", autouse=True)
def some_figures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "FIGURES", {name: figures.FIGURES[name] for name in SOME})
        yield


@pytest.fixture(scope="module")
def encoder(whisper_dir):
    """Twelve heads in three blocks of one stage: the smallest there is."""
    return load_encoder(whisper_dir, seconds=1.0)


@pytest.fixture(scope="module")
def run(encoder, tmp_path_factory):
    return extract(encoder, load_dataset("synthetic-voice", per_class=2), tmp_path_factory.mktemp("runs") / "voice", batch_size=8)


@pytest.fixture(scope="module")
def analysed(run, command, whisper_dir):
    """Ablations of heads and blocks beside the run, then both regimes with figures."""
    folder = run.store.local
    ablate = ("ablate", whisper_dir, "synthetic-voice", "--limit", 10, "--seconds", 1, "--out", folder)
    assert command(*ablate, "--units", "heads", "--how", "zero") == 0
    assert command(*ablate, "--units", "blocks") == 0
    assert command("analyze", folder, "--regime", "both", "--k", 5, "--similarity", "spectra,subspaces, cka") == 0
    return folder


def same_numbers(folder, name) -> pd.DataFrame:
    """Parquet and CSV say the same."""
    exact, text = pd.read_parquet(folder / f"{name}.parquet"), pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values=[""])
    assert list(exact.columns) == list(text.columns)
    for column in exact.select_dtypes("number"):
        np.testing.assert_allclose(exact[column], text[column].astype(float), rtol=1e-7 if exact[column].dtype == np.float32 else 1e-12)
    return exact


def first_words(text: str) -> list[str]:
    """The first word of every line of the tables on the screen: a number follows it."""
    return re.findall(r"^ (\S+) +[\d.]+ ", text, re.M)


def test_tables_of_both_regimes(analysed, run):
    names = {p.stem for p in (analysed / "tables").glob("*.parquet")}
    assert names == {p.stem for p in (analysed / "tables").glob("*.csv")}
    own = {"heads", "blocks", "stages", "components", "class_activation", "similarity_spectra", "similarity_subspaces", "similarity_cka",
            "similarity_summary", "clusters", "statistics", "pairwise", "trend", "variation", "borders", "dominance",
            "shape", "importance"}  # fmt: skip
    ablations = {"ablation_head", "ablation_class_head", "ablation_block", "ablation_class_block"}
    assert names == own | ablations
    for name in names:
        assert len(same_numbers(analysed / "tables", name)), name
    stored = pd.read_parquet(analysed / "tables" / "heads.parquet")
    assert list(stored.columns[:3]) == ["regime", "level", "label"]
    heads = select({"heads": stored}, "post")["heads"]
    assert heads.label.tolist() == [u.label for u in run.units.where("head")]
    assert (heads.k == 5).all()
    square = select({"similarity_cka": pd.read_parquet(analysed / "tables" / "similarity_cka.parquet")})["similarity_cka"]
    assert square.columns.tolist() == ["label", *square.label]


def test_tables_for_a_paper(analysed):
    paper = analysed / "tables" / "paper"
    expected = {f"{prefix}table_{i}" for prefix in ("", "postproj_") for i in (1, 2, 3, 6, 7)}
    for ending in ("csv", "md", "tex"):
        assert {p.stem for p in paper.glob(f"*.{ending}")} == expected
    assert (paper / "table_1.md").read_text().startswith("Intrinsic dimension by stage")
    assert "\\toprule" in (paper / "postproj_table_3.tex").read_text()


def test_figures_of_both_regimes_and_of_the_ablations(analysed):
    drawn = sorted(p.name for p in (analysed / "figures").iterdir())
    assert drawn == sorted(f"{prefix}{name}.{end}" for prefix in ("", "postproj_") for name in SOME for end in ("pdf", "png"))
    for path in (analysed / "figures").iterdir():
        assert path.read_bytes().startswith(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")


def test_what_was_done_is_recorded(analysed, run):
    record = json.loads((analysed / "analysis.json").read_text())
    assert record | {"regime": "both", "k": 5, "clips": 16, "seed": 0, "level": "clip", "errors": {}} == record
    assert record["model"] == run.info["model"]
    assert record["dataset"]["name"] == "synthetic-voice"
    assert record["extraction"] == run.info["settings"]
    assert record["command"].startswith("residual-audio ")
    assert record["versions"]["torch"]
    record = json.loads((analysed / "ablation_head.json").read_text())
    assert record["settings"] | {"units": "heads", "how": "zero", "classifier": "centroids", "limit": 10} == record["settings"]
    assert 0 <= record["accuracy"] <= 1
    assert len(record["first_order_spearman"]) == 2
    assert run.complete, "the run itself is as it was"
    assert json.loads((analysed / "run.json").read_text()) == run.info


def test_the_screen_has_a_line_per_block_where_there_is_one_stage(analysed, command, capsys, tmp_path):
    assert command("analyze", analysed, "--no-figures", "--points", 6, "--seed", 2, "--out", tmp_path / "o") == 0
    text = capsys.readouterr().out
    assert "synthetic-voice: 6 clips, 16 tables in" in text
    assert "means over heads" in text
    assert first_words(text) == ["S0B0", "S0B1", "S0B2"]
    assert "\x1b" not in text
    assert not (tmp_path / "o" / "figures").exists()
    assert (pd.read_parquet(tmp_path / "o" / "tables" / "heads.parquet").n == 6).all()


def test_tokens_have_spectra(analysed, command, tmp_path):
    assert command("analyze", analysed, "--level", "token", "--out", tmp_path / "o") == 0
    heads = pd.read_parquet(tmp_path / "o" / "tables" / "heads.parquet")
    assert (heads.level == "token").all()
    assert (heads.n > 16).all()
    assert heads.twonn.isna().all()
    assert {p.name for p in (tmp_path / "o" / "figures").glob("*.png")} == {"token_panel_A.png"}
    assert not (tmp_path / "o" / "tables" / "paper").exists(), "the papers' tables are of clips"


@pytest.fixture(scope="module")
def microsoft(msclap_path, tmp_path_factory):
    """Runs of another model on two datasets, and its name."""
    encoder, home = load_encoder(msclap_path), tmp_path_factory.mktemp("microsoft")
    for name in ("voice", "timbre"):
        extract(encoder, load_dataset(f"synthetic-{name}").limited(8), home / f"ms-{name}", ("head",), batch_size=8)
    return home, encoder.name


def test_two_runs_are_compared(microsoft, command, tmp_path, capsys):
    home, _ = microsoft
    assert command("analyze", home / "ms-voice", home / "ms-timbre", "--no-figures", "--draws", 0, "--out", tmp_path / "o") == 0
    text = capsys.readouterr().out
    assert "synthetic-timbre" in text
    assert first_words(text) == ["S0", "S1", "S2", "S3"] * 2 + ["PCA99", "TwoNN", "PR", "L/N"]
    assert "models differ" not in text
    assert {p.name for p in (tmp_path / "o").iterdir()} == {"tables", "ms-voice", "ms-timbre"}
    for name in ("ms-voice", "ms-timbre"):
        assert (tmp_path / "o" / name / "tables" / "heads.parquet").exists()
        assert (tmp_path / "o" / name / "analysis.json").exists()
        assert not (tmp_path / "o" / name / "figures").exists()
    tests = same_numbers(tmp_path / "o" / "tables", "dataset_statistics")
    assert set(tests.test) == {"anova", "kruskal", "wilcoxon"}
    assert set(tests.stage) == {"S0", "S1", "S2", "S3", "all"}
    assert (tests.dataset == "synthetic-voice, synthetic-timbre").all()
    paper = tmp_path / "o" / "tables" / "paper"
    assert {p.stem for p in paper.glob("*.md")} == {f"table_{i}" for i in (1, 2, 3, 4, 6, 7)}
    assert "synthetic-timbre" in (paper / "table_4.md").read_text()
    assert pd.read_csv(paper / "table_2.csv").columns.tolist() == ["Measure", "synthetic-voice", "synthetic-timbre"]


def test_runs_of_two_models_stand_side_by_side_and_are_not_paired(run, microsoft, command, tmp_path, capsys):
    """Same data: columns named by model. Other data too: by both."""
    (home, theirs), whisper = microsoft, run.info["model"]["name"]
    cases = {
        "ms-voice": ["Measure", whisper, theirs],
        "ms-timbre": ["Measure", f"{whisper} on synthetic-voice", f"{theirs} on synthetic-timbre"],
    }
    for other, columns in cases.items():
        out = tmp_path / f"o-{other}"
        assert command("analyze", run.store.local, home / other, "--no-figures", "--draws", 0, "--out", out) == 0
        text = capsys.readouterr().out
        assert text.count("nothing is paired or tested between these runs: their models differ\n") == 1
        assert not (out / "tables" / "dataset_statistics.parquet").exists()
        paper = out / "tables" / "paper"
        assert pd.read_csv(paper / "table_2.csv").columns.tolist() == columns
        assert (paper / "table_2.md").read_text().startswith("Last stage across models")
        assert f"{theirs} on synthetic-" in (paper / "table_4.md").read_text().replace("\\", "")


def test_a_run_is_named_once(run, command, capsys):
    assert command("analyze", run.store.local, run.store.local) == 2
    assert "a run is named twice" in capsys.readouterr().err


def test_errors_are_one_clear_line(run, encoder, command, capsys, tmp_path, monkeypatch):
    """Exit status 2, and the line says what to do. Without the type checks of the tests, as a user has it."""
    monkeypatch.setattr(residual_audio.analysis, "analyze", inspect.unwrap(residual_audio.analysis.analyze))
    monkeypatch.setattr(battery, "checked", inspect.unwrap(battery.checked))
    folder, empty, unfinished, bare = run.store.local, tmp_path / "empty", tmp_path / "unfinished", tmp_path / "bare"
    empty.mkdir()
    shutil.copytree(folder, unfinished, ignore=shutil.ignore_patterns("clips.parquet", "tables", "figures", "ablation"))
    (unfinished / "run.json").write_text(json.dumps({k: v for k, v in run.info.items() if k != "labels"} | {"status": "running"}))
    extract(encoder, load_dataset("synthetic-voice", per_class=1), bare, ("head",), batch_size=8)
    cases = {
        ("analyze", tmp_path / "nowhere"): "no run.json; expected a directory written by `residual-audio extract`",
        ("analyze", empty): "no run.json",
        ("analyze", unfinished): "is not finished; run the same `residual-audio extract` command again",
        ("analyze", folder, "--similarity", "direct"): "--granularity head,moments,direct",
        ("analyze", folder, "--similarity", "angle"): "one or more of spectra, subspaces, paired, cka, direct",
        ("analyze", folder, "--clusters", 500): "cannot make 500 clusters of 12 heads",
        ("analyze", bare, "--level", "token"): "no token-level moments",
        ("ablate", "tiny", "synthetic-voice", "--classifier", "loss"): "unknown classifier 'loss'",
    }
    for words, says in cases.items():
        assert command(*words) == 2, words
        written = capsys.readouterr().err
        assert says in written, words
        assert written.startswith("error: ")
        assert written.count("\n") == 1
    choices = {("analyze", folder, "--regime"): ("after", "uncentred"), ("analyze", folder, "--level"): ("frame", "token")}
    for words, (word, known) in {**choices, ("ablate", "tiny", "synthetic-voice", "--how"): ("noise", "mean")}.items():
        assert command(*words, word) == 2
        written = capsys.readouterr().err
        assert f"'{word}' is not one of" in written
        assert f"'{known}'" in written
        assert "Traceback" not in written


def test_help_lists_every_measure(command, capsys):
    assert command("analyze", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    for measure in MEASURES.values():
        assert measure.name in text
        assert measure.help in text


@pytest.mark.parametrize("verb", ["analyze", "ablate"])
def test_help_teaches_with_an_example(command, capsys, verb):
    assert command(verb, "--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.strip().startswith(f"residual-audio {verb} ") for line in lines), "no example on a line of its own"
