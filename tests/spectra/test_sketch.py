"""A sketch as long as the vector loses nothing; a shorter one keeps what PCA looks at, and is linear."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from residual_audio.analysis.measures.participation_ratio import participation_ratio
from residual_audio.spectra import Sketch


def decaying(clips: int, d: int) -> torch.Tensor:
    """Points whose variances fall by a third from axis to axis, about a mean that is large."""
    generator = torch.Generator().manual_seed(3)
    axes = torch.linalg.qr(torch.randn(d, 12, generator=generator)).Q
    return 5 + (torch.randn(clips, 12, generator=generator) * 0.67 ** torch.arange(12)) @ axes.T


@pytest.mark.parametrize("d", [36, 49, 1, 2])
def test_whole_sketches_are_isometries(d):
    x = torch.randn(7, d, dtype=torch.float64)
    y = Sketch.of(d, 10_000)(x)
    assert y.shape == x.shape
    torch.testing.assert_close(y @ y.T, x @ x.T)


def test_pca_of_a_whole_sketch_equals_scikit_learn():
    x = decaying(40, 256)
    y = Sketch.of(256, 256)(x)
    ours, theirs = (PCA().fit(np.asarray(v.double())).explained_variance_ for v in (y, x))
    np.testing.assert_allclose(ours[:12], theirs[:12], rtol=1e-4)


def test_a_short_sketch_keeps_dimension_and_participation_ratio():
    x = decaying(150, 4_096)
    exact, short = (torch.from_numpy(PCA(20).fit(np.asarray(v)).explained_variance_) for v in (x, Sketch.of(4_096, 512)(x)))
    assert abs(float(participation_ratio(short) / participation_ratio(exact)) - 1) < 0.1
    needed = [int((v.cumsum(0) / v.sum() < 0.99).sum()) + 1 for v in (exact, short)]
    assert abs(needed[0] - needed[1]) <= 1


def test_the_sketch_of_a_mean_is_the_mean_of_the_sketches():
    x, sketch = torch.randn(6, 400, dtype=torch.float64), Sketch.of(400, 50)
    assert sketch(x).shape == (6, 50)
    torch.testing.assert_close(sketch(x.mean(0, keepdim=True))[0], sketch(x).mean(0))
    assert torch.equal(sketch(x), torch.cat([sketch(part) for part in x.split(1)])), "a vector's sketch does not depend on its companions"
