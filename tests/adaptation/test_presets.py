"""Gains without training do what their words say."""

import numpy as np
import pytest
import torch

from residual_audio.adaptation.gain import Shape, gain_set
from residual_audio.adaptation.methods import METHODS, amplify_middle, amplify_minor, prune_early, suppress_weak
from residual_audio.adaptation.methods.fisher_gains import fisher_gains
from residual_audio.adaptation.presets import preset_places
from residual_audio.adaptation.recipe import Recipe
from residual_audio.options import OptionError
from residual_audio.spectra import Basis
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
    places = preset_places(HTSAT, *METHODS[name].options().block_range)
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
    with pytest.raises(SelectionError, match="blocks 10 to 11, and the encoder has 4; choose by --blocks"):
        preset_places(UnitTable(heads=((6,) * 4,), d_head=(64,), d_model=(384,)), *suppress_weak.WeakOptions().block_range)


def test_the_constants_of_each_preset_are_options():
    variance = torch.tensor([[10.0, 6.0, 2.0, 1.0, 0.6, 0.4]])
    assert prune_early.gains(variance, prune_early.PruneOptions(leading=2)).tolist() == [[1, 1, 0, 0, 0, 0]]
    # 16 of 20 are in the first two axes, 18 in the first three.
    louder = amplify_minor.gains(variance, amplify_minor.MinorOptions(beyond=0.85, factor=2.0))
    assert louder.tolist() == [[1, 1, 1, 2, 2, 2]]
    assert suppress_weak.gains(variance, suppress_weak.WeakOptions(weak=0.15)).tolist() == [[1, 1, 1, 0, 0, 0]]
    middle = amplify_middle.gains(variance, amplify_middle.MiddleOptions(components="2-3", factor=3.0))
    assert middle.tolist() == [[1, 3, 3, 1, 1, 1]]
    assert [p.label for p in preset_places(HTSAT, *amplify_middle.MiddleOptions(blocks="3-4").block_range)] == ["S1B1", "S2B0"]
    assert prune_early.PruneOptions(blocks="2").block_range == (2, 2)


@pytest.mark.parametrize("wrong", [{"blocks": "3-1"}, {"blocks": "early"}, {"blocks": "-1"}, {"components": "0-4"}, {"components": "5-"}])
def test_ranges_that_make_no_sense_are_told(wrong):
    with pytest.raises(OptionError, match="is no FIRST-LAST such as"):
        amplify_middle.MiddleOptions(**wrong)


def test_gains_on_a_band_of_components_only():
    """Of 5-15, eleven gains per head are learned; the axes outside pass as they are, whatever the gains."""
    rng = np.random.default_rng(1)
    axes = torch.from_numpy(np.linalg.qr(rng.standard_normal((24, 24)))[0].T[None].copy())
    variance = torch.arange(24, 0, -1, dtype=torch.float64)[None]
    basis = Basis(axes, variance, torch.zeros(1, 24, dtype=torch.float64))
    place = preset_places(UnitTable(heads=((1,),), d_head=(24,), d_model=(24,)), 0, 0)[0]
    one = gain_set(place, basis, Shape("gains", band=(5, 15)))
    assert one.values.shape == (1, 11)
    matrix = one.matrix(torch.full((1, 11), 3.0, dtype=torch.float64))[0]
    expected = [3.0 if 5 <= i <= 15 else 1.0 for i in range(1, 25)]
    torch.testing.assert_close(axes[0] @ matrix @ axes[0].T, torch.diag(torch.tensor(expected, dtype=torch.float64)))
    started = gain_set(place, basis, Shape("gains", start=0.5, band=(5, 15)))
    share = np.cumsum(variance[0].numpy()) / variance.sum().item()
    assert started.values[0].tolist() == [float(share[i - 1] < 0.5) for i in range(4, 15)]
    with pytest.raises(OptionError, match="has 24 axes, none from 25 on"):
        gain_set(place, basis, Shape("gains", band=(25, 30)))
    with pytest.raises(OptionError, match="give one of them"):
        Recipe(components="5-15", kept=8).check(["residual"])
    assert Recipe(components="5-15").options("residual").band == (5, 15)


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
