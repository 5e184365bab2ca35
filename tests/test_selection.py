"""One grammar: the same text names the same units in every verb, and what a verb cannot use it refuses with the one error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_audio.ablation import ablate
from residual_audio.ablation.engine import ABLATABLE
from residual_audio.adaptation.adapt import adapt
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.select import PLACES as KINDS
from residual_audio.adaptation.select import choose_places
from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.meaning import ask, describe
from residual_audio.models import load_encoder
from residual_audio.units import WRITERS, SelectionError, UnitTable

HTSAT = UnitTable(heads=((4,) * 2, (8,) * 2, (16,) * 6, (32,) * 2), d_head=(24,) * 4, d_model=(96, 192, 384, 768))
PLACES = ["S0", "S3", "S2B1", "S3B0"]
LABELS = ["S2B1H7", "S0B0H3", "S3B1M"]
TEXTS = st.lists(st.sampled_from(["heads", "mlps", "blocks", "stages", "last", *PLACES, *LABELS]), min_size=1, max_size=5).map(" ".join)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    return load_dataset("synthetic-voice", per_class=5)


@pytest.fixture(scope="module")
def run(encoder, data, tmp_path_factory):
    return extract(encoder, data.limited(16), tmp_path_factory.mktemp("selection") / "run", ("embedding", "direct"))


@settings(deadline=None, max_examples=200)
@given(TEXTS)
def test_what_adapt_changes_is_what_select_names(text):
    """Places are the selected units, grouped; a text that can be selected and is not adapted is refused for a stated reason."""
    try:
        units = HTSAT.select(text, only=tuple(KINDS))
    except SelectionError as error:
        with pytest.raises(SelectionError) as told:
            choose_places(HTSAT, text)
        assert str(told.value) == str(error)
        return
    try:
        labels = [label for place in choose_places(HTSAT, text) for label in place.labels]
    except SelectionError as error:
        assert "twice" in str(error)
        return
    assert sorted(labels) == sorted(u.label for u in units)


@pytest.mark.parametrize("text", ["S3B1H0, S3B1H5", "S0B0", "S0B1 heads"])
def test_every_verb_resolves_the_same_text_to_the_same_units(encoder, data, run, text, tmp_path):
    expected = {u.label for u in encoder.units.select(text)}
    adapted = adapt(encoder, data, Recipe(units=text, epochs=1)).residual
    tokens = extract(encoder, data.limited(2), tmp_path / "run", ("tokens",), units=text).keys
    few = {"methods": ["somp"], "permutations": 2, "resamples": 0, "select": False}
    seen = {
        "adapt": {label for s in adapted.sets for label in s.place.labels},
        "extract": {key.removeprefix("tokens.") for key in tokens if key.startswith("tokens.")},
        "ablate": set(ablate(encoder, data.limited(8), text).table().label),
        "describe": set(describe(run, "synthetic", text, **few).tables["descriptions"].label),
        "ask": set(ask(run, "a bell", text).tables["ask_units"].query("kind != 'constant'").label),
    }
    assert seen == dict.fromkeys(seen, expected)


def test_the_same_text_is_wrong_everywhere(encoder, data, run, tmp_path):
    """One error, whoever is asked."""
    told = []
    for verb in (
        lambda: encoder.units.select("S9 heads"),
        lambda: adapt(encoder, data, Recipe(units="S9 heads")),
        lambda: extract(encoder, data.limited(2), tmp_path / "run", ("tokens",), units="S9 heads"),
        lambda: ablate(encoder, data, "S9 heads"),
        lambda: describe(run, "synthetic", "S9 heads"),
        lambda: ask(run, "a bell", "S9 heads"),
    ):
        with pytest.raises(SelectionError) as error:
            verb()
        told.append(str(error.value))
    assert len(set(told)) == 1


def test_units_that_a_verb_cannot_use_are_refused_by_kind(encoder, data, run):
    for verb, only in ((lambda: ablate(encoder, data, "E"), ABLATABLE), (lambda: ask(run, "a bell", "S3 blocks"), WRITERS)):
        with pytest.raises(SelectionError, match=f"here only {', '.join(only)} can be used"):
            verb()
