"""Groups and map of fingerprints against scipy and scikit-learn; activation by class against loops."""

import builtins
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import is_valid_linkage, leaves_list, linkage
from sklearn.cluster import AgglomerativeClustering
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, silhouette_score
from torch.testing import assert_close

from residual_audio.analysis import specialisation
from residual_audio.analysis.similarity import fingerprints
from residual_audio.analysis.specialisation import class_activation, fingerprint_map, selectivity, ward


def families(sizes: tuple[int, ...] = (6, 9, 7), axes: int = 8, noise: float = 0.03) -> tuple[torch.Tensor, np.ndarray]:
    """Spectra of a few families (decaying at different rates), each head at a scale of its own."""
    g = torch.Generator().manual_seed(0)
    family = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    family = family[torch.randperm(len(family), generator=g)]
    decay = torch.exp(-torch.arange(axes)[None] * torch.tensor([2.0, 0.6, 0.05, 1.1])[family][:, None])
    wobble = 1 + noise * torch.rand(len(family), axes, generator=g)
    scale = 10 ** torch.randn(len(family), 1, generator=g)
    return (decay * wobble * scale).double(), family.numpy()


def test_planted_families_are_found_and_counted():
    spectra, family = families()
    order, clusters = ward(spectra)
    assert set(clusters.tolist()) == {1, 2, 3}
    assert adjusted_rand_score(family, clusters) == 1.0
    assert sorted(order.tolist()) == list(range(22))
    assert (clusters[order].diff() >= 0).all(), "clusters are runs of the order, numbered along it"


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_clusters_equal_scikit_learn(k):
    spectra, _ = families(noise=0.6)
    theirs = AgglomerativeClustering(k, linkage="ward").fit_predict(fingerprints(spectra).numpy())
    clusters = ward(spectra, clusters=k).clusters
    assert adjusted_rand_score(theirs, clusters) == 1.0
    assert set(clusters.tolist()) == set(range(1, k + 1))


def test_leaves_equal_scipy():
    spectra, _ = families(noise=0.6)
    tree = linkage(fingerprints(spectra).numpy(), "ward", optimal_ordering=True)
    assert is_valid_linkage(tree)
    theirs = leaves_list(tree).tolist()
    ours = ward(spectra).order.tolist()
    assert ours in (theirs, theirs[::-1])
    assert ours.index(0) <= (len(ours) - 1) / 2


def test_the_number_of_clusters_has_the_best_silhouette():
    spectra, _ = families(noise=0.6)
    points = fingerprints(spectra).numpy()
    scores = {k: silhouette_score(points, ward(spectra, clusters=k).clusters) for k in range(2, 9)}
    assert int(ward(spectra).clusters.max()) == max(scores, key=scores.__getitem__)


def test_scale_and_order_of_heads_do_not_matter():
    spectra, _ = families()
    clusters = ward(spectra).clusters
    assert torch.equal(ward(spectra * 17).clusters, clusters)
    shuffle = torch.randperm(len(spectra))
    assert adjusted_rand_score(clusters[shuffle], ward(spectra[shuffle]).clusters) == 1.0
    again = ward(spectra)
    assert torch.equal(again.clusters, clusters)
    assert torch.equal(again.order, ward(spectra).order)


def test_heads_without_variance_come_last_in_no_cluster():
    spectra, family = families()
    spectra[[0, 5]] = 0.0
    order, clusters = ward(spectra)
    assert order[-2:].tolist() == [0, 5]
    assert sorted(order.tolist()) == list(range(22))
    assert (clusters == 0).nonzero()[:, 0].tolist() == [0, 5]
    there = clusters > 0
    assert adjusted_rand_score(family[there.numpy()], clusters[there]) == 1.0
    xy = fingerprint_map(spectra).xy
    assert xy.isnan().any(1).nonzero()[:, 0].tolist() == [0, 5]


def test_nothing_to_tell_apart():
    same = torch.tensor([[4.0, 2.0, 1.0]]).repeat(6, 1)
    assert ward(same).clusters.tolist() == [1] * 6
    assert ward(same, clusters=3).clusters.tolist() == [1] * 6, "equal fingerprints are never separated"
    assert fingerprint_map(same).xy.abs().max() < 1e-12


@pytest.mark.parametrize("count", [1, 2, 3])
def test_very_few_heads(count):
    spectra = torch.tensor([[1.0, 0.1], [1.0, 0.9], [1.0, 0.2]])[:count]
    order, clusters = ward(spectra)
    assert sorted(order.tolist()) == list(range(count))
    assert (clusters >= 1).all()
    assert fingerprint_map(spectra).xy.isfinite().all()
    assert ward(torch.zeros(count, 2)).clusters.tolist() == [0] * count


@pytest.mark.parametrize("k", [0, 23])
def test_impossible_number_of_clusters(k):
    with pytest.raises(ValueError, match=f"cannot make {k} clusters of 22 heads"):
        ward(families()[0], clusters=k)


def test_map_equals_scikit_learn_up_to_sign():
    spectra, _ = families()
    xy, method = fingerprint_map(spectra)
    theirs = PCA(2).fit_transform(fingerprints(spectra).numpy())
    assert method == "pca"
    assert np.allclose(xy.abs(), np.abs(theirs), atol=1e-10)
    assert torch.equal(xy, fingerprint_map(spectra, seed=9).xy)
    shuffle = torch.randperm(len(spectra))
    assert_close(fingerprint_map(spectra[shuffle]).xy, xy[shuffle])


