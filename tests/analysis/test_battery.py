"""The whole analysis of a real run, against scikit-learn, scikit-dimension and loops over the vectors that the heads write."""

import json
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import skdim
import torch
from scipy import stats
from sklearn.decomposition import PCA

from residual_audio.analysis import AnalysisError, analyze, between_datasets, select
from residual_audio.analysis.measures import dimension_measures, neighbour_measures, spectrum_measures
from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder
from residual_audio.results import write_table
from residual_audio.sampling import stratified_rows
from residual_audio.spectra import Moments
from residual_audio.units import UnitTable
from tests.helpers.stored import HandMade, made

KINDS = ("spectra", "subspaces", "cka", "direct")
LINEAR, NONLINEAR, MEASURES = ([m.name for m in some()] for some in (spectrum_measures, neighbour_measures, dimension_measures))
COUNTS = [m.name for m in dimension_measures() if m.counts]


@pytest.fixture(scope="module")
def run(msclap_path, tmp_path_factory):
    data = load_dataset("synthetic-voice", per_class=5)
    return extract(load_encoder(msclap_path), data, tmp_path_factory.mktemp("run") / "r", ("head", "moments", "direct"), batch_size=8)


@pytest.fixture(scope="module")
def analysis(run):
    return analyze(run, "both", k=7, similarity=KINDS)


@pytest.fixture(scope="module")
def tokens(run):
    return analyze(run, "both", "token")


@pytest.fixture(scope="module")
def labels(run) -> list[str]:
    return [u.label for u in run.units.where("head")]


@pytest.fixture(scope="module")
def vectors(run) -> dict[str, dict[str, np.ndarray]]:
    """By regime and label, all clips: head outputs, and what they write into the stream, W z + b/H written out."""
    pre, post = {}, {}
    outputs = run.heads[:].double().numpy()
    for i, unit in enumerate(run.units.where("head")):
        d, count = run.units.d_head[unit.stage], len(run.units.where("head", unit.stage, unit.block))
        weight, bias = (run.weights[f"projection.{unit.stage}.{unit.block}.{part}"].double().numpy() for part in ("weight", "bias"))
        pre[unit.label] = outputs[:, i]
        post[unit.label] = outputs[:, i] @ weight[:, unit.head * d : (unit.head + 1) * d].T + bias / count
    return {"pre": pre, "post": post}


def equal_tables(a: dict[str, pd.DataFrame], b: dict[str, pd.DataFrame]) -> None:
    assert list(a) == list(b)
    for name in a:
        pd.testing.assert_frame_equal(a[name], b[name], check_exact=True)


# The tables


def test_one_table_of_a_name_holds_all_regimes_and_levels(analysis, tokens, labels):
    names = ["heads", "blocks", "stages", "components", "class_activation", *(f"similarity_{k}" for k in KINDS), "similarity_summary",
             "clusters", "statistics", "pairwise", "trend", "variation", "borders", "dominance", "shape"]  # fmt: skip
    assert list(analysis.tables) == names
    assert list(tokens.tables) == [n for n in names if n not in ("class_activation", "similarity_cka", "similarity_direct")]
    for result, level in ((analysis, "clip"), (tokens, "token")):
        for table in result.tables.values():
            assert list(table.columns[:2]) == ["regime", "level"]
            assert list(dict.fromkeys(table.regime)) == ["pre", "post"]
            assert (table.level == level).all()
        pd.testing.assert_frame_equal(result.heads(), result.heads("pre", level))
        assert result.heads("post").label.tolist() == labels
        assert select(result.tables, "pre", "token" if level == "clip" else "clip") == {}
    with pytest.raises(AnalysisError, match="no regime 'post' at the level 'token'; it has pre/clip, post/clip"):
        analysis.heads("post", "token")


def test_what_was_done_is_known(analysis, run):
    info = dict(analysis.info)
    (flat,) = info.pop("flat")
    assert (flat["clips"], flat["d"]) == (40, 4)
    assert info == {
        "model": run.info["model"], "dataset": run.info["dataset"], "extraction": run.info["settings"], "clips": 40, "of": ["heads"],
        "regime": "both", "level": "clip", "k": 7, "points": None, "similarity": list(KINDS), "clusters": None, "map": "pca", "seed": 0,
        "groups": 40, "draws": 10,
        "one_per_group": "no recording has two clips (or the run does not say which clips are of one recording): every clip is its own",
    }  # fmt: skip
    assert analysis.errors == {}


