"""Our tests and effects against scipy, statsmodels and slow formulas; the published heads must give the published figures."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multicomp import pairwise_tukeyhsd
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttest_ind

from residual_audio.analysis.group_tests import cohens_d_interval, stars
from residual_audio.analysis.statistics import dataset_tests, pairwise, stage_tests, trend
from residual_audio.reproduction.published import HERE

PLACES = [(0, 0, 3), (0, 1, 3), (1, 0, 6), (2, 0, 5), (2, 1, 5)]  # stage, block, heads
PUBLISHED = {"pca_90": "pca_90", "pca_99": "pca_99", "twonn": "twonn", "pr": "participation_ratio", "eff_rank": "effective_rank",
             "evr_pc1": "evr_1"}  # fmt: skip


def make_heads(seed: int = 0, places=PLACES) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        {"label": f"S{s}B{b}H{h}", "stage": s, "block": b, "depth": depth, "head": h,
         "smooth": s + rng.normal(), "count": float(rng.integers(0, 3 + 2 * s))}
        for depth, (s, b, n) in enumerate(places) for h in range(n)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def several(*names: str) -> pd.DataFrame:
    """The same heads in several data sets."""
    return pd.concat([make_heads(seed).assign(dataset=name) for seed, name in enumerate(names)], ignore_index=True)


def row(table: pd.DataFrame, **which) -> pd.Series:
    for column, value in which.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


def by_stage(heads: pd.DataFrame, measure: str) -> list[np.ndarray]:
    return [part[measure].to_numpy() for _, part in heads.groupby("stage")]


@pytest.fixture(scope="module")
def heads() -> pd.DataFrame:
    return make_heads()


@pytest.mark.parametrize("measure", ["smooth", "count"])
def test_anova_is_that_of_statsmodels(heads, measure):
    ours = row(stage_tests(heads, [measure]), test="anova")
    theirs = anova_lm(ols(f"Q('{measure}') ~ C(stage)", heads).fit())
    assert ours[["statistic", "p"]].tolist() == pytest.approx(theirs.loc["C(stage)", ["F", "PR(>F)"]].tolist())
    assert ours[["df_between", "df_within"]].tolist() == theirs["df"].tolist()
    assert ours.effect == pytest.approx(theirs.loc["C(stage)", "sum_sq"] / theirs["sum_sq"].sum())
    assert (ours.n, ours.note, ours.scope, ours.dataset, ours.stars) == (22, "", "stage", "", stars(ours.p))


@pytest.mark.parametrize("measure", ["smooth", "count"])
def test_kruskal_by_the_textbook(heads, measure):
    ours = row(stage_tests(heads, [measure]), test="kruskal")
    ranks, n = heads[measure].rank(), len(heads)
    raw = 12 / (n * (n + 1)) * sum(len(r) * (r.mean() - (n + 1) / 2) ** 2 for _, r in ranks.groupby(heads["stage"]))
    ties = heads[measure].value_counts().to_numpy()
    h = raw / (1 - (ties**3 - ties).sum() / (n**3 - n))
    assert ours.statistic == pytest.approx(h)
    assert ours.p == pytest.approx(stats.chi2.sf(h, 2))
    assert ours.effect == pytest.approx(h * (n + 1) / (n**2 - 1))


def test_blocks_as_groups(heads):
    table = stage_tests(heads, ["smooth"], by="depth")
    groups = [part["smooth"] for _, part in heads.groupby("depth")]
    assert row(table, test="anova").statistic == pytest.approx(stats.f_oneway(*groups).statistic)
    assert set(table.scope) == {"depth"}
    assert pairwise(heads, ["smooth"], by="depth").a.unique().tolist() == ["S0B0", "S0B1", "S1B0", "S2B0"]


def test_tukey_is_that_of_scipy_and_statsmodels(heads):
    ours = pairwise(heads, ["smooth"])
    scipys = stats.tukey_hsd(*by_stage(heads, "smooth"))
    interval = scipys.confidence_interval(0.95)
    models = pairwise_tukeyhsd(heads["smooth"], heads["stage"])
    assert list(zip(ours.a, ours.b, strict=True)) == [("S0", "S1"), ("S0", "S2"), ("S1", "S2")]
    for k, (i, j) in enumerate(itertools.combinations(range(3), 2)):  # scipy's difference is row − column, ours b − a
        one = ours.iloc[k]
        assert one.difference == pytest.approx(scipys.statistic[j, i])
        assert one.tukey_p == pytest.approx(scipys.pvalue[j, i], abs=1e-9)
        assert (one.tukey_low, one.tukey_high) == pytest.approx((interval.low[j, i], interval.high[j, i]), rel=1e-5)
        assert (one.tukey_low, one.tukey_high) == pytest.approx(tuple(models.confint[k]), abs=1e-4)
        assert one.tukey_p == pytest.approx(models.pvalues[k], abs=1e-4)


def test_t_bonferroni_and_d(heads):
    ours = pairwise(heads, ["smooth"])
    groups = dict(zip(["S0", "S1", "S2"], by_stage(heads, "smooth"), strict=True))
    raw = []
    for _, one in ours.iterrows():
        x, y = groups[one.a], groups[one.b]
        t, p, df = ttest_ind(y, x)
        raw.append(p)
        assert (one.t, one.t_p, one.n_a + one.n_b - 2) == pytest.approx((t, p, df))
        slow = sum((v - x.mean()) ** 2 for v in x) + sum((v - y.mean()) ** 2 for v in y)
        assert one.cohens_d == pytest.approx((sum(y) / len(y) - sum(x) / len(x)) / (slow / (len(x) + len(y) - 2)) ** 0.5)
        assert (one.d_low, one.d_high) == cohens_d_interval(one.cohens_d, len(x), len(y))
    assert ours.bonferroni_p.tolist() == pytest.approx(multipletests(raw, method="bonferroni")[1].tolist())


def tail_by_quadrature(t: float, df: int, delta: float) -> float:
    """P(T ≤ t) of the noncentral t from its definition T = (Z + δ) / U, for t > 0: the mean over Z of P(U ≥ (Z + δ) / t)."""

    def over_z(z):
        return stats.norm.pdf(z) * stats.chi2.sf(df * max(0.0, (z + delta) / t) ** 2, df)

    return integrate.quad(over_z, -9, 9, points=[np.clip(-delta, -9, 9)], limit=300)[0]


@pytest.mark.parametrize(("d", "n_a", "n_b"), [(0.3, 4, 9), (1.2, 8, 16), (8.94, 8, 64), (40.0, 3, 3), (900.0, 10, 20), (20000.0, 10, 20)])
def test_interval_of_d_from_the_definition(d, n_a, n_b):
    scale, df = (1 / n_a + 1 / n_b) ** 0.5, n_a + n_b - 2
    t = d / scale
    low, high = cohens_d_interval(d, n_a, n_b)
    reach = 1 + t * t / (2 * df)

    def root(p):
        return scale * optimize.brentq(lambda delta: tail_by_quadrature(t, df, delta) - p, t - 3 * reach**0.5, t + 8 * reach**0.5)

    assert (low, high) == pytest.approx((root(0.975), root(0.025)), rel=2e-5)
    assert cohens_d_interval(-d, n_a, n_b) == pytest.approx((-high, -low), rel=1e-6)


def test_interval_of_d_by_simulation():
    """If δ is the lower end, the observed d is exceeded in 2.5 % of experiments; if it is the upper, it is missed in 2.5 %."""
    rng = np.random.default_rng(3)
    low, high = cohens_d_interval(1.2, 8, 16)
    a, b = rng.standard_normal((60000, 8)), rng.standard_normal((60000, 16))
    pooled = np.sqrt((7 * a.var(1, ddof=1) + 15 * b.var(1, ddof=1)) / 22)
    apart = b.mean(1) - a.mean(1)
    assert ((apart + low) / pooled > 1.2).mean() == pytest.approx(0.025, abs=0.003)
    assert ((apart + high) / pooled < 1.2).mean() == pytest.approx(0.025, abs=0.003)


def test_three_data_sets():
    heads = several("one", "two", "three")
    table = dataset_tests(heads, ["smooth", "count"])
    assert table.stage.unique().tolist() == ["S0", "S1", "S2", "all"]
    assert set(table.dataset) == {"one, two, three"}
    assert set(table.scope) == {"dataset"}
    part = heads[heads.stage == 1]
    groups = [rows["smooth"] for _, rows in part.groupby("dataset", sort=False)]
    assert row(table, stage="S1", measure="smooth", test="anova").statistic == pytest.approx(stats.f_oneway(*groups).statistic)
    assert row(table, stage="S1", measure="smooth", test="kruskal").p == pytest.approx(stats.kruskal(*groups).pvalue)

    wide = heads.pivot(index="label", columns="dataset", values="count").to_numpy()
    n, k = wide.shape
    ranks = np.array([stats.rankdata(values) for values in wide])
    chi2 = (k - 1) * ((ranks.sum(0) - n * (k + 1) / 2) ** 2).sum() / ((ranks - (k + 1) / 2) ** 2).sum()
    ours = row(table, stage="all", measure="count", test="friedman")
    assert ours.statistic == pytest.approx(chi2)
    assert ours.p == pytest.approx(stats.chi2.sf(chi2, k - 1))
    assert ours.effect == pytest.approx(chi2 / (n * (k - 1)))
    assert ours.n == n


def test_two_data_sets_are_paired_by_head():
    heads = several("one", "two")
    heads = heads.sample(frac=1, random_state=0).sort_values("dataset", kind="stable")  # pairs are found by label, not by position
    ours = row(dataset_tests(heads, ["smooth"]), stage="S1", test="wilcoxon")
    wide = heads[heads.stage == 1].pivot(index="label", columns="dataset", values="smooth")
    change = (wide["two"] - wide["one"]).to_numpy()
    ranks = stats.rankdata(abs(change))
    up, down = ranks[change > 0].sum(), ranks[change < 0].sum()
    everything = [sum(r for r, s in zip(ranks, signs, strict=True) if s) for signs in itertools.product([0, 1], repeat=len(ranks))]
    extreme = np.mean([min(w, ranks.sum() - w) <= min(up, down) for w in everything])
    assert ours.statistic == min(up, down)
    assert ours.p == pytest.approx(extreme)
    assert ours.effect == pytest.approx((up - down) / ranks.sum())
    assert dataset_tests(make_heads().assign(dataset="one"), ["smooth"]).empty


def test_paired_uses_the_heads_known_everywhere():
    heads = several("one", "two", "three")
    heads.loc[heads.label.eq("S1B0H2") & heads.dataset.eq("two"), "smooth"] = np.nan
    heads.loc[heads.label.eq("S1B0H3") & heads.dataset.eq("one"), "smooth"] = np.inf
    table = dataset_tests(heads, ["smooth"])
    assert row(table, stage="S1", test="friedman").n == 4
    assert row(table, stage="S1", test="anova").n == 16


def test_pairs_of_data_sets():
    heads = several("one", "two")
    ours = row(pairwise(heads, ["smooth"], by="dataset"), stage="all")
    x, y = (heads.loc[heads.dataset == name, "smooth"].to_numpy() for name in ("one", "two"))
    assert (ours.a, ours.b, ours.t) == ("one", "two", pytest.approx(stats.ttest_ind(y, x).statistic))
    assert ours.tukey_p == pytest.approx(ours.t_p, abs=1e-6)  # with two groups Tukey's test is the t test


def test_several_data_sets_are_tested_one_by_one():
    heads = several("one", "two")
    for table in (stage_tests, pairwise, trend):
        together = table(heads, ["smooth", "count"])
        apart = [table(heads[heads.dataset == name], ["smooth", "count"]) for name in ("one", "two")]
        pd.testing.assert_frame_equal(together, pd.concat(apart, ignore_index=True))


def test_trend_is_the_correlation_of_ranks(heads):
    for _, ours in trend(heads, ["smooth", "count"]).iterrows():
        rho = np.corrcoef(stats.rankdata(heads["depth"]), stats.rankdata(heads[ours.measure]))[0, 1]
        assert ours.spearman == pytest.approx(rho)
        assert (ours.n, ours.blocks, ours.arrangements, ours.stars, ours.note) == (22, 5, 120, stars(ours.p), "")
        slow = []
        for order in itertools.permutations(range(5)):  # the block at each place; its heads go with it
            moved = pd.concat([heads[heads.depth == b].assign(place=place) for place, b in enumerate(order)])
            slow.append(abs(stats.spearmanr(moved.place, moved[ours.measure]).statistic))
        assert ours.p == pytest.approx(np.mean(np.array(slow) >= slow[0] - 1e-9))


@pytest.mark.parametrize("test", ["anova", "kruskal"])
def test_whole_blocks_are_dealt_out_to_the_stages(heads, test):
    ours = row(stage_tests(heads, ["smooth"]), test=test)
    of = np.array([0, 0, 1, 2, 2])
    slow = []
    for order in itertools.permutations(range(5)):
        dealt = heads.assign(stage=heads.depth.map(lambda b, order=order: of[order.index(b)]))
        slow.append((stats.f_oneway if test == "anova" else stats.kruskal)(*by_stage(dealt, "smooth")).statistic)
    assert ours.p_blocks == pytest.approx(np.mean(np.array(slow) >= slow[0] - 1e-9))
    assert np.isnan(row(stage_tests(heads, ["smooth"], by="depth"), test=test).p_blocks), "blocks are the groups: nothing to deal"


@pytest.mark.parametrize(
    ("p", "text"), [(0.0, "***"), (9e-4, "***"), (0.001, "**"), (0.01, "*"), (0.049, "*"), (0.05, "ns"), (1.0, "ns"), (np.nan, "")]
)
def test_stars(p, text):
    assert stars(p) == text


def test_missing_values_are_left_out_and_counted(heads):
    holes = heads.copy()
    holes.loc[[0, 8, 9], "smooth"] = [np.nan, np.inf, -np.inf]
    kept = heads.drop(index=[0, 8, 9])
    for table in (stage_tests, pairwise, trend):
        pd.testing.assert_frame_equal(table(holes, ["smooth"]), table(kept, ["smooth"]))
    assert set(stage_tests(holes, ["smooth"]).n) == {19}


@pytest.mark.filterwarnings("error")
def test_a_group_without_variance_is_said(heads):
    thin = heads.copy()
    thin.loc[thin.index[thin.stage == 0][1:], "smooth"] = np.nan
    table = stage_tests(thin, ["smooth"])
    assert table.statistic.isna().all()
    assert set(table.note) == {"S0 has 1 value"}
    pairs = pairwise(thin, ["smooth"])
    assert pairs.note.tolist() == ["S0 has 1 value", "S0 has 1 value", ""]
    assert pairs.difference.notna().all()
    assert row(pairs, a="S1", b="S2").bonferroni_p == row(pairs, a="S1", b="S2").t_p  # the only pair that could be tested
    without = stats.tukey_hsd(*by_stage(thin[thin.stage > 0], "smooth"))  # S0 takes no part in Tukey's test either
    assert row(pairs, a="S1", b="S2").tukey_p == pytest.approx(without.pvalue[0, 1], abs=1e-9)

    flat = heads.assign(smooth=0.1 * heads["stage"], count=3.0)
    anova, kruskal = (stage_tests(flat, ["smooth", "count"]).query(f"test == '{t}'") for t in ("anova", "kruskal"))
    assert anova.note.tolist() == ["the values of every group are equal"] * 2
    assert kruskal.note.tolist() == ["", "all values are equal"]
    pairs = pairwise(flat, ["smooth"])
    assert pairs[["tukey_p", "t", "t_p", "bonferroni_p", "cohens_d", "d_low"]].isna().all(axis=None)
    assert pairs.difference.tolist() == pytest.approx([0.1, 0.2, 0.1])
    assert (pairs.note != "").all()
    assert trend(flat, ["count"]).note.item() == "all values are equal"

    twice = pd.concat([heads.assign(dataset="one"), heads.assign(dataset="two")])
    assert row(dataset_tests(twice, ["smooth"]), stage="all", test="wilcoxon").note == "no head differs between the data sets"
    strangers = pd.concat([heads.assign(dataset="one"), heads.assign(dataset="two", label="x" + heads["label"])])
    assert row(dataset_tests(strangers, ["smooth"]), stage="all", test="wilcoxon").note == "0 heads have a value in every data set"


def test_equal_means_are_no_difference():
    """scipy's F of these is a rounding error below zero, and its p NaN."""
    heads = make_heads(places=[(0, 0, 5), (1, 0, 5)]).assign(smooth=[0.0, 0, 1, 0, 0] * 2)
    ours = row(stage_tests(heads, ["smooth"]), test="anova")
    assert (ours.statistic, ours.p, ours.effect, ours.stars) == (0, 1, 0, "ns")


