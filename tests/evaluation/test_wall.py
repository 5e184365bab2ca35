"""The strong classifiers against slow formulas written from their papers, and what they do with labels that mean nothing.

Formulas are in NumPy; gradients are differences of the loss, so that nothing of the implementation's calculus is in them.
"""

import re

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.kernel_ridge import KernelRidge

from residual_audio.data import grouped_folds
from residual_audio.evaluation import CLASSIFIERS, EvaluationError, Examples
from residual_audio.evaluation.classifiers import gda, kernel, lp_pp, tip
from residual_audio.evaluation.examples import choose, inner_folds

SCALE = 6.0
LEARNED = [name for name, one in CLASSIFIERS.items() if one.reads_folds]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def made_up(per_class=5, classes=3, d=4, noise=0.7, seed=0, groups=None):
    """Examples about directions of their classes, texts that point roughly there, and some new clips."""
    rng = np.random.default_rng(seed)
    centres, y = rng.standard_normal((classes, d)), np.repeat(np.arange(classes), per_class)
    x, new = (unit(centres[y] + noise * rng.standard_normal((len(y), d))) for _ in range(2))
    texts = unit(centres + rng.standard_normal((classes, d)))
    names = list(range(len(y))) if groups is None else groups
    return Examples(*map(torch.from_numpy, (x, y)), classes, names, torch.from_numpy(texts), SCALE, seed), new


def arrays(examples):
    return examples.embeddings.numpy(), examples.targets.numpy(), examples.texts.numpy(), np.eye(examples.classes)[examples.targets]


def ours(name, examples, new):
    return CLASSIFIERS[name].fit(examples).scores(torch.from_numpy(new)).numpy()


def cross_entropy(scores, y):
    return -log_softmax(scores, axis=1)[np.arange(len(y)), y].mean()


def slope(loss, x, step=1e-5):
    """Central differences."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        gradient[place] = (loss(x + moved) - loss(x - moved)) / (2 * step)
    return gradient


def adamw(loss, x, rate, steps, epsilon=1e-4, decay=0.01):
    """Loshchilov & Hutter (2019), with the rate along a cosine."""
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t in range(steps):
        g, now = slope(loss, x), rate * (1 + np.cos(np.pi * t / steps)) / 2
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x * (1 - now * decay) - now * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + epsilon)
    return x


def momentum(loss, x, rate, steps):
    """Gradient descent with momentum 0.9."""
    speed = np.zeros_like(x)
    for _ in range(steps):
        speed = 0.9 * speed + slope(loss, x)
        x = x - rate * speed
    return x


@pytest.fixture
def one_choice(monkeypatch):
    """Grids of a single point, so that what is left is the formula."""
    monkeypatch.setattr(gda, "WEIGHTS", (0.3,))
    monkeypatch.setattr(kernel, "GRID", ((2.5, 0.2),))
    monkeypatch.setattr(tip, "GRID", ((3.0, 0.7),))
    monkeypatch.setattr(lp_pp, "STEPS", (25,))


@pytest.mark.parametrize("text", [True, False])
def test_gda_is_the_authors_formula(one_choice, text):
    examples, new = made_up()
    x, y, texts, _ = arrays(examples)
    means = np.stack([x[y == c].mean(0) for c in range(3)])
    about = np.concatenate([x[y == c] - means[c] for c in range(3)])
    sigma, (n, d) = np.cov(about.T), x.shape
    inverse = d * np.linalg.pinv((n - 1) * sigma + np.trace(sigma) * np.eye(d))
    expected = np.array(
        [
            [
                (SCALE * e @ texts[c] if text else 0) + (0.3 if text else 1) * (e @ inverse @ m - m @ inverse @ m / 2 + np.log(1 / 3))
                for c, m in enumerate(means)
            ]
            for e in new
        ]
    )
    np.testing.assert_allclose(ours("gda", examples if text else without_texts(examples), new), expected, rtol=1e-9)


def without_texts(examples):
    return Examples(examples.embeddings, examples.targets, examples.classes, examples.groups, None, examples.scale, examples.seed)


@pytest.mark.parametrize("text", [True, False])
def test_the_kernel_is_ridge_regression_of_what_the_texts_leave(one_choice, text):
    """scikit-learn's, with the Gaussian kernel of distances: |a − b|² = 2 (1 − a·b) on the sphere."""
    examples, new = made_up()
    x, _, texts, members = arrays(examples)
    texts = texts if text else 0 * texts
    theirs = KernelRidge(alpha=0.2, kernel="rbf", gamma=2.5 / 2).fit(x, members - x @ texts.T)
    expected = new @ texts.T + theirs.predict(new)
    np.testing.assert_allclose(ours("kernel", examples if text else without_texts(examples), new), expected, rtol=1e-9)


