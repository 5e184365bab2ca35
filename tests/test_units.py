import pytest

from residual_audio.units import EMBEDDING, Unit, UnitTable

TABLE = UnitTable(heads=((4, 4), (8, 8), (16,) * 6, (32, 32)), d_head=(24,) * 4, d_model=(96, 192, 384, 768))


def test_htsat_has_184_heads_and_12_mlps():
    assert len(TABLE.where("head")) == 184
    assert len(TABLE.where("mlp")) == 12
    assert len(TABLE) == 1 + 184 + 12
    assert TABLE[0] is EMBEDDING


def test_selection_by_stage_and_block():
    assert len(TABLE.where("head", stage=2)) == 96
    assert [u.label for u in TABLE.where(stage=0, block=1)] == ["S0B1H0", "S0B1H1", "S0B1H2", "S0B1H3", "S0B1M"]
    assert TABLE.blocks[3] == (1, 1)


def test_labels():
    assert Unit(2, 1, "head", 7).label == "S2B1H7"
    assert Unit.parse("S2B1M") == Unit(2, 1, "mlp")
    for bad in ("", "S2", "S2B1", "s2b1h7", "S2B1H7 ", "L2_B1_H7", "S-1B0H0"):
        with pytest.raises(ValueError, match="not a unit label"):
            Unit.parse(bad)


def test_a_unit_that_the_encoder_has_not():
    with pytest.raises(KeyError, match="S0B0H4"):
        TABLE.index("S0B0H4")
