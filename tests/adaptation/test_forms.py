"""Forms against the dense formula written by hand; what an equaliser shows of them; what is saved of them."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from residual_audio.adaptation.adapter import DIGEST, load_adapter, save_adapter
from residual_audio.adaptation.directions import directions
from residual_audio.adaptation.forms import FORMS, WIDE
from residual_audio.adaptation.gain import GainSet, Shape, gain_set
from residual_audio.adaptation.learner import GainLearner
from residual_audio.adaptation.options import OptionError
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.select import Place
from residual_audio.adaptation.streams import cache_streams
from residual_audio.adaptation.train import make_optimiser
from residual_audio.models import load_encoder
from residual_audio.spectra import Basis
from tests.helpers.gains import made_up

UNITS, K, D = 2, 3, 5


@pytest.fixture
def one(request):
    """A place of two heads with random axes and numbers of a form."""
    form = request.param
    generator = torch.Generator().manual_seed(1)
    axes = torch.linalg.qr(torch.randn(UNITS, D, D, generator=generator, dtype=torch.float64)).Q[:, :K]
    mean = torch.randn(UNITS, D, generator=generator, dtype=torch.float64)
    values = torch.randn(UNITS, FORMS[form].count(K), generator=generator, dtype=torch.float64)
    return GainSet(Place("heads", ((0, 0),), (0, 1)), axes, mean, torch.ones(UNITS, K, dtype=torch.float64), values, form)


def dense(one: GainSet, values: torch.Tensor) -> torch.Tensor:
    """M, entry by entry, from the definition of each form."""
    m = torch.zeros(UNITS, K, K, dtype=torch.float64)
    for unit in range(UNITS):
        for i in range(K):
            for j in range(K):
                if one.form == "mixing":
                    m[unit, i, j] = values[unit, K * i + j]
                elif one.form == "axes":
                    low, high = min(i, j), max(i, j)
                    m[unit, i, j] = values[unit, high * (high + 1) // 2 + low]
                elif i == j:
                    m[unit, i, j] = values[unit, 0 if one.form == "scalar" else i] - 1
    return m


def slowly(one: GainSet, z: torch.Tensor, values: torch.Tensor, mean: str, truncated: bool) -> torch.Tensor:
    """y = μ′ + (P + ΦᵀMΦ)(z − μ), unit by unit."""
    m, out = dense(one, values), []
    for unit in range(UNITS):
        phi, mu = one.axes[unit], one.mean[unit]
        passed = phi.T @ phi if truncated else torch.eye(D, dtype=torch.float64)
        out.append((passed + phi.T @ m[unit] @ phi) @ (z[unit] - mu) + (mu if mean == "keep" else 0))
    return torch.stack(out)


@pytest.mark.parametrize("one", FORMS, indirect=True)
@pytest.mark.parametrize("mean", ["keep", "drop"])
@pytest.mark.parametrize("truncated", [False, True])
def test_the_map_and_its_gradient_are_the_formula(one, mean, truncated):
    z, weight = torch.randn(UNITS, D, dtype=torch.float64), torch.randn(UNITS, D, dtype=torch.float64)
    one = GainSet(one.place, one.axes, one.mean, one.variance, one.values, one.form, truncated)

    def quickly(values, part=one):
        matrix = part.matrix(values)
        return torch.einsum("ude,ue->ud", matrix, z) + part.offset(matrix, mean)

    mine, theirs = one.values.clone().requires_grad_(), one.values.clone().requires_grad_()
    torch.testing.assert_close(quickly(mine), slowly(one, z, theirs, mean, truncated))
    (quickly(mine) * weight).sum().backward()
    (slowly(one, z, theirs, mean, truncated) * weight).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(one.inside(), dense(one, one.values))
    part = GainSet(one.place, one.axes, one.mean, one.variance, one.values, one.form, truncated, tau=0.3)
    torch.testing.assert_close(quickly(one.values, part), 0.7 * z + 0.3 * slowly(one, z, one.values, mean, truncated))


@pytest.mark.parametrize("one", FORMS, indirect=True)
@pytest.mark.parametrize("truncated", [False, True])
def test_directions_add_up_to_the_change(one, truncated):
    """Gains along what is read and written are the whole change; learned axes are eigenvectors, with the eigenvalue as their gain."""
    one = GainSet(one.place, one.axes, one.mean, one.variance, one.values, one.form, truncated, tau=0.8)
    for unit in range(UNITS):
        found = directions(one, unit)
        change = one.matrix()[unit] - torch.eye(D, dtype=torch.float64)
        torch.testing.assert_close(found.written.T @ torch.diag(found.gain - 1) @ found.read, change)
        assert (found.written * found.read).sum(-1).min() > -1e-12, "a gain below one would strengthen"
        if one.form == "axes":
            torch.testing.assert_close(change @ found.read.T, found.read.T * (found.gain - 1))
            assert (found.gain[:K] - 1).abs().diff().max() <= 1e-12, "the strongest change is not first"
        if one.form in ("scalar", "gains"):
            assert torch.equal(found.read[:K], one.axes[unit])


@pytest.mark.parametrize("form", [f for f in FORMS if FORMS[f].start is not None])
def test_a_start_is_that_of_gains(form):
    basis = Basis(torch.eye(4).expand(2, 4, 4), torch.tensor([[8.0, 1.0, 0.9, 0.1], [5.0, 4.0, 0.9, 0.1]]), torch.zeros(2, 4))
    made = gain_set(Place("heads", ((0, 0),), (0, 1)), basis, Shape(form, start=0.85))
    torch.testing.assert_close(made.matrix(), torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0])).expand(2, 4, 4))


def test_what_is_changed_of_units_that_are_no_heads():
    """Matrices are inside the leading axes, gains on all; what is asked for holds, for all units or for wide ones alone."""
    d = 2 * WIDE
    basis = Basis(torch.eye(d).expand(1, d, d), torch.arange(d, 0, -1.0)[None], torch.zeros(1, d))

    def made(kind: str, *form: str, **shape):
        one = gain_set(Place(kind, ((0, 0),), (0,) if kind == "heads" else ()), basis, Shape(*form, **shape))
        return one.form, one.axes.shape[1], one.count

    assert made("heads", "mixing") == ("mixing", d, d * d)
    assert made("mlps", "mixing") == ("mixing", WIDE, WIDE**2)
    assert made("blocks", "axes") == ("axes", WIDE, WIDE * (WIDE + 1) // 2)
    assert made("mlps", "gains") == ("gains", d, d)
    assert made("mlps", "scalar") == ("scalar", d, 1)
    assert made("mlps", "mixing", "gains") == ("gains", d, d)
    assert made("mlps", "mixing", kept=5) == made("heads", "mixing", kept=5) == ("mixing", 5, 25)
    assert made("mlps", "mixing", kept=5, wide_kept=7) == ("mixing", 7, 49)
    assert made("heads", "mixing", kept=5, wide_kept=7) == ("mixing", 5, 25)
    assert made("mlps", "mixing", retain=d) == ("mixing", d, d * d)
    assert made("mlps", "mixing", band=(3, 4)) == ("mixing", 2, 4)


def test_options_that_contradict_each_other_are_told():
    with pytest.raises(OptionError, match="--kept lets other axes pass"):
        Recipe(kept=3, retain=3).check(["residual"])
    for option in ({"retain": 3}, {"components": "2-3"}):
        with pytest.raises(OptionError, match="--wide-kept goes with --kept"):
            Recipe(wide_kept=3, **option).check(["residual"])
    with pytest.raises(OptionError, match=r"--wide-kept: 1\.5 is neither"):
        Recipe(wide_kept=1.5).check(["residual"])
    with pytest.raises(OptionError, match="--start: a scalar has no axis"):
        Recipe(form="scalar", start=0.9).check(["residual"])
    with pytest.raises(OptionError, match="--start does nothing for scalar"):
        Recipe(start=0.9).check(["scalar"])


def test_matrices_learn_at_a_tenth_of_the_rate(laion_dir, sound_files):
    """Whatever the order of places; what they are pulled to is where nothing changes."""
    encoder = load_encoder(laion_dir)
    residual = made_up(encoder, "S0B0 heads mlps", "keep", form="mixing")
    gains = made_up(encoder, "S0B0 mlps", "keep").sets[0]
    streams = cache_streams(encoder, sound_files[:1], 0)
    learner = GainLearner(type(residual)((residual.sets[0], gains)), streams)
    rates = {id(p): g["lr"] for g in make_optimiser(learner, "adamw", 0.5).param_groups for p in g["params"]}
    assert [rates[id(p)] for p in learner.parameters] == pytest.approx([0.05, 0.5])
    assert learner.neutral == [0.0, 1.0]


@pytest.mark.parametrize("form", FORMS)
def test_an_adapter_keeps_its_form(laion_dir, tmp_path, form):
    encoder = load_encoder(laion_dir)
    residual = made_up(encoder, "S0 heads mlps", "drop", kept=3, form=form, truncated=True).scaled(0.75)
    again = load_adapter(save_adapter(tmp_path / "adapter", encoder, residual), encoder)
    for a, b in zip(again.sets, residual.sets, strict=True):
        assert torch.equal(a.matrix(), b.matrix())
        assert (a.place, a.form, a.truncated, a.tau) == (b.place, b.form, b.truncated, b.tau)
    assert form in (tmp_path / "adapter" / "README.md").read_text()


@pytest.mark.parametrize("form", ["gains", "scalar"])
def test_adapters_from_before_there_were_forms_are_read(laion_dir, tmp_path, form):
    """They name the kind of a place ``form``, and their numbers ``gain``: one per axis, or a single one. They have no digest."""
    encoder = load_encoder(laion_dir)
    residual = made_up(encoder, "S0 heads mlps", "keep", form=form)
    folder = save_adapter(tmp_path / "adapter", encoder, residual)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["places"] = [{"form": p["kind"], "blocks": p["blocks"], "heads": p["heads"]} for p in config["places"]]
    del config[DIGEST]
    (folder / "adapter_config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "adapter_model.safetensors")
    save_file({k.replace("values", "gain"): v for k, v in tensors.items()}, folder / "adapter_model.safetensors")
    again = load_adapter(folder, encoder)
    assert [s.form for s in again.sets] == [form] * len(residual.sets)
    assert all(torch.equal(a.matrix(), b.matrix()) for a, b in zip(again.sets, residual.sets, strict=True))
    np.testing.assert_array_equal([s.place.kind for s in again.sets], [s.place.kind for s in residual.sets])
