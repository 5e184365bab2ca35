"""TextSpan, simultaneous OMP and the correlation route, against scikit-learn and against slow formulas."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, OrthogonalMatchingPursuit

from residual_audio.meaning.correlation import correlated_words, matching_pursuits, score_directions
from residual_audio.meaning.somp import pursuits, somp
from residual_audio.meaning.span import principal_span
from residual_audio.meaning.textspan import textspan, textspans


def unit_rows(rng, count, d):
    x = rng.standard_normal((count, d))
    return torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((40, 6)) @ rng.standard_normal((6, 24))
    return torch.from_numpy(rows - rows.mean(0)), unit_rows(rng, 50, 24)


def explained_by_regression(rows, directions):
    """R² of every clip's share on the chosen directions, by least squares."""
    fitted = LinearRegression(fit_intercept=False).fit(directions.T, rows.T)
    return 1 - np.square(rows.T - fitted.predict(directions.T)).sum() / np.square(rows).sum()


def slow_textspan(rows, texts, count):
    """As the paper writes it: project texts onto the span, take the largest variance, project it out of both."""
    _, s, v = np.linalg.svd(rows, full_matrices=False)
    v = v[s > 1e-9 * s[0]]
    rows, texts, chosen = rows.copy(), texts @ v.T @ v, []
    for _ in range(count):
        j = int(np.argmax((rows @ texts.T).var(0)))
        r = texts[j] / np.linalg.norm(texts[j])
        chosen.append(j)
        rows = rows - np.outer(rows @ r, r)
        texts = texts - np.outer(texts @ r, r)
    return chosen


def test_textspan_is_the_papers(problem):
    rows, texts = problem
    choice = textspan(rows, texts, 5)
    assert choice.words.tolist() == slow_textspan(rows.numpy(), texts.numpy(), 5)
    inside = np.linalg.svd(rows.numpy(), full_matrices=False)[2][:6]
    for k in range(1, 6):
        seen = texts[choice.words[:k]].numpy() @ inside.T @ inside
        assert float(choice.explained[k - 1]) == pytest.approx(explained_by_regression(rows.numpy(), seen), abs=1e-10)


def test_textspan_stops_when_all_is_explained(problem):
    rows, texts = problem
    choice = textspan(rows, texts, 20)
    assert len(choice.words) == 6, "the rows span six dimensions"
    assert float(choice.explained[-1]) == pytest.approx(1.0)


def test_second_moments_stand_for_all_clips_also_of_resamples(problem):
    rows, texts = problem
    draw = torch.randint(40, (40,), generator=torch.Generator().manual_seed(0))
    for span, clips in ((principal_span(rows, 1.0), rows), (principal_span(rows, 1.0).drawn(draw), rows[draw] - rows[draw].mean(0))):
        assert torch.allclose(span.scores.T @ span.scores, span.second.diag(), atol=1e-9 * span.total), "axes are principal"
        whole, short = textspan(clips, texts, 5), textspans((texts @ span.axes.T)[None], span.second, 5, span.total).one(0)
        assert short.words.tolist() == whole.words.tolist()
        assert torch.allclose(short.explained, whole.explained)


@pytest.mark.parametrize("method", ["textspan", "somp"])
def test_permuted_runs_side_by_side_are_each_its_own(problem, method):
    rows, texts = problem
    span, random = principal_span(rows, 1.0), torch.Generator().manual_seed(1)
    orders = torch.stack([torch.randperm(24, generator=random) for _ in range(6)])
    words = texts @ span.axes[:, orders].permute(1, 2, 0)
    many = textspans(words, span.second, 5) if method == "textspan" else pursuits(words, span.scores, texts @ texts.T, 5)
    for run, order in enumerate(orders):
        moved = span.scores @ span.axes[:, order]
        alone = slow_textspan(moved.numpy(), texts.numpy(), 5) if method == "textspan" else slow_somp(moved.numpy(), texts.numpy(), 5)[0]
        assert many.one(run).words.tolist() == alone


