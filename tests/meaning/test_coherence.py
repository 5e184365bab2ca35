"""Nulls: the closed form against every possible set, and permuted data that is at its own null."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from residual_audio.meaning.coherence import against, coherences, count_test, dealt, word_stability
from residual_audio.meaning.lists import Chooser, Choosing, orders
from residual_audio.meaning.textspan import textspans


def topics(rng, count: int, words: int, d: int, tight: float = 0.6) -> torch.Tensor:
    """Words that lie in groups: a group's centre and each word's own direction."""
    centres = rng.standard_normal((count, 1, d)) / np.sqrt(d)
    own = rng.standard_normal((count, words, d)) / np.sqrt(d)
    return torch.nn.functional.normalize(torch.from_numpy(tight * centres + (1 - tight) * own).flatten(0, 1), dim=-1)


def coherence(texts: torch.Tensor) -> float:
    return float(np.mean([float(texts[i] @ texts[j]) for i, j in combinations(range(len(texts)), 2)]))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_closed_form_is_that_of_all_sets(size):
    texts = topics(np.random.default_rng(0), 3, 3, 6)
    values = [coherence(texts[list(s)]) for s in combinations(range(9), size)]
    mean, std = dealt(texts, size)
    assert mean == pytest.approx(np.mean(values))
    assert std == pytest.approx(np.std(values))


def test_coherence_is_the_mean_cosine_of_pairs():
    x = topics(np.random.default_rng(1), 4, 2, 7)
    words = torch.tensor([[0, 3, 5, 2], [7, 1, -1, -1], [4, -1, -1, -1], [2, 5, 3, 0]])
    values = coherences(x @ x.T, words)
    assert values[:2].tolist() == pytest.approx([coherence(x[words[0]]), float(x[7] @ x[1])])
    assert values[2].isnan()
    assert values[3] == values[0], "in another order as coherent, to the last digit"


def test_against_counts_and_standardises():
    null = against(torch.tensor([2.0, 0.0, 1.0, 3.0, torch.nan]))
    assert null.p == pytest.approx(2 / 5), "a permuted run without a list is not as coherent"
    assert null.z == pytest.approx((2 - 4 / 3) / np.std([0, 1, 3], ddof=1))
    assert np.isnan(against(torch.tensor([torch.nan, 1.0, 2.0])).z)


def test_a_count_is_ranked_among_the_counts_of_permuted_runs():
    rng = np.random.default_rng(2)
    runs = torch.from_numpy(rng.standard_normal((12, 40)))
    runs[:3, 0] = 9.0
    slow = np.array([[np.mean(row >= row[b]) for b in range(40)] for row in runs.numpy()])
    counts = (slow <= 0.05).sum(0)
    tested = count_test(runs)
    assert (tested.significant, tested.expected, tested.p) == pytest.approx((counts[0], counts[1:].mean(), np.mean(counts >= counts[0])))
    assert count_test(torch.cat([runs, torch.full((1, 40), torch.nan)])) == tested, "a unit without a list counts nowhere"


def test_type_one_error_of_counts():
    """Null heads that share most of their directions, under the same permutations: at most six of a hundred counts have p ≤ 0.05."""
    rng = np.random.default_rng(3)
    texts = topics(rng, 8, 4, 16)
    gram, rejected, alone = texts @ texts.T, [], []
    second = torch.tensor([4.0, 2.0, 1.0, 0.5], dtype=torch.float64)
    for _ in range(300):
        shared = rng.standard_normal((16, 4))
        some = orders(16, 99, rng)
        runs = []
        for _ in range(6):
            axes = torch.from_numpy(np.linalg.qr(shared + 0.7 * rng.standard_normal((16, 4)))[0].T)
            runs.append(coherences(gram, textspans(texts @ axes[:, some].permute(1, 2, 0), second, 3).words))
        tested = count_test(torch.stack(runs))
        rejected.append(tested.p <= 0.05)
        alone.append(tested.significant / 6)
    assert np.mean(rejected) <= 0.06
    assert np.mean(alone) == pytest.approx(0.05, abs=0.015), "and each head is coherent in one of twenty"


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
        (one,) = chooser.lists(shares)
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
    lists = []
    for turn in range(4):
        for h, shares in enumerate(heads[:8]):
            # Permutations are shared by the heads of one chooser: independent ones need one each.
            chooser = Chooser(texts, embeddings, Choosing((method,), components=1, permutations=19, resamples=0, seed=8 * turn + h))
            order = torch.randperm(48 if method != "correlation" else 60, generator=random)
            lists += chooser.lists(shares[:, order] if method != "correlation" else shares[order])
    z, p = np.array([one.null.z for one in lists]), np.array([one.null.p for one in lists])
    assert len(z) == 32
    assert abs(z.mean()) < 0.53, "three standard errors"
    assert 0.7 < z.std() < 1.4
    assert kstest(p, "uniform").pvalue > 0.005
    assert (p <= 0.05).mean() < 0.17


def test_numbers_do_not_depend_on_which_units_are_asked_for(groups):
    texts, heads, embeddings = groups
    how = Choosing(("textspan", "somp"), permutations=5, resamples=3)
    after = Chooser(texts, embeddings, how)
    after.lists(heads[0])
    for one, alone in zip(after.lists(heads[1]), Chooser(texts, embeddings, how).lists(heads[1]), strict=True):
        assert torch.equal(one.runs, alone.runs)
        assert torch.equal(one.stability, alone.stability)


def test_resamples_draw_whole_recordings(groups):
    texts, _, embeddings = groups
    of = np.arange(60) // 3
    for draw in Chooser(texts, embeddings, Choosing(permutations=2, resamples=10), of).draws:
        times = np.bincount(draw.numpy(), minlength=60).reshape(20, 3)
        assert (times == times[:, :1]).all()
        assert times[:, 0].sum() == 20
