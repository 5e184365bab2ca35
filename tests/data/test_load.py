from __future__ import annotations

import pytest

from residual_audio.data import KNOWN, DataError, load_dataset
from residual_audio.data.prompts import TEMPLATES, fill, templates


@pytest.mark.parametrize(("name", "meant"), [("esc-50", "esc50"), ("tinysole", "tinysol"), ("synthetic-timber", "synthetic-timbre")])
def test_near_matches(name, meant):
    with pytest.raises(DataError, match=f"no dataset '{name}'; did you mean .*{meant}"):
        load_dataset(name)


def test_nothing_near():
    with pytest.raises(DataError, match=r"no dataset 'qqq'\. Known are esc50, .*hf:REPO"):
        load_dataset("qqq")


@pytest.mark.parametrize("name", ["esc50", "esc10", "tinysol", "vocalsound", "irmas"])
def test_absent_datasets_name_layout_and_address(name, tmp_path):
    with pytest.raises(DataError) as caught:
        load_dataset(name)
    text = str(caught.value)
    assert str(tmp_path / "no-data") in text
    assert "Expected layout:\n  ROOT/" in text
    assert "https://" in text


def test_every_known_name_has_one_line():
    assert all(text and "\n" not in text for text in KNOWN.values())


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