def test_written_rows_of_other_regimes_and_levels_stay(tmp_path):
    run = made(tokens=Moments.of(torch.randn(300, 3, 4)))
    post = analyze(run, "post")
    for result in (analyze(run), post, analyze(run, "both", "token"), analyze(run, k=5)):
        assert result.write(tmp_path) == tmp_path
    stored = pd.read_parquet(tmp_path / "tables" / "heads.parquet")
    counts = stored.groupby(["regime", "level"]).size().to_dict()
    assert counts == dict.fromkeys(product(("pre", "post"), ("clip", "token")), 3)
    assert (select({"heads": stored})["heads"].k == 5).all(), "the last of the same regime and level counts"
    pd.testing.assert_frame_equal(select({"heads": stored}, "post")["heads"], post.heads(), check_dtype=False)
    assert json.loads((tmp_path / "analysis.json").read_text())["k"] == 5


def test_tables_from_before_there_were_keys_are_read_and_kept(tmp_path):
    old = analyze(made(), "both")
    for regime, prefix in (("pre", ""), ("post", "postproj_")):
        for name, table in old.select(regime).items():
            write_table(table, tmp_path / "tables", prefix + name)
    unkeyed = {p.stem: pd.read_parquet(p) for p in (tmp_path / "tables").glob("*.parquet")}
    pd.testing.assert_frame_equal(select(unkeyed)["trend"], old.select("pre")["trend"])
    assert "trend" not in select(unkeyed, "post")
    analyze(made(tokens=Moments.of(torch.randn(300, 3, 4))), "pre", "token").write(tmp_path)
    assert not list((tmp_path / "tables").glob("postproj_*"))
    stored = {p.stem: pd.read_parquet(p) for p in (tmp_path / "tables").glob("*.parquet")}
    for regime in ("pre", "post"):
        for name, table in select(stored, regime).items():
            pd.testing.assert_frame_equal(table, old.select(regime)[name], check_dtype=False, check_like=True)
    assert len(select(stored, "pre", "token")["heads"]) == 3


def test_a_class_may_not_be_called_as_a_key():
    with pytest.raises(AnalysisError, match="a class is called level"):
        analyze(made(classes=("a", "level", "c")))


def test_heads_of_one_model_are_paired_between_data_sets_and_those_of_two_are_not():
    first, second = analyze(made(30), "both"), analyze(made(24), "both")
    tests = between_datasets({"one": first, "two": second}, "post")
    assert set(tests.test) == {"anova", "kruskal", "wilcoxon"}
    assert (tests.dataset == "one, two").all()
    for changed in ({"name": "another", "revision": "a"}, {"name": "made", "revision": "b"}):
        other = replace(second, info=second.info | {"model": changed})
        with pytest.raises(AnalysisError, match=r"heads of different models .*cannot be paired"):
            between_datasets({"one": first, "two": other})
    with pytest.raises(AnalysisError, match="two: not analysed in the regime 'post'"):
        between_datasets({"one": first, "two": analyze(made(24))}, "post")


def test_one_clip_per_recording_is_in_all_tables():
    run = made(60)
    run.clips["group"] = [f"r{i // 2}" for i in range(60)]
    result = analyze(run, "both", k=5, draws=3)
    assert result.info["one_per_group"] == "60 clips of 30 recordings; one clip per recording: means over 3 draws of 30 clips"
    assert [flat["clips"] for flat in result.info["flat"]] == [60, 30]
    ends = ("one", "one_spread", "control", "control_spread")
    for regime in ("pre", "post"):
        tables = result.select(regime)
        heads, blocks = tables["heads"], tables["blocks"]
        assert (heads.n_one == 30).all()
        for name in ("pca_99", *NONLINEAR, "l_n"):
            assert heads[[f"{name}_{end}" for end in ends]].notna().all(axis=None), name
        for end in ("one", "control"):
            assert blocks[f"twonn_{end}"].tolist() == pytest.approx([heads[f"twonn_{end}"].mean()])
            assert blocks[f"l_n_{end}"].tolist() == pytest.approx((blocks[f"pca_99_{end}"] / blocks[f"twonn_{end}"]).tolist())
        assert {"twonn", "twonn_one", "l_n_one"} <= set(tables["trend"].measure)
        assert "twonn_control" not in set(tables["trend"].measure)
    pd.testing.assert_frame_equal(analyze(run, k=5, draws=3).heads(), result.heads("pre"))
    without = analyze(run, k=5, draws=0)
    assert "not asked for" in without.info["one_per_group"]
    assert not [c for c in without.heads() if c.endswith(("_one", "_control"))]
    shared = list(without.heads())
    pd.testing.assert_frame_equal(without.heads(), result.heads("pre")[shared])
    tests = between_datasets({"a": result, "b": result})
    assert "twonn_one" in set(tests.measure)
    assert "twonn_one" not in set(between_datasets({"a": result, "b": without}).measure), "only what every run has"
    with pytest.raises(AnalysisError, match="0 switches"):
        analyze(run, draws=-1)


