"""``steer`` and ``explain`` as a user runs them."""

import json

import pandas as pd
import pytest
import soundfile

from residual_audio.adaptation.attach import attached
from residual_audio.models import load_encoder

FEW = ("--limit", 24)


def test_more_and_less_give_an_adapter_that_folds(command, tmp_path, capsys):
    out, folded = tmp_path / "a", tmp_path / "f"
    assert command("steer", "tiny", "--more", "bell", "--less", "rain", "--controls", 1, "--limit", 80, "--out", out) == 0
    shown = capsys.readouterr().out
    assert "bell (more)" in shown
    assert "random axes" in shown
    assert "nothing was trained" in shown.replace("\n", " ")
    table = pd.read_parquet(out / "tables" / "steer_concepts.parquet").set_index("concept")
    assert table.gain["bell"] > 1 > table.gain["rain"]
    assert json.loads((out / "steer.json").read_text())["strength"] == 1.0
    assert command("fold", "tiny", out, "--out", folded) == 0
    from residual_audio import load_adapter

    encoder = load_encoder("tiny")
    noise = encoder.policy.noise()
    with attached(encoder, load_adapter(out, encoder)):
        live = encoder.embed([noise])
    assert (load_encoder(folded).embed([noise]) - live).abs().max() <= 1e-5
    why = ("explain", "tiny", "synthetic:source/8/20000002", "--text", "bell", "--no-curves", *FEW)
    assert command(*why, "--adapter", out, "--out", tmp_path / "why") == 0
    assert command(*why, "--out", tmp_path / "plain") == 0
    capsys.readouterr()
    told = [json.loads((tmp_path / name / "explain.json").read_text()) for name in ("why", "plain")]
    assert [one["adapter"] for one in told] == [str(out), None]
    codes = [pd.read_parquet(tmp_path / name / "tables" / "explain_code.parquet") for name in ("why", "plain")]
    scores = [code.set_index("concept").score["bell"] for code in codes]
    assert abs(scores[0] - scores[1]) > 1e-3
    assert command("steer", "tiny", "--more", "bell", *FEW, "--out", out) == 2
    assert "holds an adapter already" in capsys.readouterr().err.replace("\n", " ")


def test_sounds_are_explained_and_written(command, tmp_path, capsys):
    sounds = ("synthetic:source/8/20000002", "synthetic:source/1/20000002")
    assert command("explain", "tiny", *sounds, "--text", "bell", "--words", 4, "--draws", 1, *FEW, "--out", tmp_path / "x") == 0
    shown = capsys.readouterr().out
    assert "bell *" in shown
    assert "over 2 clips" in shown
    folders = sorted(p for p in (tmp_path / "x").iterdir() if p.name != "tables")
    assert len(folders) == 2
    for folder in folders:
        names = {p.name for p in (folder / "sounds").iterdir()}
        assert names == {"original.wav", "1-bell-kept.wav", "1-bell-removed.wav", "1-bell-against.wav"}
        kept, removed, whole = (soundfile.read(folder / "sounds" / f"{n}.wav")[0] for n in ("1-bell-kept", "1-bell-removed", "original"))
        assert abs(kept + removed - whole).max() < 1e-6
    over = pd.read_parquet(tmp_path / "x" / "tables" / "explain_faithfulness.parquet")
    assert set(over.order) == {"shares", "gradient", "loudness", "random", "shifted"}
    assert over.clips.tolist() == [2] * 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("steer", "tiny"), "nothing to steer"),
        (("steer", "tiny", "--more", "a", "--by", "luck"), "one of shares, somp"),
        (("steer", "tiny", "--more", "a", "--replace"), "--replace is for"),
        (("steer", "tiny", "--more", "a", "--dictionary", "nope"), "no dictionary"),
        (("explain", "tiny", "nope.wav"), "there is no such file"),
        (("explain", "tiny", "synthetic:source/8/1", "--adapter", "./nope"), "there is no such folder"),
        (("explain", "tinny", "synthetic:source/8/1"), "unknown model"),
    ],
)
def test_mistakes_are_told_in_one_line(command, capsys, words, message):
    assert command(*words) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("error:") == 1


def test_how_data_are_read_needs_data(command, capsys):
    assert command("steer", "tiny", "--more", "bell", "--data-root", "somewhere") == 2
    assert "give --data too" in capsys.readouterr().err