def test_map_of_spectra_with_one_axis():
    assert fingerprint_map(torch.tensor([[2.0], [3.0]])).xy.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_without_umap_auto_is_pca_and_umap_names_the_extra(monkeypatch):
    spectra, _ = families()
    original = builtins.__import__

    def no_umap(name, *args, **kwargs):
        if name == "umap":
            raise ImportError("No module named 'umap'")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_umap)
    monkeypatch.setattr(specialisation, "find_spec", lambda name: None)
    assert fingerprint_map(spectra, method="auto").method == "pca"
    with pytest.raises(ImportError, match=r"residual-audio\[umap\]"):
        fingerprint_map(spectra, method="umap")


def test_with_umap_auto_is_umap_if_there_are_heads_enough(monkeypatch):
    monkeypatch.setattr(specialisation, "find_spec", lambda name: object())
    monkeypatch.setattr(specialisation, "_umap", lambda points, seed: torch.full((len(points), 2), float(seed), dtype=torch.float64))
    spectra, _ = families()
    spectra[3] = 0.0
    xy, method = fingerprint_map(spectra, seed=4, method="auto")
    assert method == "umap"
    assert xy[[0, 1, 2, 4]].tolist() == [[4.0, 4.0]] * 4
    assert xy[3].isnan().all()
    assert fingerprint_map(spectra[:8], method="auto").method == "pca"


UMAP = """
import torch
from residual_audio.analysis.specialisation import fingerprint_map
decay = torch.cat([torch.linspace(0.2, 0.3, 6), torch.linspace(2.0, 2.1, 6)])
spectra = torch.exp(-decay[:, None] * torch.arange(8.0))
spectra[3] = 0.0
maps = [fingerprint_map(spectra, seed, "umap").xy for seed in (3, 3)]
assert torch.equal(maps[0].nan_to_num(), maps[1].nan_to_num()), "a seed gives one map"
assert maps[0][3].isnan().all()
first, second = maps[0][[0, 1, 2, 4, 5]], maps[0][6:]
apart, inside = torch.cdist(first, second).min(), max(torch.cdist(part, part).max() for part in (first, second))
assert apart > 2 * inside, (apart, inside)
"""


def test_umap_itself_tells_families_apart():
    """The real umap-learn, in a process of its own that interprets what Numba would compile for most of a minute."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", UMAP], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CLASSES = 4


def clips() -> tuple[torch.Tensor, torch.Tensor]:
    targets = torch.tensor([0, 1, 1, 3, 0, 3, 3, 1, 0, 3])
    return torch.randn(10, 3, 5) * torch.tensor([1.0, 10.0, 0.1])[:, None] + 1, targets


def test_activation_equals_a_loop():
    x, targets = clips()
    rest = torch.tensor([0.0, 2.5, 0.4])
    plain, outside = class_activation(x, targets, CLASSES), class_activation(x, targets, CLASSES, rest)
    for h in range(3):
        for c in (0, 1, 3):
            own = [x[i, h].double() for i in range(10) if targets[i] == c]
            assert float(plain[h, c]) == pytest.approx(np.mean([float(v.norm()) for v in own]))
            assert float(outside[h, c]) == pytest.approx(np.mean([float((v @ v + rest[h].double() ** 2).sqrt()) for v in own]))
    assert plain[:, 2].isnan().all()
    assert outside[:, 2].isnan().all()


def test_activation_in_an_isometric_frame_equals_activation_in_the_whole_space():
    x, targets = clips()
    frame = torch.linalg.qr(torch.randn(12, 5, dtype=torch.float64)).Q  # 5 coordinates inside 12 dimensions
    bias = torch.randn(12, dtype=torch.float64)
    inside = frame @ (frame.mT @ bias)
    whole = x.double() @ frame.mT + bias
    rest = (bias - inside).norm().expand(3)
    ours = class_activation(x.double() + frame.mT @ bias, targets, CLASSES, rest)
    assert_close(ours, class_activation(whole, targets, CLASSES), equal_nan=True)


def test_activation_scales_and_ignores_the_order_of_clips():
    x, targets = clips()
    expected = class_activation(x, targets, CLASSES)
    order = torch.randperm(10)
    assert_close(class_activation(x[order], targets[order], CLASSES), expected, equal_nan=True)
    assert_close(class_activation(-4 * x, targets, CLASSES), 4 * expected, equal_nan=True)


def test_selectivity():
    nan = torch.nan
    activation = torch.tensor([[2.0, 2.0, 2.0, nan], [0.0, 5.0, 0.0, nan], [3.0, 1.0, 2.0, nan], [0.0, 0.0, 0.0, nan]])
    value, preferred = selectivity(activation)
    assert value[:3].tolist() == pytest.approx([0.0, 1.0, (3 - 1.5) / (3 + 1.5)])
    assert value[3].isnan()
    assert preferred[1:].tolist() == [1, 0, -1]
    assert_close(selectivity(100 * activation).value, value, equal_nan=True)


@pytest.mark.parametrize("seen", [0, 1])
def test_selectivity_needs_two_classes(seen):
    activation = torch.full((2, 3), torch.nan)
    activation[:, :seen] = 1.0
    value, preferred = selectivity(activation)
    assert value.isnan().all()
    assert preferred.tolist() == [-1, -1]
