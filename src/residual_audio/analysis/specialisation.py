"""What is each head for? Groups and a map of heads by their spectral fingerprints; which classes a head responds to."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from sklearn.metrics import silhouette_score
from torch import Tensor

from ..spectra import Moments, principal_axes
from .discriminability import class_means
from .similarity import fingerprints

MOST_CLUSTERS = 8
NEIGHBOURS = 15  # of UMAP: its own default, fewer when there are fewer heads


class Ward(NamedTuple):
    """``order``: heads from one end of the tree to the other. ``clusters``: of each head, 1..k along that order, 0 for none."""

    order: Int[Tensor, " head"]
    clusters: Int[Tensor, " head"]


class FingerprintMap(NamedTuple):
    """Two coordinates per head and the method that gave them."""

    xy: Float[Tensor, "head 2"]
    method: str


class Selectivity(NamedTuple):
    """``value`` in [0, 1] and the ``preferred`` class of each head (−1 where the value is NaN)."""

    value: Float[Tensor, " head"]
    preferred: Int[Tensor, " head"]


def _split(tree: np.ndarray, points: np.ndarray, clusters: int | None) -> np.ndarray:
    """Cut the tree into k clusters, or where the silhouette is best (the smaller k of equals; one cluster if nothing can be told apart)."""
    if clusters is not None:
        return fcluster(tree, clusters, "maxclust")
    best, best_score = np.ones(len(points), dtype=int), -np.inf
    for k in range(2, min(MOST_CLUSTERS, len(points) - 1) + 1):
        cut = fcluster(tree, k, "maxclust")
        if len(np.unique(cut)) == k and (score := silhouette_score(points, cut)) > best_score:
            best, best_score = cut, score
    return best


def ward(spectra: Float[Tensor, "head axis"], clusters: int | None = None) -> Ward:
    """Ward's hierarchical clustering of the fingerprints, leaves in the order that puts most alike heads side by side.

    ``clusters`` fixes k; otherwise k in 2..8 has the best silhouette. Heads with equal fingerprints are never separated, so there may be
    fewer than k. Heads without a fingerprint (no variance) come last and are in no cluster. The end nearer to the first head comes first.
    """
    if clusters is not None and not 1 <= clusters <= len(spectra):
        raise ValueError(f"cannot make {clusters} clusters of {len(spectra)} heads")
    points = fingerprints(spectra)
    defined = points.isfinite().all(1)
    there, absent = defined.nonzero()[:, 0], (~defined).nonzero()[:, 0]
    labels = torch.zeros(len(spectra), dtype=torch.int64)
    if len(there) < 2:
        labels[there] = 1
        return Ward(torch.cat([there, absent]), labels)
    rows = points[there].numpy()
    tree = linkage(rows, "ward", optimal_ordering=True)
    leaves = leaves_list(tree)
    if 2 * int(np.flatnonzero(leaves == 0)[0]) > len(leaves) - 1:
        leaves = leaves[::-1]
    cut = _split(tree, rows, clusters)
    _, first = np.unique(cut[leaves], return_index=True)  # number the clusters as they come along the order
    labels[there] = torch.from_numpy(1 + np.argsort(np.argsort(first)))[torch.from_numpy(cut.astype(np.int64) - 1)]
    return Ward(torch.cat([there[torch.from_numpy(leaves.astype(np.int64))], absent]), labels)


def _pca(points: Float[Tensor, "head axis"]) -> Float[Tensor, "head 2"]:
    basis = principal_axes(Moments.of(points[:, None]))
    xy = (points - basis.mean[0]) @ basis.axes[0, :2].mT
    return torch.nn.functional.pad(xy, (0, 2 - xy.shape[1]))


def _umap(points: Float[Tensor, "head axis"], seed: int) -> Float[Tensor, "head 2"]:
    try:
        from umap import UMAP  # compiles itself on first import, which takes most of a minute
    except ImportError as error:
        raise ImportError("a UMAP of the heads needs umap-learn: pip install 'residual-audio[umap]', or ask for the PCA map") from error
    if len(points) < 4:
        raise ValueError(f"UMAP needs at least 4 heads with variance, here are {len(points)}; ask for the PCA map")
    # One job and a seed make it deterministic.
    mapper = UMAP(n_neighbors=min(NEIGHBOURS, len(points) - 1), random_state=seed, n_jobs=1)
    return torch.from_numpy(mapper.fit_transform(points.numpy()).astype(np.float64))


def fingerprint_map(spectra: Float[Tensor, "head axis"], seed: int = 0, method: Literal["auto", "umap", "pca"] = "pca") -> FingerprintMap:
    """The fingerprints in two dimensions, where Euclidean distance is the one that ``ward`` sees.

    ``auto`` is UMAP where umap-learn is installed, PCA elsewhere. PCA needs no seed and has fixed signs. NaN for heads without variance.
    """
    points = fingerprints(spectra)
    defined = points.isfinite().all(1)
    if method == "auto":
        method = "umap" if find_spec("umap") is not None and int(defined.sum()) > NEIGHBOURS else "pca"
    xy = torch.full((len(spectra), 2), torch.nan, dtype=torch.float64)
    if defined.any():
        xy[defined] = _umap(points[defined], seed) if method == "umap" else _pca(points[defined])
    return FingerprintMap(xy, method)


def class_activation(
    x: Float[Tensor, "clip head d"], targets: Int[Tensor, " clip"], classes: int, rest: Float[Tensor, " head"] | None = None
) -> Float[Tensor, "head class"]:
    r"""Mean norm of a head's output over the clips of each class; NaN for a class without clips.

    ``rest`` is the length of what x leaves out and no clip changes: contributions come in an isometric frame of d_head dimensions, and
    the share of the bias outside that frame adds to every norm, $\sqrt{|x|^2 + rest^2}$.
    """
    norm = torch.linalg.vector_norm(x.double(), dim=-1)
    if rest is not None:
        norm = torch.hypot(norm, rest.double())
    return class_means(norm, targets, classes).mT.contiguous()


def selectivity(activation: Float[Tensor, "head class"]) -> Selectivity:
    r"""Class selectivity index $(a_{max} - \bar a) / (a_{max} + \bar a)$, $\bar a$ the mean over the other classes (Morcos et al., 2018).

    0: the head is equally strong for all classes; 1: it is silent for all but one. Classes that are NaN are left out; NaN with
    fewer than two classes and for a head that is silent throughout. Unchanged by the head's scale, but not by a constant part.
    """
    seen = ~activation.isnan()
    count = seen.sum(1)
    filled = activation.double().masked_fill(~seen, -torch.inf)
    most, preferred = filled.max(1)
    others = (activation.double().nansum(1) - most) / (count - 1)
    value = torch.where(count > 1, (most - others) / (most + others), torch.nan)
    return Selectivity(value, preferred.masked_fill(value.isnan(), -1))