@pytest.mark.parametrize("text", [True, False])
def test_tip_counts_votes(one_choice, text):
    examples, new = made_up()
    x, y, texts, _ = arrays(examples)
    expected = np.zeros((len(new), 3))
    for i, e in enumerate(new):
        for c in range(3):
            votes = sum(np.exp(-3.0 * (1 - e @ x[j])) for j in np.flatnonzero(y == c))
            expected[i, c] = (SCALE * e @ texts[c] if text else 0) + 0.7 * votes
    np.testing.assert_allclose(ours("tip", examples if text else without_texts(examples), new), expected, rtol=1e-10)


def test_tip_f_learns_the_keys(one_choice):
    examples, new = made_up(per_class=3, d=3)
    x, y, texts, members = arrays(examples)

    def scores(e, keys):
        return SCALE * e @ texts.T + 0.7 * np.exp(-3.0 * (1 - e @ keys.T)) @ members

    keys = adamw(lambda k: cross_entropy(scores(x, k), y), x, 1e-3, 20)
    np.testing.assert_allclose(ours("tip-f", examples, new), scores(new, keys), rtol=1e-6)
    assert np.abs(scores(new, keys) - scores(new, x)).max() > 1e-3
    assert CLASSIFIERS["tip-f"].fit(examples).scorer.trained == x.size


def test_treff_learns_a_matrix_on_both_sides():
    examples, new = made_up(per_class=3, d=3)
    x, y, texts, members = arrays(examples)

    def scores(e, learned):
        matrix, alpha = learned[:9].reshape(3, 3), learned[9]
        return SCALE * e @ texts.T + alpha * np.exp(-5.5 + 5.5 * (e @ matrix.T) @ (x @ matrix.T).T) @ members

    start = np.append(np.eye(3).ravel(), 1.0)
    learned = adamw(lambda p: cross_entropy(scores(x, p), y), start, 1e-4, 15)
    np.testing.assert_allclose(ours("treff", examples, new), scores(new, learned), rtol=1e-6)
    assert np.abs(scores(new, learned) - scores(new, start)).max() > 1e-4


def test_the_zero_shot_probe_is_pulled_back_to_the_texts_class_by_class():
    examples, new = made_up(per_class=4, d=3)
    x, y, texts, _ = arrays(examples)
    pull = [softmax(SCALE * x[y == c] @ texts.T, axis=1)[:, c].mean() for c in range(3)]

    def loss(w):
        return cross_entropy(SCALE * x @ w.T, y) + np.mean([pull[c] * ((w[c] - texts[c]) ** 2).sum() for c in range(3)])

    weight = minimize(lambda w: loss(w.reshape(3, 3)), texts.ravel(), tol=1e-12).x.reshape(3, 3)
    np.testing.assert_allclose(ours("zs-probe", examples, new), SCALE * new @ weight.T, atol=1e-4)
    assert loss(weight) < loss(texts) - 0.01


def test_lp_pp_takes_its_steps_from_the_curvature(one_choice):
    examples, new = made_up(per_class=4, d=3)
    x, y, texts, _ = arrays(examples)
    n, cosines = len(x), x @ texts.T
    rate = 4 * n / np.linalg.eigvalsh(x.T @ x).max()
    rate_alpha = n / (4 * max((cosines[:, c] ** 2).sum() for c in range(3)))
    head = np.concatenate([np.stack([x[y == c].sum(0) for c in range(3)]), np.zeros((3, 1))], axis=1)
    alpha = np.full(3, 250 * np.mean([cosines[y == c, c].mean() for c in range(3)]))

    def scores(e, w, a):
        return e @ w[:, :-1].T + w[:, -1] + a * (e @ texts.T)

    speed = np.zeros_like(head)
    for step in range(1, 26):
        g = slope(lambda w, a=alpha: cross_entropy(scores(x, w, a), y), head)
        g_alpha = slope(lambda a, w=head: cross_entropy(scores(x, w, a), y), alpha)
        speed = 0.9 * speed + g
        head = head - rate * speed
        if step % 10 == 0:
            alpha = alpha - rate_alpha * g_alpha
    np.testing.assert_allclose(ours("lp++", examples, new), scores(new, head, alpha), rtol=1e-5, atol=1e-5)
    assert CLASSIFIERS["lp++"].fit(examples).scorer.trained == 3 * 3 + 2 * 3


