"""LoRA and full fine-tuning change a copy, only where they should, and start from the model as it is."""

import numpy as np
import pytest
import torch

from residual_audio.adaptation.learner import WeightLearner
from residual_audio.adaptation.methods.finetune import finetune_learner
from residual_audio.adaptation.methods.lora import LoraError, attention_parts, lora_learner
from residual_audio.adaptation.streams import advanced, cache_streams
from residual_audio.data import load_dataset
from residual_audio.models import load_encoder
from residual_audio.models.copies import Cores

ROWS = np.arange(3)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def inputs(encoder):
    return cache_streams(encoder, [c.source for c in load_dataset("synthetic-timbre").limited(3).clips], None)


@pytest.fixture(scope="module")
def streams(inputs):
    return advanced(inputs, 10)


def one_step(learner: WeightLearner, rate: float = 1e-2) -> None:
    optimiser = torch.optim.SGD(learner.parameters, lr=rate)
    learner.backward(torch.randn(learner.forward(ROWS).shape, generator=torch.Generator().manual_seed(0)))
    optimiser.step()


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_cores_share_weights_and_their_gradients(inputs, cores):
    """Embeddings and gradients are those of one plain backward pass through the copy, however many cores take part."""
    learner = finetune_learner(inputs)
    learner.cores = Cores(learner.encoder, cores)
    gradient = torch.randn(3, 128, generator=torch.Generator().manual_seed(1))
    expected = inputs.run(ROWS, learner.encoder)
    wanted = torch.autograd.grad(expected, learner.parameters, gradient)
    torch.testing.assert_close(learner.forward(ROWS), expected.detach(), rtol=1e-4, atol=1e-5)
    learner.backward(gradient)
    for parameter, right in zip(learner.parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, right, rtol=1e-3, atol=1e-6 + 1e-3 * float(right.abs().max()))  # keys' biases: zero


def test_inputs_and_streams_lead_to_the_same_embeddings(encoder, inputs, streams):
    assert inputs.values.ndim == 4
    assert streams.values.ndim == 3
    torch.testing.assert_close(inputs.embed(ROWS), streams.embed(ROWS), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        expected = encoder.encode(torch.from_numpy(inputs.values), torch.from_numpy(inputs.longer))
    torch.testing.assert_close(inputs.embed(ROWS), expected, rtol=1e-4, atol=1e-5)


def test_lora_starts_as_the_model_and_touches_only_its_blocks(encoder, streams):
    before = {k: v.clone() for k, v in encoder.module.state_dict().items()}
    learner = lora_learner(streams, {(3, 0), (3, 1)}, rank=2, seed=0)
    torch.testing.assert_close(learner.embed(ROWS), streams.embed(ROWS), rtol=1e-4, atol=1e-5)
    width = encoder.units.d_model[3]
    # Two blocks, queries and values, A and B of rank 2.
    assert sum(p.numel() for p in learner.parameters) == 2 * 2 * 2 * 2 * width
    names = [n for n, p in learner.encoder.module.named_parameters() if p.requires_grad]
    assert len(names) == 8
    assert all("audio_model" in n and "layers.3" in n and ".lora_" in n for n in names)
    one_step(learner)
    assert (learner.embed(ROWS) - streams.embed(ROWS)).abs().max() > 1e-5, "what LoRA adds is not heard"
    assert all(torch.equal(before[k], v) for k, v in encoder.module.state_dict().items())
    again = lora_learner(streams, {(3, 0), (3, 1)}, rank=2, seed=0)
    one_step(again)
    assert torch.equal(again.embed(ROWS), learner.embed(ROWS)), "not seeded"


def test_lora_names_what_it_cannot_find(encoder):
    with pytest.raises(LoraError, match="no linear layers by the names query"):
        attention_parts(encoder, set())


def test_fine_tuning_trains_the_audio_side_of_a_copy(encoder, inputs):
    before = {k: v.clone() for k, v in encoder.module.state_dict().items()}
    learner = finetune_learner(inputs)
    torch.testing.assert_close(learner.embed(ROWS), inputs.embed(ROWS), rtol=1e-4, atol=1e-5)
    names = {n for n, p in learner.encoder.module.named_parameters() if p.requires_grad}
    assert not any(n.startswith("text_") for n in names)
    audio = [n for n, _ in encoder.module.named_parameters() if n.startswith("audio_")]
    assert len(names) >= 0.95 * len(audio), sorted(set(audio) - names)
    one_step(learner, 1e-4)
    assert (learner.embed(ROWS) - inputs.embed(ROWS)).abs().max() > 1e-6
    assert all(torch.equal(before[k], v) for k, v in encoder.module.state_dict().items())
    assert all(p.requires_grad for p in encoder.module.parameters())