@pytest.mark.parametrize("seed", range(5))
def test_one_signal_is_scikit_learns_omp(seed):
    rng = np.random.default_rng(seed)
    texts, signal = unit_rows(rng, 60, 20), torch.from_numpy(rng.standard_normal(20))
    oracle = OrthogonalMatchingPursuit(n_nonzero_coefs=5, fit_intercept=False).fit(texts.numpy().T, signal.numpy())
    choice = somp(signal[None], texts, 5)
    assert set(choice.words.tolist()) == set(np.flatnonzero(oracle.coef_).tolist())
    assert float(choice.explained[-1]) == pytest.approx(1 - np.square(signal.numpy() - oracle.predict(texts.numpy().T)).sum()
                                                       / np.square(signal.numpy()).sum())  # fmt: skip
    pursued = matching_pursuits(signal[None] @ texts.T, signal.square().sum()[None], texts @ texts.T, 5).one(0)
    assert pursued.words.tolist() == choice.words.tolist()
    assert torch.allclose(pursued.explained, choice.explained)


def slow_somp(rows, texts, count):
    chosen, left = [], rows
    for _ in range(count):
        strength = np.abs(left @ texts.T).sum(0)
        strength[chosen] = -1
        chosen.append(int(strength.argmax()))
        weights = np.linalg.lstsq(texts[chosen].T, rows.T, rcond=None)[0]
        left = rows - (texts[chosen].T @ weights).T
    return chosen, 1 - np.square(left).sum() / np.square(rows).sum()


def test_many_signals_are_tropps(problem):
    rows, texts = problem
    choice = somp(rows, texts, 6)
    chosen, explained = slow_somp(rows.numpy(), texts.numpy(), 6)
    assert choice.words.tolist() == chosen
    assert float(choice.explained[-1]) == pytest.approx(explained)
    assert (choice.explained.diff() > 0).all()


def test_pursuits_side_by_side_are_each_its_own(problem):
    rows, texts = problem
    words, explained = matching_pursuits(rows[:7] @ texts.T, rows[:7].square().sum(1), texts @ texts.T, 4)
    for row, chosen, share in zip(rows[:7], words, explained, strict=True):
        alone = somp(row[None], texts, 4)
        assert chosen.tolist() == alone.words.tolist()
        assert torch.allclose(share, alone.explained)


def test_a_direction_that_one_word_explains_needs_no_second():
    texts = unit_rows(np.random.default_rng(0), 10, 8)
    words, explained = matching_pursuits(2.5 * texts[[3]] @ texts.T, torch.tensor([6.25], dtype=torch.float64), texts @ texts.T, 3)
    assert words[0].tolist() == [3, -1, -1]
    assert torch.allclose(explained[0], torch.ones(3, dtype=torch.float64))
    assert somp(2.5 * texts[[3]], texts, 3).words.tolist() == [3]


def test_score_directions_are_covariances_also_of_resamples():
    rng = np.random.default_rng(1)
    scores, embeddings = rng.standard_normal(30), rng.standard_normal((30, 5))
    centred = torch.from_numpy(embeddings - embeddings.mean(0))
    plain = score_directions(torch.from_numpy(scores)[None], centred)[0].numpy()
    np.testing.assert_allclose(plain, [30 * np.cov(scores, e, bias=True)[0, 1] for e in embeddings.T])
    draw = rng.integers(30, size=30)
    counts = torch.from_numpy(np.bincount(draw, minlength=30).astype(float))[None]
    again = score_directions(torch.from_numpy(scores)[None], centred, counts)[0].numpy()
    np.testing.assert_allclose(again, [30 * np.cov(scores[draw], e[draw], bias=True)[0, 1] for e in embeddings.T])


def test_the_correlation_route_finds_what_moves_with_a_component():
    rng = np.random.default_rng(2)
    texts = unit_rows(rng, 40, 32)
    scores = torch.from_numpy(rng.standard_normal(200))
    embeddings = scores[:, None] * (2 * texts[7] - texts[11]) + 0.1 * torch.from_numpy(rng.standard_normal((200, 32)))
    assert correlated_words(scores, embeddings, texts, 2).words.tolist() == [7, 11]


def test_a_span_keeps_the_variance_asked_for(problem):
    rows, _ = problem
    span = principal_span(rows + 5.0, 0.8)
    assert float(span.ratio.sum()) >= 0.8 > float(span.ratio[:-1].sum())
    assert torch.allclose(span.axes @ span.axes.T, torch.eye(len(span.axes), dtype=torch.float64))
    assert len(principal_span(torch.ones(9, 4)).axes) == 0, "a unit that does not vary has no span"
