"""Forms that were not learned: random axes, means and values, to test what applies and folds them."""

import torch

from residual_audio.adaptation.forms import FORMS
from residual_audio.adaptation.gain import GainSet, ResiDual, random_basis
from residual_audio.adaptation.select import choose_places
from residual_audio.spectra import Basis


def width(encoder, place):
    if place.kind == "embedding":
        return encoder.readout.width
    stage = place.blocks[0][0]
    return encoder.units.d_head[stage] if place.kind == "heads" else encoder.units.d_model[stage]


def made_up(encoder, selection, mean, seed=0, kept=None, low=0.3, form="gains", truncated=False):
    """Random axes, means and numbers: gains away from one, matrices away from zero."""
    generator = torch.Generator().manual_seed(seed)
    sets = []
    for i, place in enumerate(choose_places(encoder.units, selection)):
        d, units = width(encoder, place), max(1, len(place.heads))
        eye = torch.eye(d, dtype=torch.float64).expand(units, d, d)
        basis = random_basis(Basis(eye, torch.ones(units, d, dtype=torch.float64), torch.zeros(units, d, dtype=torch.float64)), seed + i)
        axes = basis.axes[:, : kept or d]
        mu = 0.1 * torch.randn(units, d, generator=generator, dtype=torch.float64)
        values = low + 1.4 * torch.rand(units, FORMS[form].count(axes.shape[1]), generator=generator, dtype=torch.float64)
        if FORMS[form].neutral == 0:
            values = (values - 1) * 2 / d**0.5  # a matrix about as large as the diagonal one of gains
        sets.append(GainSet(place, axes, mu, basis.variance[:, : axes.shape[1]], values, form, truncated))
    return ResiDual(tuple(sets), mean)


def only_gain(residual, unit, value):
    """The same with every gain of one unit (of the first place) set."""
    gains = [s.values.clone() for s in residual.sets]
    gains[0][unit] = value
    return residual.with_values(gains)
