import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from residual_audio.spectra import Moments, principal_axes, spectrum_measures
from residual_audio.spectra.measures import effective_rank, participation_ratio, pca_dimension, shares


def slow(values: np.ndarray) -> dict[str, float]:
    """Straight from the definitions, one spectrum at a time."""
    total = sum(values)
    p = [v / total for v in values]

    def needed(share):
        reached = 0.0
        for k, part in enumerate(p, 1):
            reached += part
            if reached >= share:
                return k
        return len(p)

    h = -sum(q * np.log(q) for q in p if q > 0)
    return {
        "pca_90": needed(0.90), "pca_95": needed(0.95), "pca_99": needed(0.99), "evr_1": p[0], "evr_2": p[1],
        "participation_ratio": total**2 / sum(v * v for v in values), "effective_rank": np.exp(h), "entropy": h,
    }  # fmt: skip


def test_equal_to_the_definitions():
    rng = np.random.default_rng(0)
    spectra = np.sort(rng.gamma(0.3, size=(50, 24)), axis=1)[:, ::-1].copy()
    ours = spectrum_measures(torch.from_numpy(spectra))
    for i, spectrum in enumerate(spectra):
        for name, value in slow(spectrum).items():
            assert ours[name][i].item() == pytest.approx(value, rel=1e-12), name


def test_equal_to_scikit_learn():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 12)) + 0.1 * rng.standard_normal((300, 12))
    pca = PCA(svd_solver="full").fit(x)
    variance = principal_axes(Moments.of(torch.from_numpy(x)[:, None])).variance
    torch.testing.assert_close(variance[0], torch.from_numpy(pca.explained_variance_))
    for share in (0.9, 0.95, 0.99):
        assert pca_dimension(variance, share).item() == PCA(share, svd_solver="full").fit(x).n_components_
    assert shares(variance)[0, 0].item() == pytest.approx(pca.explained_variance_ratio_[0], rel=1e-12)


def test_uniform_and_single_spectra():
    flat, single = torch.ones(1, 7, dtype=torch.float64), torch.tensor([[3.0, 0, 0, 0]], dtype=torch.float64)
    assert participation_ratio(flat).item() == pytest.approx(7)
    assert effective_rank(flat).item() == pytest.approx(7)
    assert participation_ratio(single).item() == effective_rank(single).item() == pca_dimension(single, 0.99).item() == 1


def test_constant_data_have_no_measure():
    for value in spectrum_measures(torch.zeros(2, 4, dtype=torch.float64)).values():
        assert value.isnan().all()