@pytest.mark.parametrize("regime", ["pre", "post"])
def test_columns_and_rows(analysis, run, labels, regime):
    tables = analysis.select(regime)
    heads = tables["heads"]
    assert heads.label.tolist() == labels
    assert list(heads.columns[:9]) == ["label", "stage", "block", "depth", "head", "n", "distinct", "duplicates", "k"]
    assert {"ceiling", "fisher", "activation", "selectivity", "preferred"} <= set(heads.columns)
    assert set(MEASURES) | {f"{m}_se" for m in MEASURES} | {f"{m}_rel" for m in COUNTS} <= set(heads.columns)
    assert heads.columns[-1] == "note"
    assert (heads[["n", "distinct", "duplicates", "k"]] == [40, 40, 0, 7]).all(axis=None)
    assert (heads.note == "").all()
    assert heads[[*MEASURES, *(f"{m}_se" for m in MEASURES)]].notna().all(axis=None)
    assert heads.depth.is_monotonic_increasing
    assert heads.depth.iloc[-1] == len(run.units.blocks) - 1
    assert len(tables["blocks"]) == 8
    assert len(tables["stages"]) == 4
    assert list(tables["components"].columns) == ["label", "stage", "depth", "head", "axis", "variance", "ratio", "cumulative", "fisher"]
    assert tables["components"].label.tolist() == [x for x in labels for _ in range(4)]
    assert tables["components"].axis.tolist() == [1, 2, 3, 4] * len(labels)
    assert tables["class_activation"].columns.tolist() == ["label", *run.info["labels"]]
    for kind in KINDS:
        assert tables[f"similarity_{kind}"].label.tolist() == labels
        assert tables[f"similarity_{kind}"].columns.tolist() == ["label", *labels]
    assert tables["similarity_summary"].kind.tolist() == list(KINDS)
    assert sorted(tables["clusters"].order) == list(range(len(labels)))
    assert (tables["clusters"].cluster >= 1).all()
    assert set(tables["statistics"].measure) == {*MEASURES, "fisher"}
    assert set(tables["statistics"].scope) == {"stage"}
    assert len(tables["pairwise"]) == 6 * (len(MEASURES) + 1)
    assert (tables["trend"].n == len(labels)).all()


@pytest.mark.parametrize("regime", ["pre", "post"])
def test_blocks_and_stages_are_means_over_heads(analysis, regime):
    heads = analysis.heads(regime)
    for name, keys in (("blocks", ["stage", "block", "depth"]), ("stages", ["stage"])):
        for _, row in analysis.select(regime)[name].iterrows():
            members = heads[np.logical_and.reduce([heads[k] == row[k] for k in keys])]
            assert row.heads == len(members)
            for measure in [m for m in MEASURES if m != "l_n"]:
                assert row[measure] == pytest.approx(np.mean(members[measure].to_numpy()))
                spread = np.std(members[measure].to_numpy(), ddof=1) if len(members) > 1 else np.nan
                assert row[f"{measure}_std"] == pytest.approx(spread, nan_ok=True)
            assert row.l_n == pytest.approx(members.pca_99.mean() / members.twonn.mean())
            assert row.fisher == pytest.approx(members.fisher.mean())
    assert analysis.select(regime)["blocks"].pca_99_std.isna().sum() == 2, "stage 0 has two blocks of one head"


