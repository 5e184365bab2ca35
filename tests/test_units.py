import pytest
from hypothesis import given
from hypothesis import strategies as st

from residual_audio.units import INPUT, KINDS, SelectionError, Unit, UnitTable

TABLE = UnitTable(heads=((4, 4), (8, 8), (16,) * 6, (32, 32)), d_head=(24,) * 4, d_model=(96, 192, 384, 768))


def test_htsat_has_184_heads_and_12_mlps():
    assert len(TABLE.where("head")) == 184
    assert len(TABLE.where("mlp")) == 12
    assert len(TABLE) == 1 + 184 + 12
    assert TABLE[0] is INPUT


def test_selection_by_stage_and_block():
    assert len(TABLE.where("head", stage=2)) == 96
    assert [u.label for u in TABLE.where(stage=0, block=1)] == ["S0B1H0", "S0B1H1", "S0B1H2", "S0B1H3", "S0B1M"]
    assert TABLE.blocks[3] == (1, 1)


def test_labels():
    assert Unit(2, 1, "head", 7).label == "S2B1H7"
    assert Unit.parse("S2B1M") == Unit(2, 1, "mlp")
    assert Unit.parse("S2") == Unit(2, -1, "stage")
    assert Unit.parse("S2B1") == Unit(2, 1, "block")
    for bad in ("", "B1", "S2H1", "s2b1h7", "S2B1H7 ", "L2_B1_H7", "S-1B0H0"):
        with pytest.raises(ValueError, match="not a unit label"):
            Unit.parse(bad)


def test_a_unit_that_the_encoder_has_not():
    with pytest.raises(KeyError, match="S0B0H4"):
        TABLE.index("S0B0H4")


def labels(text: str) -> list[str]:
    return [u.label for u in TABLE.select(text)]


@pytest.mark.parametrize(
    ("text", "count"),
    [("heads", 184), ("S3 heads", 64), ("S3", 64), ("S3 mlps", 2), ("S2 S3 heads mlps", 96 + 64 + 8), ("S2B1 heads", 16), ("all", 197),
     ("S3 all", 66), ("blocks", 12), ("stages", 4), ("S1 stages", 1), ("embedding", 1), ("S3 heads embedding", 65), ("E", 1)],
)  # fmt: skip
def test_how_many_a_selection_names(text, count):
    assert len(TABLE.select(text)) == count


def test_what_a_selection_names():
    assert labels("S0B1 heads mlps") == ["S0B1H0", "S0B1H1", "S0B1H2", "S0B1H3", "S0B1M"]
    assert labels("S1 blocks") == ["S1B0", "S1B1"]
    assert labels("S3B0H1, S0B0H2 + S1B1M E") == ["E", "S0B0H2", "S1B1M", "S3B0H1"]
    assert labels("HEAD S0B0") == labels("S0B0") == [f"S0B0H{h}" for h in range(4)]
    assert labels("S0B0H1 S0B0 heads") == labels("S0B0 heads"), "a unit named twice is one unit"


@pytest.mark.parametrize("text", ["S9 heads", "S0B7", "S0B0H9", "layers", "S2B1 stages", "", "  "])
def test_one_error_for_what_is_not_there(text):
    with pytest.raises(SelectionError, match=r"it has heads, mlps, blocks|say which: heads, mlps, blocks"):
        TABLE.select(text)


def test_kinds_that_cannot_be_used_are_refused():
    with pytest.raises(SelectionError, match="of the kind mlp; here only head"):
        TABLE.select("heads mlps", only=("head",))
    assert TABLE.select("all", only=KINDS)


@given(st.lists(st.sampled_from([*TABLE.select("all blocks stages embedding")]), min_size=1, max_size=9, unique=True))
def test_labels_select_their_units(units):
    """Labels of writers name exactly these units, whatever their order; the places among them name their heads."""
    writers = [u for u in units if u.kind not in ("block", "stage")]
    if writers:
        assert set(TABLE.select(" ".join(u.label for u in writers))) == set(writers)
    for place in (u for u in units if u.kind in ("block", "stage")):
        inside = TABLE.where("head", place.stage, None if place.kind == "stage" else place.block)
        assert TABLE.select(place.label) == inside
