"""Dictionaries are data: complete, without repetition, with their source; and the user's own."""

import pytest

from residual_audio.data.synthesis.captions import SYNONYMS
from residual_audio.data.synthesis.catalogue import SOURCES
from residual_audio.meaning import DICTIONARIES, MeaningError, load_dictionary
from residual_audio.meaning.dictionary import FOLDER


@pytest.mark.parametrize(("name", "count"), [("audioset", 527), ("esc50", 50)])
def test_lists_of_others_are_whole(name, count):
    assert len(load_dictionary(name)) == count


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_every_file_says_where_it_comes_from_and_repeats_nothing(path):
    lines = path.read_text().splitlines()
    head = " ".join(line for line in lines if line.startswith("#"))
    assert any(word in head for word in ("CC BY", "MIT")), "no licence in the header"
    words = [line.casefold() for line in lines if not line.startswith("#")]
    assert len(words) == len(set(words))
    assert all(w == w.strip() and w for w in words)
    assert path.stem in DICTIONARIES


def test_esc50_is_what_the_dataset_says(shared):
    labels = {line.split(",")[3].replace("_", " ") for line in (shared / "data/esc50/meta/esc50.csv").read_text().splitlines()[1:]}
    assert set(load_dictionary("esc50").words) == labels


def test_synthetic_has_every_noun_and_every_adjective_of_the_captions():
    words = load_dictionary("synthetic").words
    assert {n for kind in SOURCES for n in kind.nouns} <= set(words)
    assert all(any(f" {a} sound" in f" {w}" for w in words) for group in SYNONYMS.values() for a in group)


def test_several_are_joined_and_a_word_counts_once(tmp_path):
    own = tmp_path / "mine.txt"
    own.write_text("# my words\n\nCat\n  a creaking gate \n")
    book = load_dictionary(["esc50", str(own)])
    assert len(book) == 51
    assert dict(zip(book.words, book.sources, strict=True))["cat"] == "esc50"
    assert (book.words[-1], book.sources[-1]) == ("a creaking gate", "mine")
    assert book.hash != load_dictionary("esc50").hash


def test_what_is_none_is_told(tmp_path):
    with pytest.raises(MeaningError, match="audioset, esc50"):
        load_dictionary("no-such")
    (tmp_path / "short.txt").write_text("one\ntwo\n")
    with pytest.raises(MeaningError, match="too few"):
        load_dictionary(str(tmp_path / "short.txt"))
    (tmp_path / "image.txt").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(MeaningError, match="cannot be read"):
        load_dictionary(str(tmp_path / "image.txt"))