def test_palm_mixes_texts_with_learned_vectors():
    examples, new = made_up(per_class=4, d=3)
    x, y, texts, _ = arrays(examples)
    generator = torch.Generator().manual_seed(examples.seed)
    z, mix = 0.02 * torch.randn(3, 3, generator=generator), torch.rand(3, generator=generator)

    def directions(p):
        share = expit(p[9:])[:, None]
        return unit((1 - share) * texts + share * p[:9].reshape(3, 3))

    start = np.append(z.numpy().astype(float).ravel(), mix.numpy().astype(float))
    learned = momentum(lambda p: cross_entropy(SCALE * x @ directions(p).T, y), start, 0.05, 50)
    np.testing.assert_allclose(ours("palm", examples, new), SCALE * new @ directions(learned).T, rtol=1e-5, atol=1e-6)
    assert CLASSIFIERS["palm"].fit(examples).scorer.trained == 3 * (3 + 1)


def test_choices_are_made_on_groups_that_were_not_learned_from():
    """By a loop over the folds; and groups that are copies of each other are not split."""
    names = [i // 2 for i in range(24)]
    examples, _ = made_up(per_class=8, noise=1.5, groups=names)
    x, y, texts, _ = arrays(examples)
    folds = np.array(grouped_folds(y.tolist(), names, 3, 0))
    right = dict.fromkeys(gda.WEIGHTS, 0)
    for fold in (1, 2, 3):
        learned, held = folds != fold, folds == fold
        assert not {names[i] for i in np.flatnonzero(learned)} & {names[i] for i in np.flatnonzero(held)}
        weight, bias = (t.numpy() for t in gda.gaussians(examples.only(torch.from_numpy(learned))))
        for alpha in right:
            scores = SCALE * x[held] @ texts.T + alpha * (x[held] @ weight.T + bias)
            right[alpha] += int((scores.argmax(1) == y[held]).sum())
    assert len(set(right.values())) > 1, "equals prove nothing"
    assert CLASSIFIERS["gda"].fit(examples).scorer.chosen == {"alpha": max(right, key=right.get)}


def test_where_nothing_can_be_chosen_the_default_holds():
    examples, _ = made_up(per_class=2)
    assert inner_folds(examples.targets.numpy(), examples.groups, 0) is None
    assert choose(examples, [1, 2], lambda part: pytest.fail("tried"), 7) == 7
    chosen = {name: CLASSIFIERS[name].fit(examples).scorer.chosen for name in ("gda", "kernel", "tip", "lp++")}
    expected = {"gda": {"alpha": 0.1}, "kernel": {"beta": 2.0, "lambda": 0.1}, "tip": {"beta": 5.5, "alpha": 1.0}, "lp++": {"steps": 300}}
    assert chosen == expected


@pytest.mark.parametrize("name", LEARNED)
def test_shuffled_labels_give_chance_and_right_ones_do_not(name):
    """On clips that were not learned from, with and without texts."""
    examples, new = made_up(per_class=30, classes=4, d=8, noise=1.2)
    order = torch.from_numpy(np.random.default_rng(5).permutation(len(examples)))
    shuffled, labels = examples.targets[order], np.random.default_rng(6).permutation(examples.targets.numpy())
    for some in [examples] if CLASSIFIERS[name].texts != "optional" else [examples, without_texts(examples)]:
        right = int((ours(name, some, new).argmax(1) == examples.targets.numpy()).sum())
        assert right > 70, "it learns nothing"
        lost = Examples(some.embeddings, shuffled, 4, some.groups, some.texts, SCALE)
        guessed = int((ours(name, lost, new).argmax(1) == labels).sum())
        assert stats.binomtest(guessed, len(new), 1 / 4, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("name", LEARNED)
def test_one_clip_per_class_is_enough(name):
    """The curve of a few shots begins there; without texts, the nearest clip's class is a fair guess."""
    examples, new = made_up(per_class=1, classes=3, d=8, noise=0.2)
    for some in [examples] if CLASSIFIERS[name].texts == "needed" else [examples, without_texts(examples)]:
        scores = ours(name, some, new)
        assert np.isfinite(scores).all()
        assert (scores.argmax(1) == np.arange(3)).all()


@pytest.mark.parametrize("name", [n for n, one in CLASSIFIERS.items() if one.texts == "needed"])
def test_texts_that_are_needed_are_asked_for(name):
    with pytest.raises(EvaluationError, match=re.escape(f"classifier {name} needs")):
        CLASSIFIERS[name].fit(without_texts(made_up()[0]))
