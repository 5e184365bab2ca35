"""Names that others wrote are shown and stored as text: they never act, on a terminal, in a spreadsheet or on a page."""

import io
import re
import time

import pandas as pd
import pytest
from rich.table import Table
from rich.text import Text

from residual_audio.cli.screen import Screen
from residual_audio.data import Clip, DataError, load_dataset, make_dataset
from residual_audio.report.page.page import allowed, rendered
from residual_audio.results import csv_text, write_table
from residual_audio.spelling import harmless, printable

EVIL = "[/red]evil \x1b[2J\x07 :bomb: [cel][cla]1.wav \u202egnp.exe"


def screen() -> tuple[Screen, io.StringIO]:
    file = io.StringIO()
    return Screen(file=file, width=200, force_terminal=True, color_system=None), file


def test_a_screen_shows_names_as_they_are_and_obeys_none():
    console, file = screen()
    table = Table("name [/red]", title=EVIL, caption=EVIL)
    table.add_row(EVIL)
    table.add_row("[laughter]")
    console.print(table)
    console.print(EVIL)
    console.print(Text("error:", "bold red"), EVIL)
    shown = file.getvalue()
    assert "[laughter]" in shown
    assert shown.count("[/red]evil \\x1b[2J\\x07 :bomb: [cel][cla]1.wav \\u202egnp.exe") == 5
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("label", ["[/red]evil", "[laughter]", "cafe\u0301 :bomb:"])
def test_a_command_survives_any_class(label, command, capsys, sound_files, tmp_path):
    rows = [{"path": str(p), "label": label if i % 2 else "=HYPERLINK(1)", "id": f"{label}{i}"} for i, p in enumerate(sound_files[:4])]
    pd.DataFrame(rows).to_csv(tmp_path / "clips.csv", index=False)
    assert command("zero-shot", "tiny", tmp_path / "clips.csv", "--out", tmp_path / "out") == 0
    assert label.replace("e\u0301", "é") in capsys.readouterr().out
    written = (tmp_path / "out" / "tables" / "classes.csv").read_text()
    assert "\n'=HYPERLINK(1)," in written
    assert set(pd.read_parquet(tmp_path / "out" / "tables" / "classes.parquet").label) == {label.replace("e\u0301", "é"), "=HYPERLINK(1)"}


def test_no_cell_of_a_csv_is_a_formula(tmp_path):
    cells = ["=1+1", "@SUM(A1)", "-2+3+cmd|' /C calc'!A0", "+1.5 ± 0.2", "-3 %", "\tx", "fine"]
    assert [harmless(c) != c for c in cells] == [True, True, True, False, False, True, False]
    table = pd.DataFrame({"=bad": cells, "n": range(7), "x": [-1.5] * 7})
    write_table(table, tmp_path, "t")
    assert list(pd.read_csv(tmp_path / "t.csv")["n"]) == list(range(7))
    assert (tmp_path / "t.csv").read_text().startswith("'=bad,n,x\n'=1+1,0,-1.5\n")
    assert csv_text(table) == (tmp_path / "t.csv").read_text()
    assert pd.read_parquet(tmp_path / "t.parquet")["=bad"].tolist() == cells


def test_one_spelling_of_a_label():
    data = make_dataset("x", [Clip("1", "a.wav", "caf\u00e9"), Clip("2", "b.wav", "cafe\u0301")])
    assert data.labels == ("caf\u00e9",)


def test_a_row_with_more_fields_than_the_header_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\na.wav,dog\nb.wav,cat,extra\n")
    with pytest.raises(DataError, match="line 3"):
        load_dataset(f"table:{tmp_path / 't.csv'}")
    (tmp_path / "t.csv").write_text("path,label\na.wav,dog,x\nb.wav,cat,y\n")
    with pytest.raises(DataError, match="line 2"):
        load_dataset(f"table:{tmp_path / 't.csv'}")


def test_printable_keeps_words():
    for word in ("Müller", "犬", "naïve dog", "a-b_c", "👩‍🎤"):
        assert printable(word) == word


def test_the_page_runs_its_own_scripts_only():
    page_html = rendered({"meta": {"title": "x"}})
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page_html)[1]
    assert "form-action 'none'" in policy
    assert "base-uri 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    for kind in ("<script>", '<script type="text/plain" id="plotly">'):
        script = page_html.split(kind)[1].split("</script>")[0]
        assert allowed(script) in policy


def test_a_hundred_thousand_clips_of_ten_thousand_classes_load_in_seconds():
    """Not a timing: with anything quadratic in it this would not end within a minute."""
    clips = [Clip(str(i), f"{i}.wav", f"class {i % 10_000}") for i in range(100_000)]
    began = time.process_time()
    data = make_dataset("large", clips)
    assert len(data.targets) == len(data.without({"5"})) + 1
    assert len(data.limited(50_000)) == 50_000
    assert time.process_time() - began < 60
