"""All dimension estimators for all heads at once, against scikit-dimension and scikit-learn head by head, in one run."""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import skdim
import torch
from common import alternate
from sklearn.decomposition import PCA

from residual_audio.analysis.dimension import estimate_dimensions
from residual_audio.analysis.measures import neighbour_measures


def reference(points: np.ndarray, k: int) -> dict[str, float]:
    """One head, by the libraries; definitions brought to ours where they differ by a factor."""
    ratio = PCA(svd_solver="full").fit(points).explained_variance_ratio_
    entropy = -(ratio[ratio > 0] * np.log(ratio[ratio > 0])).sum()
    local = skdim.id.MLE().fit(points, n_neighbors=k, comb="mean")
    return {
        **{f"pca_{int(100 * a)}": float(np.searchsorted(ratio.cumsum(), a) + 1) for a in (0.90, 0.95, 0.99)},
        "evr_1": ratio[0],
        "evr_2": ratio[1],
        "participation_ratio": 1 / (ratio**2).sum(),
        "effective_rank": np.exp(entropy),
        "entropy": entropy,
        "twonn_fit": skdim.id.TwoNN().fit(points).dimension_,
        "twonn": skdim.id.TwoNN(discard_fraction=0, method="mle").fit(points).dimension_,
        "mle": local.dimension_,
        "mle_inverse": 1 / np.mean(1 / local.dimension_pw_),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=184)
    parser.add_argument("--clips", type=int, default=2000)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    d = 24
    inner = [rng.standard_normal((args.clips, 4 + h % 12)) for h in range(args.heads)]
    x = np.stack([z @ rng.standard_normal((z.shape[1], d)) + 0.05 * rng.standard_normal((args.clips, d)) for z in inner], axis=1)
    tables: dict[str, object] = {}

    def ours() -> None:
        tables["ours"] = estimate_dimensions(torch.from_numpy(x), args.k).table

    def theirs() -> None:
        tables["theirs"] = [reference(np.ascontiguousarray(x[:, h]), args.k) for h in range(args.heads)]

    best = alternate({"ours": ours, "theirs": theirs}, args.rounds)
    table, rows = tables["ours"], tables["theirs"]
    print(f"{args.heads} heads × {args.clips} clips × {d} dimensions, k = {args.k}, {torch.get_num_threads()} threads")
    print(f"scikit-dimension + scikit-learn, head by head: {best['theirs']:6.2f} s")
    print(f"ours, with standard errors:                    {best['ours']:6.2f} s   {best['theirs'] / best['ours']:.1f} × faster")
    for name in rows[0]:
        reference_values = np.array([row[name] for row in rows])
        worst = np.abs(table[name].to_numpy() / reference_values - 1).max()
        print(f"  {name:20s} largest relative difference {worst:.1e}" + ("  (n where they have n − 1)" if name == "twonn" else ""))
    assert {m.name for m in neighbour_measures()} <= set(rows[0])


if __name__ == "__main__":
    main()
