"""Learning on a part of the tokens: the tokens that stay, and nothing else, are what the model sees."""

import numpy as np
import pytest
import torch

from residual_audio.adaptation.gain import ResiDual, gain_set
from residual_audio.adaptation.learner import GainLearner
from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.streams import Streams, entering, place_bases
from residual_audio.data import load_dataset
from residual_audio.models import EncoderError, load_encoder
from residual_audio.models.copies import Cores
from residual_audio.models.dropping import drawn_tokens
from residual_audio.options import OptionError
from tests.helpers.layouts import noise, open_layout


@pytest.mark.parametrize("layout", ["whisper_dir", "ast_dir", "clip_dir", "vit_dir", "dinov2_dir"])
def test_only_the_drawn_tokens_enter(layout, request):
    """A forward of a learner is the plain encoder on the streams of the tokens that stay, from a block on or from the inputs; summary
    tokens always stay. Embeddings to judge by see all tokens."""
    encoder = open_layout(layout, request)
    features, block = noise(encoder, 4), len(encoder.sites) - 1
    longer = torch.zeros(4, dtype=torch.bool)
    rows = np.arange(4)
    for at in (block, None):
        first = entering(encoder, features, longer, 0 if at is None else at)
        streams = Streams(encoder, at, (features if at is None else first).numpy(), longer.numpy(), rows, {})
        places = choose_places(encoder.units, "last heads")
        bases = place_bases(
            Streams(encoder, 0, entering(encoder, features, longer, 0).numpy(), longer.numpy(), rows, {}), rows, places, "token"
        )
        learner = GainLearner(ResiDual(tuple(gain_set(p, b) for p, b in zip(places, bases, strict=True))), streams)
        learner.drop(0.5, seed=3)
        kept = drawn_tokens(encoder, 4, 0.5, np.random.default_rng([3, 2]))
        always = encoder.readout.tokens or ()
        assert all(set(always) <= set(row) and len(set(row)) == len(row) for row in kept)
        assert kept.shape[1] - len(always) == round((first.shape[1] - len(always)) / 2)
        assert not np.array_equal(kept[0], kept[1])
        expected = encoder.resume(torch.stack([stream[row] for stream, row in zip(first, kept, strict=True)]), at or 0)
        torch.testing.assert_close(learner.forward(rows), expected.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(learner.embed(rows), encoder.encode(features, longer).detach(), rtol=1e-4, atol=1e-5)
        # The same tokens, however many cores share the batch.
        learner.cores = Cores(encoder, 2)
        learner.drop(0.5, seed=3)
        torch.testing.assert_close(learner.forward(rows), expected.detach(), rtol=1e-4, atol=1e-5)


def test_what_makes_no_sense_is_refused_before_any_sound_is_decoded():
    with pytest.raises(OptionError, match="less than 1"):
        Recipe(drop_tokens=1.0).options("residual")
    data = load_dataset("synthetic-timbre").limited(12)
    with pytest.raises(EncoderError, match="attends in windows"):
        prepare(load_encoder("tiny"), data, ["residual"], Recipe(drop_tokens=0.5))
