"""Every representation through the same battery: against scikit-learn on the vectors themselves."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.decomposition import PCA

from residual_audio.analysis import AnalysisError, analyze, select
from residual_audio.analysis.representations import MAKERS
from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder
from residual_audio.report.figures import draw, style
from tests.helpers.stored import made

TOKENS = 25  # half a second of Whisper


@pytest.fixture(scope="module")
def run(whisper_dir, tmp_path_factory):
    """Attention matrices of 25 × 25 are kept whole: the exact case."""
    wanted = ("head", "mlp", "block", "stage", "direct", "attention")
    encoder, data = load_encoder(whisper_dir, seconds=0.5), load_dataset("synthetic-voice", per_class=4)
    return extract(encoder, data, tmp_path_factory.mktemp("run") / "r", wanted, batch_size=8, sketch=TOKENS**2)


@pytest.fixture(scope="module")
def analysis(run):
    return analyze(run, "pre", of=["heads", *MAKERS], k=5, draws=0, similarity=("spectra", "subspaces", "cka"))


def exact(points: np.ndarray) -> tuple[int, float]:
    """d_PCA99 and participation ratio by scikit-learn."""
    part = PCA().fit(points).explained_variance_ratio_.astype(float)
    return int((part.cumsum() < 0.99).sum()) + 1, 1 / float((part**2).sum())


def vectors(run, of: str) -> dict[str, np.ndarray]:
    units = run.units
    if of == "mlps":
        return {f"S0B{b}M": run.array("mlp.0")[:][:, b].numpy() for b in range(3)}
    if of == "blocks":
        return {f"S0B{b}": run.array("block.0")[:][:, b].numpy() for b in range(3)}
    if of == "writes":
        return {f"S0B{b}": run.contributions(0, b).sum(1).numpy() for b in range(3)}
    if of == "stages":
        return {"S0": run.array("stage.0")[:].numpy(), "embedding": run.array("embedding.joint")[:].numpy()}
    if of == "joint":
        shares = run.joint_shares()[0]
        return {u.label: shares[:, units.index(u)].numpy() for u in units.where("head")}
    return {u.label: run.array("attention.0")[:][:, i].numpy() for i, u in enumerate(units.where("head"))}


@pytest.mark.parametrize("of", MAKERS)
def test_dimension_equals_scikit_learn(run, analysis, of):
    rows = analysis.heads(of).set_index("label")
    found = vectors(run, of)
    assert set(rows.index) == set(found)
    for label, points in list(found.items())[:3]:
        dimension, ratio = exact(points.astype(float))
        assert rows.pca_99[label] == dimension, label
        assert rows.participation_ratio[label] == pytest.approx(ratio, rel=1e-5), label
        assert rows.ceiling[label] == min(len(points) - 1, points.shape[1])
        assert np.isfinite(rows.loc[label, ["twonn", "mle", "evr_1", "fisher", "pca_99_se"]].astype(float)).all()
    tables = analysis.select(of)
    assert {"blocks", "stages", "components", "class_activation", "clusters", "statistics", "trend", "shape"} <= set(tables)
    assert "similarity_cka" in tables
    assert "similarity_subspaces" not in tables, "it is defined for heads only"


def test_stage_means_of_attention_equal_scikit_learn(run, analysis):
    """a_l of an earlier report: the mean of a head's matrices over the blocks of its stage."""
    points = run.array("attention.0")[:].double().numpy().reshape(len(run.clips), 3, 4, -1)
    means = analysis.select("attention")["attention_means"].set_index("label")
    for label, own in {"S0H1": points[:, :, 1].mean(1), "S0B2": points[:, 2].mean(1), "S0": points.mean((1, 2))}.items():
        dimension, ratio = exact(own)
        assert (means.pca_99[label], means.participation_ratio[label]) == (dimension, pytest.approx(ratio, rel=1e-5))
    assert analysis.info["attention"] == {
        "point": "attention matrix of a clip, mean over its windows", "numbers": [TOKENS**2], "sketched": [True],
    }  # fmt: skip


def test_how_far_heads_look_is_in_their_rows(run, analysis):
    rows = analysis.heads("attention")
    np.testing.assert_allclose(rows.look_time, run.array("attention.reach")[:].double().mean(0)[:, 1], rtol=1e-6)
    assert rows.look_frequency.isna().all()
    assert "look_time" in set(analysis.select("attention")["trend"].measure)
    assert analysis.heads("pre").look_time.isna().all()


def test_uncentred_spectra_are_those_of_the_second_moment(run, analysis):
    rows = analyze(run, "uncentred", k=5, draws=0).heads("uncentred").set_index("label")
    x = run.heads[:].double()[:, 2]
    variance = torch.linalg.eigvalsh(x.T @ x / (len(x) - 1)).flip(0)
    assert rows.evr_1["S0B0H2"] == pytest.approx(float(variance[0] / variance.sum()))
    plain = analysis.heads("pre").set_index("label")
    assert rows.evr_1["S0B0H2"] >= plain.evr_1["S0B0H2"] - 1e-9, "the mean takes the first axis"
    assert rows.twonn.equals(plain.twonn), "distances do not know a mean"


def test_representations_are_compared_block_by_block(analysis):
    rows, tests = analysis.tables["representations"], analysis.tables["representation_tests"]
    assert set(rows.representation) == {"pre", "joint", "attention", "mlps", "writes", "blocks"}
    wide = rows.pivot(index="depth", columns="representation", values="pca_99")
    row = tests[(tests.measure == "pca_99") & (tests.a == "pre") & (tests.b == "mlps")].iloc[0]
    assert row.difference == pytest.approx((wide.mlps - wide.pre).mean())
    assert row.p == pytest.approx(stats.wilcoxon(wide.mlps - wide.pre).pvalue)
    assert "fewer than six blocks" in row.note


def test_rows_of_other_representations_stay(run, analysis, tmp_path):
    analyze(run, of=["mlps"], k=5, draws=0).write(tmp_path)
    analyze(run, of=["stages"], k=5, draws=0).write(tmp_path)
    stored = pd.read_parquet(tmp_path / "tables" / "heads.parquet")
    assert set(stored.regime) == {"mlps", "stages"}
    assert len(select({"heads": stored}, "stages")["heads"]) == 2


def test_figures_of_every_representation(analysis, tmp_path, monkeypatch):
    monkeypatch.setattr(style, "DPI", 50)
    some = {name: t[t.regime.isin(["attention", "stages"])] if "regime" in t else t for name, t in analysis.tables.items()}
    names = ["dimension_of_means", "reach", "representations", "panel_A", "head_similarity_matrix"]
    drawn = {p.stem for p in draw(some, tmp_path, analysis.info, only=names) if p.suffix == ".png"}
    both = {f"{of}_{name}" for of in ("attention", "stages") for name in ("panel_A", "head_similarity_matrix")}
    assert drawn == both | {"attention_dimension_of_means", "attention_reach", "representations"}


def test_what_a_run_cannot_answer_is_said(run):
    with pytest.raises(AnalysisError, match="one or more of heads, joint, attention"):
        analyze(run, of=["layers"])
    with pytest.raises(AnalysisError, match="those of head outputs"):
        analyze(run, "post", of=["mlps"])

    with pytest.raises(AnalysisError, match="--granularity head,mlp"):
        analyze(made(), of=["mlps"])