def test_statistics_are_those_of_the_heads_table(analysis):
    heads = analysis.heads()
    row = analysis.select()["statistics"].query("measure == 'twonn' and test == 'anova'").iloc[0]
    theirs = stats.f_oneway(*[part.to_numpy() for _, part in heads.groupby("stage").twonn])
    assert (row.statistic, row.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    row = analysis.select()["trend"].set_index("measure").loc["fisher"]
    assert row.spearman == pytest.approx(stats.spearmanr(heads.depth, heads.fisher).statistic)


def test_the_map_is_the_pca_of_the_fingerprints(analysis):
    wide = analysis.select()["components"].pivot(index="label", columns="axis", values="ratio").loc[analysis.heads().label]
    theirs, ours = PCA(2).fit_transform(wide), analysis.select()["clusters"][["x", "y"]].to_numpy()
    for axis in range(2):
        assert min(np.abs(ours[:, axis] - sign * theirs[:, axis]).max() for sign in (1, -1)) < 1e-9
    assert (analysis.select()["clusters"]["map"] == "pca").all()


# What is measured: the oracle is the full vectors, 4 to 32 long


def test_the_oracle_is_what_the_run_derives(run, vectors):
    for stage, block in run.units.blocks:
        written = run.contributions(stage, block).numpy()
        for unit in run.units.where("head", stage, block):
            expected = vectors["post"][unit.label]
            np.testing.assert_allclose(written[:, unit.head], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("regime", ["pre", "post"])
def test_spectra_equal_scikit_learn_on_the_full_vectors(analysis, vectors, regime):
    heads, components = analysis.heads(regime).set_index("label"), analysis.select(regime)["components"]
    for label, x in vectors[regime].items():
        theirs = PCA(svd_solver="full").fit(x)
        own_axes = components[components.label == label]
        np.testing.assert_allclose(own_axes.variance, theirs.explained_variance_[:4], rtol=1e-8, atol=1e-12 * theirs.explained_variance_[0])
        assert theirs.explained_variance_[4:].sum() < 1e-12 * theirs.explained_variance_[0]
        p = theirs.explained_variance_ratio_[:4]
        np.testing.assert_allclose(own_axes.ratio, p, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(own_axes.cumulative, np.cumsum(p), rtol=1e-8)
        expected = {"evr_1": p[0], "evr_2": p[1], "participation_ratio": 1 / (p @ p), "entropy": -(p @ np.log(p)),
                    "effective_rank": np.exp(-(p @ np.log(p)))}  # fmt: skip
        expected |= {f"pca_{s}": np.flatnonzero(np.cumsum(p) >= s / 100)[0] + 1 for s in (90, 95, 99)}
        for name, value in expected.items():
            assert heads[name][label] == pytest.approx(value, rel=1e-8), name


@pytest.mark.parametrize("regime", ["pre", "post"])
@pytest.mark.parametrize("label", ["S0B0H0", "S1B1H1", "S2B0H3", "S3B1H7"])
def test_neighbour_estimates_equal_scikit_dimension_on_the_full_vectors(analysis, vectors, regime, label):
    row, x = analysis.heads(regime).set_index("label").loc[label], vectors[regime][label]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert row.twonn_fit == pytest.approx(skdim.id.TwoNN().fit(x).dimension_, rel=1e-6)
        unbiased = skdim.id.TwoNN(discard_fraction=0, method="mle").fit(x).dimension_
        assert row.mle == pytest.approx(skdim.id.MLE().fit(x, n_neighbors=7, comb="mean").dimension_, rel=1e-6)
        assert row.mle_inverse == pytest.approx(skdim.id.MLE().fit(x, n_neighbors=7, comb="mle").dimension_, rel=1e-6)
    assert row.twonn == pytest.approx(unbiased * len(x) / (len(x) - 1), rel=1e-6)
    assert row.l_n == pytest.approx(row.pca_99 / row.twonn)


@pytest.mark.parametrize("regime", ["pre", "post"])
def test_discriminability_equals_slow_loops_on_the_full_vectors(analysis, run, vectors, regime):
    heads, components = analysis.heads(regime).set_index("label"), analysis.select(regime)["components"]
    classes = run.clips.label.to_numpy()
    for label, x in vectors[regime].items():
        within, between = 0.0, 0.0
        for name in run.info["labels"]:
            members = x[classes == name]
            between += len(members) * ((members.mean(0) - x.mean(0)) ** 2).sum()
            for clip in members:
                within += ((clip - members.mean(0)) ** 2).sum()
        assert heads.fisher[label] == pytest.approx(between / within, rel=1e-8)
        along = PCA(4, svd_solver="full").fit_transform(x)
        ratios = []
        for axis in along.T:
            groups = [axis[classes == name] for name in run.info["labels"]]
            f = stats.f_oneway(*groups).statistic
            # Stage 0 is normed over four channels, so its heads vary along three axes; the fourth has no ratio.
            flat = axis.var() < 1e-12 * along.var(0).sum()
            ratios.append(np.nan if flat else f * (len(groups) - 1) / (len(axis) - len(groups)))
        np.testing.assert_allclose(components[components.label == label].fisher, ratios, rtol=1e-5)


@pytest.mark.parametrize("regime", ["pre", "post"])
def test_class_activation_is_the_mean_norm_of_the_full_vectors(analysis, run, vectors, regime):
    heads, table = analysis.heads(regime).set_index("label"), analysis.select(regime)["class_activation"].set_index("label")
    classes = run.clips.label.to_numpy()
    for label, x in vectors[regime].items():
        norm = np.linalg.norm(x, axis=1)
        expected = {name: norm[classes == name].mean() for name in run.info["labels"]}
        for name, value in expected.items():
            assert table[name][label] == pytest.approx(value, rel=1e-8)
        assert heads.activation[label] == pytest.approx(norm.mean(), rel=1e-8)
        best = max(expected, key=expected.get)
        others = np.mean([v for name, v in expected.items() if name != best])
        assert heads.preferred[label] == best
        assert heads.selectivity[label] == pytest.approx((expected[best] - others) / (expected[best] + others), rel=1e-6)


def test_a_ceiling_is_the_rank_or_the_number_of_clips(analysis, tokens):
    for table in (analysis.heads(), analysis.heads("post"), tokens.heads()):
        assert (table.ceiling == 4).all()
        for name in COUNTS:
            np.testing.assert_allclose(table[f"{name}_rel"], table[name] / 4)
    assert set(COUNTS) == set(MEASURES) - {"evr_1", "evr_2", "entropy", "l_n"}


# Similarity


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def pairs(labels):
    """Some inside a stage and some across."""
    chosen = labels[::5]
    return [(a, b) for a in chosen for b in chosen]


@pytest.mark.parametrize("regime", ["pre", "post"])
def test_similarity_equals_its_definition(analysis, run, labels, vectors, regime):
    x = vectors[regime]
    tables = {kind: analysis.select(regime)[f"similarity_{kind}"].set_index("label") for kind in KINDS}
    shares = run.shares()[0].double().numpy()
    covariance = {u.label: np.cov(shares[:, i].T) for i, u in enumerate(run.units) if u.kind == "head"}
    for a, b in pairs(labels):
        spectrum_a, spectrum_b = (PCA(4, svd_solver="full").fit(x[label]).explained_variance_ for label in (a, b))
        assert tables["spectra"].loc[a, b] == pytest.approx(cosine(spectrum_a, spectrum_b), abs=1e-9)
        centred_a, centred_b = (x[label] - x[label].mean(0) for label in (a, b))
        assert tables["cka"].loc[a, b] == pytest.approx(cosine(centred_a @ centred_a.T, centred_b @ centred_b.T), abs=1e-9)
        assert tables["direct"].loc[a, b] == pytest.approx(cosine(covariance[a], covariance[b]), abs=1e-9)
        if a[:2] == b[:2]:
            written_a, written_b = (np.cov(vectors["post"][label].T) for label in (a, b))
            assert tables["subspaces"].loc[a, b] == pytest.approx(cosine(written_a, written_b), abs=1e-9)
        else:
            assert np.isnan(tables["subspaces"].loc[a, b])


def test_subspaces_and_direct_shares_are_the_same_in_both_regimes(analysis):
    """They are of what is written, wherever one looks from."""
    for kind in ("subspaces", "direct"):
        pd.testing.assert_frame_equal(*(analysis.select(regime)[f"similarity_{kind}"] for regime in ("pre", "post")))


def test_the_summary_is_a_mean_over_pairs(analysis, labels):
    for _, row in analysis.select()["similarity_summary"].iterrows():
        table = analysis.select()[f"similarity_{row.kind}"].set_index("label")
        values = {(a, b): table.loc[a, b] for i, a in enumerate(labels) for b in labels[i + 1 :]}
        within = np.nanmean([v for (a, b), v in values.items() if a[:2] == b[:2]])
        between = [v for (a, b), v in values.items() if a[:2] != b[:2] and not np.isnan(v)]
        assert row.within == pytest.approx(within)
        assert row["between"] == pytest.approx(np.mean(between) if between else np.nan, nan_ok=True)
        assert row.ratio == pytest.approx(within / np.mean(between) if between else np.nan, nan_ok=True)
        assert row.defined_pairs == np.isfinite(list(values.values())).sum()


# Tokens


def test_token_level_is_the_pca_of_the_token_moments_in_either_space(tokens, run):
    moments = run.moments("tokens")
    for regime in ("pre", "post"):
        heads, components = tokens.heads(regime), tokens.select(regime)["components"]
        for i, unit in enumerate(run.units.where("head")):
            n, mean = int(moments.count[i]), (moments.total[i] / moments.count[i]).numpy()
            covariance = (moments.second[i].numpy() - n * np.outer(mean, mean)) / (n - 1)
            if regime == "post":
                weight = run.weights[f"projection.{unit.stage}.{unit.block}.weight"].double().numpy()
                own_weight = weight[:, 4 * unit.head : 4 * unit.head + 4]
                covariance = own_weight @ covariance @ own_weight.T
            expected = np.linalg.eigvalsh(covariance)[::-1][:4]
            np.testing.assert_allclose(components[components.label == unit.label].variance, expected, rtol=1e-7, atol=1e-11 * expected[0])
            assert heads.n[i] == n
            assert heads.evr_1[i] == pytest.approx(expected[0] / expected.sum(), rel=1e-7)
        assert heads[[*NONLINEAR, "l_n"]].isna().all(axis=None)
        assert heads[list(LINEAR)].notna().all(axis=None)
        assert (heads.note == "neighbours need clip level").all()
    assert set(tokens.tables["statistics"].measure) == set(LINEAR)


def test_a_part_of_the_clips_means_nothing_to_moments_of_all_tokens():
    run = made(tokens=Moments.of(torch.randn(300, 3, 4)))
    few, all_of_them = (analyze(run, "both", "token", points=p) for p in (5, None))
    equal_tables(few.tables, all_of_them.tables)
    assert few.info["clips"] == 30


# Choices


def test_a_part_of_the_clips_is_drawn_with_the_seed_and_recorded():
    run = made(30)
    few = analyze(run, "both", points=12, seed=3)
    rows = np.array(stratified_rows(list(run.clips.label), [-1] * 30, 12, 3))
    assert np.bincount(rows % 3).tolist() == [4, 4, 4], "evenly over the classes"
    by_hand = analyze(HandMade(run.heads[rows], rows % 3), "both", seed=3)
    equal_tables(few.tables, by_hand.tables)
    assert (few.info["clips"], few.info["seed"]) == (12, 3)
    assert (few.heads().n == 12).all()
    other = analyze(run, points=12, seed=4).heads()
    assert not np.allclose(other.evr_1, few.heads().evr_1)
    equal_tables(analyze(run, points=500).tables, analyze(run).tables)


def test_the_same_question_has_the_same_answer_and_no_warnings():
    run = made()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        equal_tables(analyze(run, "both", similarity=KINDS[:3]).tables, analyze(run, "both", similarity=KINDS[:3]).tables)


def test_progress_counts_heads():
    told = []
    analyze(made(), "both", advance=told.append)
    assert sum(told) == 6


def test_neighbours_and_clusters_as_asked():
    result = analyze(made(), k=5, clusters=2)
    assert (result.heads().k == 5).all()
    assert set(result.tables["clusters"].cluster) == {1, 2}
    assert (analyze(made(12), k=50).heads().k == 11).all(), "there are no more neighbours than other clips"


# Degenerate data


def test_a_deficient_projection_lowers_the_ceiling_after_it():
    weight = torch.randn(12, 12)
    weight[:, 1] = weight[:, 0]
    weights = {"projection.0.0.weight": weight, "projection.0.0.bias": torch.randn(12)}
    result = analyze(made(weights=weights), "both")
    assert result.heads("pre").ceiling.tolist() == [4, 4, 4]
    assert result.heads("post").ceiling.tolist() == [3, 4, 4]
    assert result.select("post")["components"].ratio[3] < 1e-12


def test_duplicates_are_counted_and_do_not_raise_the_ceiling():
    few = made(3).heads
    heads = analyze(HandMade(torch.cat([few] * 3), np.arange(9) % 3)).heads()
    assert (heads[["n", "distinct", "duplicates", "ceiling"]] == [9, 3, 6, 2]).all(axis=None)
    assert (heads.note == "6 duplicates left out").all()
    np.testing.assert_allclose(heads.twonn, analyze(made(3)).heads().twonn)


def test_a_constant_head_has_no_values_and_says_so():
    run = made()
    run.heads[:, 1] = run.heads[0, 1].clone()
    result = analyze(run, "both", similarity=KINDS[:3])
    for regime in ("pre", "post"):
        tables = result.select(regime)
        heads = tables["heads"]
        assert heads.loc[1, [*MEASURES, "fisher"]].isna().all()
        assert "constant: no spectrum" in heads.note[1]
        assert heads.loc[[0, 2], [*MEASURES, "fisher"]].notna().all(axis=None)
        assert heads.activation[1] > 0
        assert tables["clusters"].cluster[1] == 0
        for kind in KINDS[:3]:
            table = tables[f"similarity_{kind}"].set_index("label").to_numpy()
            assert np.isnan(table[1]).all()
            assert np.isfinite(table[np.ix_([0, 2], [0, 2])]).all()
        components = tables["components"]
        assert components[components.label == "S0B0H1"][["ratio", "cumulative", "fisher"]].isna().all(axis=None)


@pytest.mark.parametrize("classes", [("a",), ("a", "b")])
def test_one_class_cannot_be_told_from_another(classes):
    result = analyze(made(targets=np.zeros(30, int), classes=classes), "both")
    assert result.heads()[list(MEASURES)].notna().all(axis=None)
    assert result.heads().get("fisher", pd.Series(np.nan)).isna().all()
    assert result.tables["components"].fisher.isna().all()
    assert result.tables["stages"].fisher.isna().all()


def test_two_clips_have_a_line_and_no_neighbours():
    heads = analyze(made(2), "both").heads()
    assert (heads[["pca_99", "ceiling"]] == 1).all(axis=None)
    assert heads[list(NONLINEAR)].isna().all(axis=None)
    assert (heads.note == "2 distinct points: too few for distances").all()


def test_one_head_and_stages_of_one_head():
    alone = analyze(made(x=torch.randn(30, 1, 4), units=UnitTable(((1,),), (4,), (12,))), "both")
    assert len(alone.heads()) == 1
    assert len(alone.tables["statistics"]) == 0
    pair = analyze(made(units=UnitTable(((2,), (1,)), (4, 4), (12, 24))), "both")
    assert (pair.tables["statistics"].note == "S1 has 1 value").all()


def test_storage_in_half_precision_changes_little():
    run = made()
    narrow = HandMade(run.heads.half(), np.arange(30) % 3)
    np.testing.assert_allclose(analyze(narrow, "post").heads().twonn, analyze(run, "post").heads().twonn, rtol=0.02)


# Questions without an answer


@pytest.mark.parametrize(
    ("run", "choices", "says"),
    [
        (made(), {"regime": "after"}, "one of pre, post, both"),
        (made(), {"level": "frame"}, "one of clip, token"),
        (made(), {"similarity": ["cosine", "cka"]}, "unknown similarity cosine; one or more of spectra"),
        (made(), {"similarity": ["direct"]}, "--granularity head,moments,direct"),
        (made(), {"level": "token"}, "no token-level moments; extract with --granularity head,moments"),
        (made(), {"k": 1}, "at least 2"),
        (made(), {"points": 1}, "at least 2"),
        (made(), {"clusters": 4}, "cannot make 4 clusters of 3 heads"),
        (made(keys=["embedding.joint"]), {}, "no head outputs; extract with --granularity head,moments .it has embedding.joint"),
        (made(1), {}, "1 readable clips"),
        (made(0), {}, "0 readable clips"),
    ],
)
def test_what_a_run_cannot_answer(run, choices, says):
    with pytest.raises(AnalysisError, match=says):
        analyze(run, **choices)
