"""Several models and datasets in one call: one table, finished pairs stay, and one that fails does not stop the others."""

import json
import shutil

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

import residual_audio as ra
from residual_audio.comparison.sweep import place_of


@pytest.fixture(scope="module")
def compared(command, whisper_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep")
    models = f"tiny,{whisper_dir}"
    words = ("sweep", models, "synthetic-voice,nowhere", "--methods", "plain,fisher-gains", "--units", "last", "--limit", 24, "--out", out)
    assert command(*words) == 0
    return out, words


def test_one_table_of_every_pair(compared, whisper_dir):
    out, _ = compared
    table = pd.read_parquet(out / "tables" / "sweep.parquet")
    assert table[["model", "method"]].to_numpy().tolist() == [[m, x] for m in ("tiny", str(whisper_dir)) for x in ("plain", "fisher-gains")]
    alone = pd.read_parquet(out / "tiny" / "synthetic-voice" / "tables" / "comparison_summary.parquet").set_index("method")
    mine = table[table.model == "tiny"].set_index("method")
    assert mine.accuracy.tolist() == alone.accuracy.tolist()
    assert mine.gain["fisher-gains"] == pytest.approx(alone.accuracy["fisher-gains"] - alone.accuracy["plain"])
    errors = json.loads((out / "sweep.json").read_text())["errors"]
    assert list(errors) == ["tiny on nowhere", f"{whisper_dir} on nowhere"]
    assert "no dataset 'nowhere'" in errors["tiny on nowhere"]


def test_finished_pairs_are_read_and_not_mixed(compared, command, capsys, monkeypatch):
    out, words = compared
    before = pd.read_parquet(out / "tables" / "sweep.parquet")
    with monkeypatch.context() as patch:
        patch.setattr("residual_audio.cli.sweep.open_model", lambda *given: pytest.fail("a finished pair was opened again"))
        patch.setattr("residual_audio.models.load_encoder", lambda *given: pytest.fail("a finished pair was opened again"))
        assert command(*words[:2], "synthetic-voice", *words[3:]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(out / "tables" / "sweep.parquet"), before)
    capsys.readouterr()
    assert command(*words[:2], "synthetic-voice", *words[3:], "--level", "clip") == 2
    assert "was finished with another recipe" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("how", ["retrained", "the same"])
def test_a_model_that_was_trained_again_is_noticed(how, compared, command, capsys, whisper_dir, tmp_path):
    """The same path with other weights: what was finished with the old ones is not taken for the new ones'."""
    out, words = compared
    name = place_of(str(whisper_dir))
    shutil.copytree(out, tmp_path / "out")
    home = shutil.copytree(whisper_dir, tmp_path / "model")
    # As if the pair had been finished with the model at the new path.
    pair = tmp_path / "out" / place_of(str(home)) / "synthetic-voice"
    pair.parent.mkdir()
    (tmp_path / "out" / name / "synthetic-voice").rename(pair)
    (pair / "pair.json").write_text((pair / "pair.json").read_text().replace(str(whisper_dir), str(home)))
    if how == "retrained":
        tensors = load_file(home / "model.safetensors")
        save_file({k: v + 0.01 if v.is_floating_point() else v for k, v in tensors.items()}, home / "model.safetensors", {"format": "pt"})
    code = command("sweep", home, "synthetic-voice", *words[3:-1], tmp_path / "out")
    told = capsys.readouterr().err.replace("\n", " ")
    assert (code, "was finished with other weights" in told) == ((2, True) if how == "retrained" else (0, False)), told


def test_analyses_in_one_table(command, capsys, tmp_path):
    words = ("sweep", "tiny", "synthetic-voice,notes", "--what", "analyze", "--limit", 8, "--out", tmp_path)
    assert command(*words) == 0
    table = pd.read_parquet(tmp_path / "tables" / "sweep.parquet")
    assert table[["dataset", "stage"]].to_numpy().tolist() == [[d, s] for d in ("synthetic-voice", "notes") for s in range(4)]
    heads = ra.analyze(ra.Run.open(tmp_path / "tiny" / "notes")).heads()
    expected = heads.groupby("stage").pca_99.mean()
    assert table[table.dataset == "notes"].pca_99.tolist() == pytest.approx(expected.tolist())
    assert command(*words, "--methods", "plain") == 2
    assert "read by --what compare only" in capsys.readouterr().err.replace("\n", " ")
