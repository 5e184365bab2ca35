"""Gains without training do what their words say."""

import numpy as np
import pytest
import torch

from residual_audio.adaptation.methods import amplify_middle, amplify_minor, prune_early, suppress_weak
from residual_audio.adaptation.methods.fisher_gains import fisher_gains
from residual_audio.adaptation.presets import preset_places
from residual_audio.units import SelectionError, UnitTable

PRESETS = {"prune-early": prune_early, "amplify-minor": amplify_minor, "suppress-weak": suppress_weak, "amplify-middle": amplify_middle}
HTSAT = UnitTable(heads=((4,) * 2, (8,) * 2, (16,) * 6, (32,) * 2), d_head=(24,) * 4, d_model=(96, 192, 384, 768))


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("prune-early", ["S0B0", "S0B1"]),
        ("amplify-minor", ["S2B0", "S2B1", "S2B2", "S2B3"]),
        ("suppress-weak", ["S3B0", "S3B1"]),
        ("amplify-middle", ["S2B0", "S2B1", "S2B2", "S2B3", "S2B4", "S2B5", "S3B0", "S3B1"]),
    ],
)
def test_presets_name_the_blocks_of_the_report(name, blocks):
    places = preset_places(HTSAT, *PRESETS[name].BLOCKS)
    assert [p.label for p in places] == blocks
    assert all(len(p.heads) == HTSAT.heads[p.blocks[0][0]][p.blocks[0][1]] for p in places)


def test_the_gains_of_each_preset():
    variance = torch.tensor([[10.0, 6.0, 2.0, 1.0, 0.6, 0.4], [4.0, 4.0, 4.0, 4.0, 4.0, 0.1]])
    gains = {name: preset.gains(variance).tolist() for name, preset in PRESETS.items()}
    assert gains["prune-early"] == [[1, 1, 1, 0, 0, 0]] * 2
    # Half of the variance is 10 and 10.05: the first axis alone, and the first three (two have 8 of 20.1).
    assert gains["amplify-minor"] == [[1, 1.5, 1.5, 1.5, 1.5, 1.5], [1, 1, 1, 1.5, 1.5, 1.5]]
    assert gains["suppress-weak"] == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0]]
    assert gains["amplify-middle"] == [[1, 1, 1, 1, 1.5, 1.5]] * 2


def test_an_encoder_without_those_blocks_is_told():
    with pytest.raises(SelectionError, match="blocks 10 to 11, and the encoder has 4"):
        preset_places(UnitTable(heads=((6,) * 4,), d_head=(64,), d_model=(384,)), *suppress_weak.BLOCKS)


def test_fisher_gains_hear_what_tells_classes_apart():
    """Against a slow formula; variance is kept; axes at chance are silent; a unit that says nothing stays as it is."""
    rng = np.random.default_rng(0)
    ratio = np.abs(rng.standard_normal((3, 5)))
    ratio[2] = 0.01
    variance = np.sort(rng.random((3, 5)), axis=1)[:, ::-1].copy()
    classes, clips = 4, 44
    found = fisher_gains(torch.from_numpy(ratio), torch.from_numpy(variance), classes, clips).numpy()
    chance = (classes - 1) / (clips - classes)
    for unit in range(2):
        weight = [np.sqrt(max(0.0, r - chance) / (1 + max(0.0, r - chance))) for r in ratio[unit]]
        scale = np.sqrt(variance[unit].sum() / sum(w * w * v for w, v in zip(weight, variance[unit], strict=True)))
        np.testing.assert_allclose(found[unit], np.array(weight) * scale, rtol=1e-12)
        assert (found[unit] ** 2 * variance[unit]).sum() == pytest.approx(variance[unit].sum())
    assert found[2].tolist() == [1.0] * 5
    assert np.isfinite(fisher_gains(torch.tensor([[np.nan, np.inf]]), torch.tensor([[1.0, 1.0]], dtype=torch.float64), 2, 9).numpy()).all()
