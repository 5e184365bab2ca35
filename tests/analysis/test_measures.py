"""The registry of measures: those of a spectrum against their definitions, and what a new one reaches by being registered."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA

from residual_audio.analysis import MEASURES, AnalysisError, analyze, measure_title
from residual_audio.analysis.measures import SpectrumMeasure, dimension_measures, neighbour_measures, one_measures, spectrum_measures
from residual_audio.analysis.measures.entropy import effective_rank
from residual_audio.analysis.measures.participation_ratio import participation_ratio
from residual_audio.analysis.measures.pca import pca_dimension
from residual_audio.report.figures import FIGURES, Context
from residual_audio.report.page.gather import measures, stages
from residual_audio.report.paper_tables import paper_tables
from residual_audio.spectra import Moments, principal_axes, shares
from tests.helpers.stored import made


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
    ours = {m.name: m.compute(torch.from_numpy(spectra)) for m in spectrum_measures()}
    assert set(ours) == set(slow(spectra[0]))
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
    for measure in spectrum_measures():
        assert measure.compute(torch.zeros(2, 4, dtype=torch.float64)).isnan().all()


def test_one_dimension_has_no_second_axis():
    assert MEASURES["evr_2"].compute(torch.tensor([[2.0]], dtype=torch.float64)).tolist() == [0.0]


def test_every_measure_says_what_it_is():
    own = [m.name for m in MEASURES.values() if m.of != "draws"]
    assert own[:13] == [
        "pca_90", "pca_95", "pca_99", "evr_1", "evr_2", "participation_ratio", "effective_rank", "entropy", "twonn", "twonn_fit", "mle",
        "mle_inverse", "l_n",
    ]  # fmt: skip
    assert [m.name for m in dimension_measures()] == own[:13]
    assert [m.name for m in one_measures()] == [f"{m.name}_one" for m in dimension_measures() if m.siblings]
    assert {m.name for m in neighbour_measures()} <= {m.base.name for m in one_measures()}
    assert measure_title("twonn_one") == "TwoNN dimension, one clip per recording"
    for field in ("title", "short"):
        texts = [getattr(m, field) for m in MEASURES.values()]
        assert len(set(texts)) == len(texts)
    assert all(m.help and not m.help.endswith(".") for m in MEASURES.values())
    assert {m.name for m in MEASURES.values() if m.counts} == {
        "pca_90", "pca_95", "pca_99", "participation_ratio", "effective_rank", "twonn", "twonn_fit", "mle", "mle_inverse",
    }  # fmt: skip
    assert measure_title("fisher") == "Fisher ratio"
    assert measure_title("trained") == "trained"
    with pytest.raises(AnalysisError, match="did you mean participation_ratio"):
        MEASURES["participation"]


@pytest.fixture
def flatness(monkeypatch):
    """A measure that is not ours, registered as a file of its own would."""
    known = dict(MEASURES)
    monkeypatch.setattr(MEASURES, "_things", known)
    return MEASURES.add(
        SpectrumMeasure(
            name="flatness",
            title="spectral flatness",
            short="flat",
            help="geometric over arithmetic mean of the variances",
            counts=True,
            compute=lambda v: v.log().mean(-1).exp() / v.mean(-1),
        )
    )


def test_a_new_measure_is_in_all_tables_figures_and_on_the_page(flatness, tmp_path):
    result = analyze(made(40), "both")
    tables = result.select("post")
    variance = tables["components"].pivot(index="label", columns="axis", values="variance").to_numpy()
    np.testing.assert_allclose(tables["heads"].flatness, np.exp(np.log(variance).mean(1)) / variance.mean(1))
    assert tables["heads"][["flatness_se", "flatness_rel"]].notna().all(axis=None)
    for name in ("blocks", "stages"):
        assert {"flatness", "flatness_std"} <= set(tables[name])
    assert "flatness" in set(tables["trend"].measure)
    titled = paper_tables({"made": tables})
    assert "flat" in titled["table_1"][1].columns
    assert "flat" in titled["table_2"][1].Measure.tolist()
    labels = [t.get_text() for t in FIGURES["panel_H"].plot(tables, Context()).axes[0].get_xticklabels()]
    assert "flat" in labels
    result.write(tmp_path)
    colours = {c["key"]: c for c in measures(tmp_path, tables["heads"].label.tolist())}
    assert colours["flatness"]["name"] == "spectral flatness"
    assert "flat" in [c["name"] for c in stages(tmp_path)["columns"]]
    assert pd.read_csv(tmp_path / "tables" / "heads.csv").flatness.notna().all()
