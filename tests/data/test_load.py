from __future__ import annotations

import pkgutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from residual_audio.data import DATASETS, DataError, DataWarning, Generated, Own, Published, load_dataset, sets
from residual_audio.data.prompts import TEMPLATES, fill, templates


@pytest.mark.parametrize(("name", "meant"), [("esc-50", "esc50"), ("tinysole", "tinysol"), ("synthetic-timber", "synthetic-timbre")])
def test_near_matches(name, meant):
    with pytest.raises(DataError, match=f"no dataset '{name}'; did you mean .*{meant}"):
        load_dataset(name)


def test_nothing_near():
    with pytest.raises(DataError, match=r"no dataset 'qqq'\. Known are notes, esc10, esc50, .*hf:REPO"):
        load_dataset("qqq")


@pytest.mark.parametrize("name", [name for name, source in DATASETS.items() if isinstance(source, Published)])
def test_absent_datasets_name_layout_and_address(name, tmp_path):
    with pytest.raises(DataError) as caught:
        load_dataset(name)
    text = str(caught.value)
    assert str(tmp_path / "no-data") in text
    assert "Expected layout:\n  ROOT/" in text
    assert "https://" in text


def test_every_file_registers_what_it_holds_with_one_line_of_help():
    files = {module.name for module in pkgutil.iter_modules(sets.__path__)}
    homes = {getattr(source.load, "func", source.load).__module__.rpartition(".")[2] for source in DATASETS.values()}
    assert homes == files
    assert {"esc50", "esc10", "synthetic", "folder", "table", "hf"} <= set(DATASETS)
    assert all(source.help and "\n" not in source.help for source in DATASETS.values())


def test_the_users_own_data_is_shown_with_its_pattern():
    shown = {source.shown for source in DATASETS.values() if isinstance(source, Own)}
    assert shown == {"folder:PATH", "table:PATH", "hf:REPO[:SPLIT]"}


def test_a_list_of_datasets_needs_no_torch():
    code = (
        "import sys; from residual_audio.data import DATASETS, load_dataset; len(DATASETS); load_dataset('synthetic-voice'); "
        "print(sorted({'torch', 'transformers', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_what_is_made_on_the_fly_lies_nowhere(tmp_path):
    assert any(isinstance(source, Generated) for source in DATASETS.values())
    with pytest.raises(DataError, match="lies in no folder"):
        load_dataset("synthetic-voice", root=tmp_path)


def test_bare_paths_are_folders_or_tables_and_start_at_the_root(tmp_path, write):
    sound = write(tmp_path / "mine" / "dog" / "x.wav")
    (tmp_path / "list.csv").write_text(f"path,label\n{sound},dog\n")
    for name in ("mine", "folder:mine", "list.csv", "table:list.csv", str(tmp_path / "mine"), str(tmp_path / "list.csv")):
        assert [Path(c.path) for c in load_dataset(name, root=tmp_path).clips] == [sound]
    for name in ("folder:gone", "table:gone", "gone.csv"):
        with pytest.raises(DataError, match=r"there is no (folder|file) .*gone"):
            load_dataset(name, root=tmp_path)


def test_data_without_groups_bring_a_warning_and_a_note(tmp_path, write):
    write(tmp_path / "mine" / "dog" / "x.wav")
    with pytest.warns(DataWarning, match=r"mine does not say which clips belong together.*LABEL/GROUP/x.wav") as told:
        data = load_dataset("folder:mine", root=tmp_path)
    assert len(told) == 1
    assert data.notes["groups"].startswith("none")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        assert "groups" not in load_dataset("synthetic-voice", per_class=2).notes, "takes are independent"
        (tmp_path / "t.csv").write_text("path,label\nsynthetic:voice/0/5,a\n")
        assert "groups" not in load_dataset("t.csv", root=tmp_path).notes


@pytest.mark.parametrize("name", ["synthetic-voice", "esc10", "folder:x"])
def test_an_option_that_the_loader_does_not_read_is_refused(name):
    with pytest.raises(DataError, match=r"has no option 'colour'; it has (per_class|subset|group)"):
        load_dataset(name, colour="red")


def test_a_known_name_wins_over_a_folder(tmp_path, monkeypatch, write):
    write(tmp_path / "esc50" / "dog" / "x.wav")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="esc50: there is no folder"):
        load_dataset("esc50")
    assert len(load_dataset("folder:esc50")) == 1


def test_templates():
    assert templates("{} in a room") == ("{} in a room",)
    assert fill(templates("plain"), ["dog", "cat"]) == [["dog"], ["cat"]]
    assert all("{}" in template for group in TEMPLATES.values() for template in group)
    with pytest.raises(ValueError, match="unknown template set 'nope'; one of sound-of"):
        templates("nope")
