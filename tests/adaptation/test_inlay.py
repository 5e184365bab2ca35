"""inlaid = attached, embeddings and gradients, for every kind of place on every layout; and the layers are as before afterwards."""

import pytest
import torch
from torch import nn

from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.inlay import inlaid, pays
from residual_audio.adaptation.learner import frozen
from residual_audio.adaptation.modules import modules_of
from tests.helpers.gains import made_up
from tests.helpers.layouts import DISTINCT, noise, open_layout


@pytest.fixture(scope="module", params=DISTINCT)
def encoder(request):
    return open_layout(request.param, request)


def learned(way, encoder, residual):
    """Embeddings of two clips, and the gradient of what is learned."""
    values = [s.values.clone().requires_grad_() for s in residual.sets]
    with frozen(encoder):
        with way(encoder, residual, values):
            embedded = encoder.encode(noise(encoder, 2), torch.zeros(2, dtype=torch.bool))
        towards = torch.randn(embedded.shape, generator=torch.Generator().manual_seed(1))
        return embedded.detach(), torch.autograd.grad(embedded, values, towards)


@pytest.mark.parametrize("selection", ["heads", "blocks", "stages", "mlps", "heads mlps blocks", "heads embedding"])
@pytest.mark.parametrize("mean", ["keep", "drop"])
def test_inlaid_equals_attached(encoder, selection, mean):
    residual = made_up(encoder, selection, mean).to(encoder.device, encoder.dtype)
    (beside, gradients), (inside, found) = (learned(way, encoder, residual) for way in (attached, inlaid))
    torch.testing.assert_close(inside, beside, rtol=0, atol=1e-5 * max(1.0, float(beside.abs().max())))
    largest = max(float(g.abs().max()) for g in gradients)
    assert largest > 0
    for ours, theirs in zip(found, gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4 * largest)


def test_some_heads_of_a_block(encoder):
    head = encoder.units.where("head")[1].label
    residual = made_up(encoder, head, "keep").to(encoder.device, encoder.dtype)
    assert [len(s.place.heads) for s in residual.sets] == [1]
    (beside, gradients), (inside, found) = (learned(way, encoder, residual) for way in (attached, inlaid))
    torch.testing.assert_close(inside, beside, rtol=0, atol=1e-5 * max(1.0, float(beside.abs().max())))
    torch.testing.assert_close(found[0], gradients[0], rtol=0, atol=1e-4 * float(gradients[0].abs().max()))


def test_layers_are_as_before_also_after_an_error(encoder):
    residual = made_up(encoder, "heads mlps blocks", "keep").to(encoder.device, encoder.dtype)
    names = {name for s in residual.sets for name in modules_of(s.place, encoder)}

    def replaced():
        return {name for name in names if "forward" in vars(encoder.module.get_submodule(name))}

    def interrupted():
        with inlaid(encoder, residual, [s.values for s in residual.sets]):
            assert replaced()
            raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between"):
        interrupted()
    assert not replaced()


def test_a_layer_with_many_inputs_is_left_alone(encoder):
    """The gradient of its weights would cost more than a change of its output."""
    gains = made_up(encoder, "mlps", "keep").sets[0]
    assert pays(gains, [nn.Linear(23, 8)])
    assert not pays(gains, [nn.Linear(24, 8)])
    assert not pays(gains, [nn.Sequential(nn.Linear(8, 8))])
