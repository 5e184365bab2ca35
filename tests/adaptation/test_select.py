import pytest

from residual_audio.adaptation.select import Place, choose_places
from residual_audio.units import SelectionError, UnitTable

UNITS = UnitTable(heads=((2, 2), (4, 4, 4)), d_head=(8, 8), d_model=(16, 32))


def labels(selection):
    return [label for place in choose_places(UNITS, selection) for label in place.labels]


def test_everything_by_default():
    assert labels("heads") == [u.label for u in UNITS.where("head")]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("S0 heads", ["S0B0H0", "S0B0H1", "S0B1H0", "S0B1H1"]),
        ("S0", ["S0B0H0", "S0B0H1", "S0B1H0", "S0B1H1"]),
        ("S0B1 mlps", ["S0B1M"]),
        ("S0,S1 stages", ["S0", "S1"]),
        ("S1 blocks", ["S1B0", "S1B1", "S1B2"]),
        ("S1B2H3 S0B0H1", ["S0B0H1", "S1B2H3"]),
        ("S0B0H1 S1B0M", ["S0B0H1", "S1B0M"]),
        ("embedding", ["embedding"]),
        ("S0B0 heads mlps", ["S0B0H0", "S0B0H1", "S0B0M"]),
        ("HEAD", [u.label for u in UNITS.where("head")]),
    ],
)
def test_selections(selection, expected):
    assert labels(selection) == expected


def test_a_stage_shares_one_basis_between_its_blocks():
    assert choose_places(UNITS, "S1 stages") == [Place("stages", ((1, 0), (1, 1), (1, 2)))]


@pytest.mark.parametrize("selection", ["S9 heads", "S0B7", "S0B0H9", "layers", "E"])
def test_what_is_not_there_is_named(selection):
    with pytest.raises(SelectionError):
        choose_places(UNITS, selection)


def test_nothing_is_adapted_twice():
    with pytest.raises(SelectionError, match="twice"):
        choose_places(UNITS, "S0 blocks stages")
