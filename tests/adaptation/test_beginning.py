"""Learning goes on from an adapter: before its first step, the network does exactly what the adapter did."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from residual_audio.adaptation.adapt import adapt
from residual_audio.adaptation.adapter import load_adapter, save_adapter
from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.beginning import BEGIN, begun, units_with
from residual_audio.adaptation.gain import ResiDual, Shape, gain_set
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.streams import cache_streams, first_block, place_bases
from residual_audio.adaptation.tuning import Learning
from residual_audio.data import load_dataset
from residual_audio.models import load_encoder
from residual_audio.options import OptionError

UNITS = "S3B1 heads mlps"


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    return load_dataset("synthetic-timbre").limited(36)


@pytest.fixture(scope="module")
def bases(encoder, data):
    """By rows: those of the adapter are of other clips than those of what is learned, so that axes and means differ."""
    places = choose_places(encoder.units, UNITS)
    streams = cache_streams(encoder, [c.source for c in data.clips], first_block(encoder, places))
    return lambda rows: list(zip(places, place_bases(streams, rows, places, "token"), strict=True))


def moved(sets, form: str, kept: int | None = None, tau: float = 1.0) -> ResiDual:
    """An adapter that changes much, in heads and in an MLP."""
    rng, made = np.random.default_rng(5), []
    for place, basis in sets:
        one = gain_set(place, basis, Shape(form, form if place.kind == "heads" else "gains", kept))
        made.append(replace(one, values=one.values + one.values.new_tensor(rng.normal(0, 0.4, one.values.shape)), tau=tau))
    return ResiDual(tuple(made), notes={"made": "by a test"})


def embedded(encoder, residual, data):
    with attached(encoder, residual):
        return encoder.embed([c.source for c in data.clips[:6]])


@pytest.mark.parametrize(
    ("was", "kept", "tau", "form"),
    [
        ("gains", None, 1.0, "gains"), ("gains", 3, 0.5, "gains"), ("gains", 3, 1.0, "axes"), ("gains", None, 0.5, "mixing"),
        ("scalar", None, 0.5, "gains"), ("mixing", None, 0.5, "mixing"), ("axes", 5, 1.0, "mixing"),
    ],
)  # fmt: skip
def test_the_form_does_what_the_adapter_did(encoder, data, bases, was, kept, tau, form):
    begin = moved(bases(np.arange(0, 36, 2)), was, kept, tau)
    start = ResiDual(tuple(gain_set(p, b, Shape(form, "gains")) for p, b in bases(np.arange(1, 36, 2))))
    found = begun(start, begin)
    assert {one.form for one in found.sets if one.place.kind == "heads"} == {form}
    plain, expected = embedded(encoder, start, data), embedded(encoder, begin, data)
    assert (plain - expected).abs().max() > 0.01
    torch.testing.assert_close(embedded(encoder, found, data), expected, atol=2e-5, rtol=0)
    assert "by a test" in str(found.notes[BEGIN])


def test_matrices_inside_the_leading_axes_go_on_there(encoder, data, bases):
    """Those of MLPs too, whose axes become those of the adapter."""
    rng, sets = np.random.default_rng(6), []
    for place, basis in bases(np.arange(0, 36, 2)):
        one = gain_set(place, basis, Shape("mixing", kept=6))
        sets.append(replace(one, values=one.values.new_tensor(rng.normal(0, 0.4, one.values.shape)), tau=0.5))
    begin = ResiDual(tuple(sets), notes={"made": "by a test"})
    start = ResiDual(tuple(gain_set(p, b, Shape("mixing")) for p, b in bases(np.arange(1, 36, 2))))
    assert any(one.axes.shape[1] < one.axes.shape[2] for one in start.sets), "no unit is changed in a part of its axes"
    found, expected = embedded(encoder, begun(start, begin), data), embedded(encoder, begin, data)
    assert (embedded(encoder, start, data) - expected).abs().max() > 0.01
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


def test_what_is_learned_of_a_head_leaves_its_neighbours_neutral(encoder, bases):
    place, basis = next((p, b) for p, b in bases(np.arange(36)) if p.kind == "heads")
    one = gain_set(place, basis)
    alone = replace(one, place=replace(place, heads=place.heads[:1]), **{k: getattr(one, k)[:1] for k in ("axes", "mean", "variance")},
                    values=torch.full_like(one.values[:1], 0.5))  # fmt: skip
    found = begun(ResiDual((one,)), ResiDual((alone,)))
    assert torch.equal(found.sets[0].values[0], torch.full_like(one.values[0], 0.5))
    assert torch.equal(found.sets[0].values[1:], torch.ones_like(one.values[1:]))


def test_gains_cannot_begin_as_a_matrix(bases):
    begin = moved(bases(np.arange(36)), "mixing")
    start = ResiDual(tuple(gain_set(p, b) for p, b in bases(np.arange(36))))
    with pytest.raises(OptionError, match="use --form mixing"):
        begun(start, begin)


def test_adapting_goes_on_where_the_adapter_was_and_says_so(encoder, data, bases, tmp_path):
    """Its head lies before the units of the recipe; a rate of nearly nothing leaves what was begun with."""
    begin = moved(bases(np.arange(36)), "mixing")
    (early,) = choose_places(encoder.units, "S2B1H3")
    d = encoder.units.d_head[2]
    eye = torch.eye(d)[None]
    louder = replace(begin.sets[0], place=early, axes=eye, mean=torch.zeros(1, d), variance=torch.ones(1, d),
                     values=torch.full((1, d), 2.5), form="gains")  # fmt: skip
    begin = replace(begin, sets=(*begin.sets, louder))
    save_adapter(tmp_path / "begin", encoder, begin)
    recipe = Recipe(units="S3B1 heads", epochs=1, rate=1e-12)
    adapted = adapt(encoder, data, recipe, Learning(again=False), held=False, begin=tmp_path / "begin", workers=1)
    torch.testing.assert_close(embedded(encoder, adapted.residual, data), embedded(encoder, begin, data), atol=5e-5, rtol=0)
    assert any("goes on from an adapter" in reason for reason in adapted.reasons)
    adapted.write(tmp_path / "out")
    assert "by a test" in str(load_adapter(tmp_path / "out", encoder).notes[BEGIN])


def test_units_of_the_adapter_join_those_that_are_asked_for(encoder, bases):
    begin = moved(bases(np.arange(36)), "gains")
    labels = {label for one in begin.sets for label in one.place.labels}
    assert units_with(UNITS, begin, encoder.units) == UNITS
    joined = {u.label for u in encoder.units.select(units_with("S0B0H0", begin, encoder.units))}
    assert joined == {"S0B0H0"} | labels


@pytest.mark.parametrize(("method", "mean", "told"), [("residual-random", "keep", "does nothing for"), ("residual", "drop", "drops means")])
def test_what_cannot_be_gone_on_from_is_refused_first(encoder, data, bases, method, mean, told):
    begin = replace(moved(bases(np.arange(36)), "gains"), mean=mean)
    with pytest.raises(OptionError, match=told):
        adapt(encoder, data, Recipe(), method=method, begin=begin)
