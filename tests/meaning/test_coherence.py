"""Nulls: the closed form against every possible set, and permuted data that is at its own null."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from residual_audio.meaning.coherence import against, coherence, dealt, word_stability
from residual_audio.meaning.lists import Chooser, Choosing


def topics(rng, count: int, words: int, d: int, tight: float = 0.6) -> torch.Tensor:
    """Words that lie in groups: a group's centre and each word's own direction."""
    centres = rng.standard_normal((count, 1, d)) / np.sqrt(d)
    own = rng.standard_normal((count, words, d)) / np.sqrt(d)
    return torch.nn.functional.normalize(torch.from_numpy(tight * centres + (1 - tight) * own).flatten(0, 1), dim=-1)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_closed_form_is_that_of_all_sets(size):
    texts = topics(np.random.default_rng(0), 3, 3, 6)
    values = [coherence(texts[list(s)]) for s in combinations(range(9), size)]
    mean, std = dealt(texts, size)
    assert mean == pytest.approx(np.mean(values))
    assert std == pytest.approx(np.std(values))


def test_coherence_is_the_mean_cosine_of_pairs():
    x = topics(np.random.default_rng(1), 2, 2, 7)
    assert coherence(x) == pytest.approx(np.mean([float(x[i] @ x[j]) for i, j in combinations(range(4), 2)]))
    assert np.isnan(coherence(x[:1]))


def test_against_counts_and_standardises():
    null = against(2.0, [0.0, 1.0, 3.0, float("nan")])
    assert null.p == pytest.approx(2 / 4)
    assert null.z == pytest.approx((2 - 4 / 3) / np.std([0, 1, 3], ddof=1))
    assert np.isnan(against(float("nan"), [1.0, 2.0]).z)


def test_stability_is_the_share_of_resamples_with_the_word():
    stability = word_stability(torch.tensor([4, 7]), [torch.tensor([7, 1]), torch.tensor([4, 7]), torch.tensor([0]), torch.tensor([7, 4])])
    assert stability.tolist() == [0.5, 0.75]


@pytest.fixture(scope="module")
def groups():
    """Heads that each write the words of one topic, and the dictionary of all topics."""
    rng = np.random.default_rng(5)
    texts = topics(rng, 16, 5, 48)
    heads = [torch.from_numpy(rng.standard_normal((60, 5))) @ texts[5 * h : 5 * h + 5] for h in range(16)]
    noise = [0.05 * torch.from_numpy(rng.standard_normal((60, 48))) for _ in heads]
    return texts, [h + n for h, n in zip(heads, noise, strict=True)], torch.from_numpy(rng.standard_normal((60, 48)))


@pytest.mark.parametrize("method", ["textspan", "somp"])
def test_heads_that_write_one_topic_are_named_and_coherent(groups, method):
    texts, heads, embeddings = groups
    chooser = Chooser(texts, embeddings, Choosing((method,), permutations=30, resamples=5))
    right = 0
    for h, shares in enumerate(heads[:6]):
        (one,) = chooser.lists(shares, h)
        right += len({5 * h + i for i in range(5)} & set(one.choice.words.tolist()))
        assert one.z_dictionary > 3
        assert one.null.z > 3
        assert one.null.p == pytest.approx(1 / 31), "no permuted run is as coherent"
        assert float(one.choice.explained[-1]) > 0.9
    assert right >= 28, "of 30 planted words"


@pytest.mark.parametrize("method", ["textspan", "somp", "correlation"])
def test_shuffled_data_is_at_the_null(groups, method):
    """Directions that mean nothing: z is about 0 ± 1 and p is uniform, whatever the closed form says."""
    texts, heads, embeddings = groups
    random = torch.Generator().manual_seed(7)
    chooser = Chooser(texts, embeddings, Choosing((method,), components=1, permutations=20, resamples=0))
    lists = []
    for turn in range(2):
        for h, shares in enumerate(heads):
            order = torch.randperm(48, generator=random)
            lists += chooser.lists(
                shares[:, order] if method != "correlation" else shares[torch.randperm(60, generator=random)], 16 * turn + h
            )
    z, p = np.array([one.null.z for one in lists]), np.array([one.null.p for one in lists])
    assert len(z) == 32
    assert abs(z.mean()) < 0.53, "three standard errors"
    assert 0.7 < z.std() < 1.4
    assert kstest(p, "uniform").pvalue > 0.005
    assert (p <= 0.05).mean() < 0.17


def test_numbers_do_not_depend_on_which_units_are_asked_for(groups):
    texts, heads, embeddings = groups
    how = Choosing(("textspan",), permutations=5, resamples=3)
    after = Chooser(texts, embeddings, how)
    after.lists(heads[0], 0)
    one, alone = after.lists(heads[1], 1)[0], Chooser(texts, embeddings, how).lists(heads[1], 1)[0]
    assert one.null == alone.null
    assert torch.equal(one.stability, alone.stability)