def test_one_stage(heads):
    whisper = heads.assign(stage=0, block=heads["depth"])
    for empty in (stage_tests(whisper, ["smooth"]), pairwise(whisper, ["smooth"])):
        assert empty.empty
        assert {"measure", "note", "dataset"} <= set(empty.columns)
    assert len(stage_tests(whisper, ["smooth"], by="depth")) == 2
    both = pd.concat([whisper.assign(dataset=d) for d in ("one", "two")])
    assert set(dataset_tests(both, ["smooth"]).stage) == {"all"}  # S0 would say the same twice


def test_errors_say_what_to_do(heads):
    with pytest.raises(ValueError, match="no column entropy; it has label"):
        stage_tests(heads, ["entropy"])
    with pytest.raises(ValueError, match="no column dataset"):
        dataset_tests(heads, ["smooth"])
    with pytest.raises(ValueError, match="need a `dataset` column"):
        trend(pd.concat([heads, heads]), ["smooth"])
    with pytest.raises(ValueError, match="not by 'head'"):
        pairwise(heads, ["smooth"], by="head")


VALUE = st.one_of(st.sampled_from([np.nan, 0.0, 1.0, 1.0, 0.1]), st.floats(-100, 100, allow_subnormal=False).map(lambda v: round(v, 3)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(VALUE, max_size=5), min_size=1, max_size=3))
@example([[0.0, 0.0, 1.0, 0.0, 0.0]])
def test_any_table_has_an_outcome(groups):
    rows = [
        {"label": f"S{s}B0H{h}", "stage": s, "block": 0, "depth": s, "m": v}
        for s, values in enumerate(groups)
        for h, v in enumerate(values)
    ]
    heads = pd.DataFrame(rows, columns=["label", "stage", "block", "depth", "m"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tests, pairs, slope = stage_tests(heads, ["m"]), pairwise(heads, ["m"]), trend(heads, ["m"])
        again = pd.concat([heads.assign(dataset="one"), heads.assign(dataset="two", m=heads["m"] ** 2)])
        tests = pd.concat([tests, dataset_tests(again, ["m"])])
    assert (tests.statistic.isna() == (tests.note != "")).all()
    assert (tests.p.isna() == tests.statistic.isna()).all()
    assert tests.p.dropna().between(0, 1).all()
    assert tests.effect.dropna().between(-1 - 1e-9, 1 + 1e-9).all()
    assert (pairs.t.isna() == (pairs.note != "")).all()
    known = pairs.dropna(subset="cohens_d")
    assert (known.d_low < known.cohens_d).all()
    assert (known.cohens_d < known.d_high).all()
    assert (known.bonferroni_p >= known.t_p).all()
    assert (slope.spearman.isna() == (slope.note != "")).all()


@settings(max_examples=10, deadline=None)
@given(st.floats(-50, 50), st.floats(0.01, 100))
def test_units_do_not_matter(shift, scale):
    heads = make_heads()
    moved = heads.assign(smooth=shift + scale * heads["smooth"])
    free = ["cohens_d", "d_low", "d_high", "t", "bonferroni_p"]
    for table, columns in ((stage_tests, ["statistic", "p", "effect"]), (pairwise, free), (trend, ["spearman", "p"])):
        np.testing.assert_allclose(table(moved, ["smooth"])[columns], table(heads, ["smooth"])[columns], rtol=1e-5)


@pytest.fixture(scope="module")
def published(published_heads) -> pd.DataFrame:
    table = pd.read_csv(published_heads)
    place = table["head_id"].str.extract(r"L(\d+)_B(\d+)_H(\d+)").astype(int)
    place.columns = ["stage", "block", "head"]
    depth = place.groupby(["stage", "block"]).ngroup().rename("depth")
    label = table["head_id"].str.replace(r"L(\d+)_B(\d+)_H(\d+)", r"S\1B\2H\3", regex=True).rename("label")
    return pd.concat([label, place, depth, table[list(PUBLISHED)].rename(columns=PUBLISHED)], axis=1)


def test_published_anova(published):
    """Seed 1, 4.1.1, to the printed digit."""
    table = stage_tests(published, list(PUBLISHED.values())).query("test == 'anova'").set_index("measure")
    printed = {"pca_90": 141.3, "pca_99": 335.0, "twonn": 32.0, "participation_ratio": 56.3, "effective_rank": 96.3}
    assert {m: round(table.statistic[m], 1) for m in printed} == printed
    assert (table.df_between == 3).all()
    assert (table.df_within == 180).all()
    assert (table.p < 0.001).all()


def test_published_stage_and_block_means(published):
    figures = pd.read_csv(HERE / "tables.csv").query("dataset == 'ESC-50'")
    printed_to = {"evr_1": 0.001, "stage": 0.1, "block": 0.01}
    file_to = {"pca_90": 0, "pca_99": 0}  # whole numbers there; the rest has two decimals, which can move a mean by 0.005
    for _, one in figures.iterrows():
        column = "stage" if one.level == "stage" else "depth"
        values = published.loc[published[column] == one["index"], one.measure]
        half = printed_to.get(one.measure, printed_to[one.level]) / 2
        # Rounding errors of many heads average out: four standard errors of a uniform error, not its bound.
        slack = half + 1e-9 + 4 * file_to.get(one.measure, 0.01) / np.sqrt(12 * len(values))
        assert values.mean() == pytest.approx(one.value, abs=slack), f"{one.level} {one['index']} {one.measure}"
        if not np.isnan(one["std"]):
            assert values.std() == pytest.approx(one["std"], abs=slack), f"{one.level} {one['index']} {one.measure}"


def test_published_pairs_do_not_all_differ(published):
    """Seed 1 says that Tukey's test separates all pairs of stages at p < 0.001; its own heads say so for PCA90 and PCA99 only."""
    pairs = pairwise(published, ["pca_90", "pca_99", "twonn", "participation_ratio", "effective_rank"])
    worst = pairs.groupby("measure").tukey_p.max()
    assert set(worst.index[worst < 0.001]) == {"pca_90", "pca_99"}
    assert row(pairs, measure="twonn", a="S2", b="S3").tukey_p == pytest.approx(0.956, abs=0.001)
    scipys = stats.tukey_hsd(*by_stage(published, "twonn")).pvalue
    assert pairs[pairs.measure == "twonn"].tukey_p.tolist() == pytest.approx(scipys[np.triu_indices(4, 1)].tolist(), abs=1e-9)


def test_published_trend(published):
    table = trend(published, list(PUBLISHED.values())).set_index("measure")
    assert table.p.between(1e-4, 0.05).all(), "twelve blocks, not 184 samples"
    assert table.spearman["evr_1"] < 0 < table.spearman["pca_99"]
