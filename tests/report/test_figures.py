"""Every figure from synthetic tables in the shape that the analysis leaves: complete, with holes, of other architectures."""

import dataclasses
import itertools
import re
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.cluster.hierarchy as hierarchy
import scipy.stats
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.legend import Legend
from matplotlib.text import Text

from residual_audio.analysis.keys import with_keys
from residual_audio.analysis.permutation import correlation, partial_correlation
from residual_audio.analysis.statistics import CAVEAT
from residual_audio.report import figures as figures_module
from residual_audio.report.figures import FIGURES, Context, FigureError, MissingTable, draw, style
from residual_audio.report.figures.numbers import number_text, p_text, square
from residual_audio.units import Unit, UnitTable

HTSAT = UnitTable(heads=((4, 4), (8, 8), (16,) * 6, (32, 32)), d_head=(24,) * 4, d_model=(96, 192, 384, 768))
WHISPER = UnitTable(heads=((6, 6, 6, 6),), d_head=(64,), d_model=(384,))
TINY = UnitTable(heads=((1, 1), (2, 2)), d_head=(4, 6), d_model=(4, 12))
MEASURES = [
    "pca_90", "pca_95", "pca_99", "evr_1", "evr_2", "participation_ratio", "effective_rank", "entropy", "twonn", "twonn_fit", "mle",
    "mle_inverse", "l_n",
]  # fmt: skip
CLASSES = ["dog", "rain_drops", "<script>alert(1)</script>", "$x_1$", "cost $5", "a\nb", "100 % {loud} \\frac", "crackling fire &c.", ""]
NAMES = [
    "panel_A", "panel_B", "panel_C", "panel_D", "panel_E", "panel_F", "panel_G", "panel_H", "htsat_block_metrics",
    "spectral_fingerprinting", "entropy_vs_dimension", "head_similarity_matrix", "head_clustering", "class_activation_heatmap",
    "fisher_discriminability", "fisher_vs_ablation", "block_ablation",
]  # fmt: skip
# Drawn from a real run in tests/analysis/test_representations.py.
ATTENTION = ["dimension_of_means", "reach", "representations"]
COMPARISONS = ["accuracy_vs_parameters", "accuracy_vs_cost", "few_shot_curve", "accuracy_vs_novel", "stage_subsets"]


def spectrum_measures(ratio: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    cumulative = ratio.cumsum()
    entropy = float(-(ratio * np.log(ratio)).sum())
    needed = {f"pca_{a}": float(np.searchsorted(cumulative, a / 100 - 1e-12) + 1) for a in (90, 95, 99)}
    rank = float(np.exp(entropy))
    twonn = 3.5 + 1.6 * np.log(rank + 1) + rng.normal(0, 0.4)
    return needed | dict(
        evr_1=ratio[0], evr_2=ratio[1], participation_ratio=1 / (ratio**2).sum(), effective_rank=rank, entropy=entropy, twonn=twonn,
        twonn_fit=twonn * 1.05, mle=twonn * 1.1 + rng.normal(0, 0.2), mle_inverse=twonn, l_n=needed["pca_99"] / twonn,
    )  # fmt: skip


def make_tables(units: UnitTable, classes: list[str], seed: int = 0) -> dict[str, pd.DataFrame]:
    """All tables of a run, made up but consistent: spectra flatten with depth, as they do in HTS-AT."""
    rng = np.random.default_rng(seed)
    depth_of = {pair: i for i, pair in enumerate(units.blocks)}
    rows, long, spectra = [], [], {}
    for u in units.where("head"):
        depth = depth_of[u.stage, u.block]
        d = units.d_head[u.stage]
        decay = 2.2 * np.exp(-depth / 1.8) + 0.1 + abs(rng.normal(0, 0.06))
        variance = np.sort(np.exp(-decay * np.arange(d)) * np.exp(rng.normal(0, 0.2, d)))[::-1] + 1e-7
        ratio = variance / variance.sum()
        spectra[u.label] = np.pad(ratio, (0, max(units.d_head) - d))
        measures = spectrum_measures(ratio, rng)
        row = dict(label=u.label, stage=u.stage, block=u.block, depth=depth, head=u.head, n=2000, duplicates=0, k=20, ceiling=d)
        row |= measures | {f"{m}_se": abs(v) * 0.03 for m, v in measures.items()}
        rows.append(row | dict(fisher=0.1 + 0.05 * depth + rng.gamma(2, 0.06), activation=rng.gamma(4), note=""))
        along = rng.gamma(1.2, 0.3, d)
        for axis in range(d):
            cells = dict(label=u.label, stage=u.stage, depth=depth, head=u.head, axis=axis + 1, variance=variance[axis])
            long.append(cells | dict(ratio=ratio[axis], cumulative=ratio[: axis + 1].sum(), fisher=along[axis]))
    heads = pd.DataFrame(rows)
    blocks = heads.groupby(["stage", "block", "depth"], as_index=False)[MEASURES].mean()
    blocks["heads"] = heads.groupby(["stage", "block"]).size().to_numpy()
    matrix = np.stack(list(spectra.values()))
    labels = heads["label"].tolist()
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    tree = hierarchy.ward(matrix)
    x, y = np.linalg.svd(matrix - matrix.mean(0), full_matrices=False)[0][:, :2].T
    clusters = heads[["label", "stage", "depth"]].assign(
        order=np.argsort(hierarchy.leaves_list(tree)), cluster=hierarchy.fcluster(tree, 4, "maxclust"), x=x, y=y, map="pca"
    )
    overlap = np.clip(0.25 + 0.5 * np.equal.outer(*[heads["stage"].to_numpy()] * 2) + rng.normal(0, 0.06, (len(labels),) * 2), 0, 1)
    overlap = (overlap + overlap.T) / 2
    np.fill_diagonal(overlap, 1)
    margin = 0.004 * heads["fisher"] + rng.normal(0, 0.001, len(heads))
    ablated = heads[["label", "stage", "block", "depth", "head"]].assign(kind="head", accuracy_drop=margin / 2, margin_drop=margin)
    drop = rng.normal(0.01, 0.012, len(blocks))
    names = [f"S{s}B{b}" for s, b in units.blocks]
    group = rng.integers(0, 4, len(classes))
    activation = rng.gamma(20, 0.05, (len(labels), len(classes))) + 0.4 * rng.gamma(2, 0.5, (len(labels), 4))[:, group]
    within = np.equal.outer(*[heads["stage"].to_numpy()] * 2)
    summary = []
    for kind, values in (("spectra", unit @ unit.T), ("subspaces", overlap)):
        inside, outside = values[within].mean(), values[~within].mean() if (~within).any() else np.nan
        summary.append(dict(kind=kind, within=inside, between=outside, ratio=inside / outside, defined_pairs=values.size))
    return {
        "heads": heads,
        "blocks": blocks,
        "components": pd.DataFrame(long),
        "similarity_spectra": pd.DataFrame(unit @ unit.T, index=pd.Index(labels, name="label"), columns=labels),
        "similarity_subspaces": pd.DataFrame(overlap, index=pd.Index(labels, name="label"), columns=labels),
        "similarity_summary": pd.DataFrame(summary),
        "clusters": clusters,
        "class_activation": pd.DataFrame(activation, index=pd.Index(labels, name="label"), columns=classes),
        "ablation_head": ablated.assign(margin_low=margin - 0.001, margin_high=margin + 0.001),
        "ablation_block": blocks[["stage", "block", "depth"]].assign(
            label=names, head=-1, kind="block", accuracy_drop=drop, accuracy_low=drop - 0.008, accuracy_high=drop + 0.008
        ),
        "statistics": pd.DataFrame(
            [dict(scope="stage", dataset="ESC-50", measure=m, test="anova", statistic=335.0, p=1e-60, effect=0.85) for m in MEASURES]
        ),
    }


def with_holes(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The first head dead (no measure, no spectrum), single values missing elsewhere, one block without ablation."""
    tables = {name: table.copy() for name, table in tables.items()}
    dead = tables["heads"].loc[0, "label"]
    tables["heads"].loc[0, [*MEASURES, *(f"{m}_se" for m in MEASURES), "fisher"]] = np.nan
    tables["heads"].loc[1, ["twonn", "mle", "l_n"]] = np.nan
    tables["blocks"].loc[0, ["twonn", "l_n"]] = np.nan
    tables["components"].loc[tables["components"]["label"] == dead, ["variance", "ratio", "fisher"]] = np.nan
    for kind in ("spectra", "subspaces"):
        tables[f"similarity_{kind}"].loc[dead, :] = np.nan
        tables[f"similarity_{kind}"].loc[:, dead] = np.nan
    tables["clusters"].loc[0, ["x", "y"]] = np.nan
    tables["class_activation"].loc[dead, :] = np.nan
    tables["ablation_head"].loc[2, "margin_drop"] = np.nan
    tables["ablation_block"].loc[1, ["accuracy_drop", "accuracy_low", "accuracy_high"]] = np.nan
    return tables


CONTEXT = Context(model="laion/clap-htsat-unfused", dataset="ESC-50", clips=2000, regime="pre", k=20)
FULL = make_tables(HTSAT, [*CLASSES, *(f"class_{i}" for i in range(len(CLASSES), 50))])
TINY_TABLES = make_tables(TINY, ["a", "b"])
HOLES = with_holes(make_tables(WHISPER, CLASSES))
CASES = {"full": FULL, "holes": HOLES}


@pytest.fixture(scope="module")
def drawn():
    """Names and figures of one call of draw for the full-size encoder; nothing is written, which would take as long again."""
    made = {}

    def keep(figure, folder, name):
        figure.draw_without_rendering()  # labels take their places only now
        made[name] = figure
        return [folder / f"{name}.{kind}" for kind in ("pdf", "png")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures_module, "save", keep)
        tables = FULL | {"something_else": pd.DataFrame({"a": [1]})}
        paths = draw(tables, Path("figures"), dataclasses.asdict(CONTEXT) | {"seed": 42, "model": {"name": CONTEXT.model, "revision": "x"}})
    return paths, made


@pytest.fixture(scope="module")
def figures(drawn):
    """All figures of the full-size encoder, and of one of a single stage with holes in its tables.

    The latter are not laid out, which takes most of the time.
    """
    with style.applied():
        holes = {name: FIGURES[name].plot(HOLES, CONTEXT) for name in NAMES}
    return {"full": drawn[1], "holes": holes}


def texts(figure) -> list[Text]:
    """Every text that is drawn: matplotlib keeps labels of ticks that are out of view, too."""
    hidden = set()
    for axes in figure.findobj(Axes):
        hidden |= set() if axes.axison else {id(t) for t in axes.findobj(Text)}
    for axis in (axis for axes in figure.findobj(Axes) for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-6 * (high - low)
        out = [tick for tick in axis.get_major_ticks() + axis.get_minor_ticks() if not low - slack <= tick.get_loc() <= high + slack]
        hidden |= {id(label) for tick in out for label in (tick.label1, tick.label2)}
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in hidden]


def said(figure) -> str:
    return " ".join(" ".join(t.get_text() for t in texts(figure)).split())


def points(axes) -> np.ndarray:
    """Positions of all scattered points; medians, bars and lines are other artists."""
    return np.concatenate([c.get_offsets() for c in axes.collections if len(c.get_offsets()) and c.get_facecolors().size])


def test_the_specification_names_these_figures():
    assert list(FIGURES) == [
        *NAMES, *ATTENTION, *COMPARISONS, "accuracy_vs_k", "accuracy_vs_retention", "stage_folds", "token_map", "over_time",
        "training_dynamics",
    ]  # fmt: skip
    assert [name for name, figure in FIGURES.items() if not figure.default] == ["token_map", "over_time"]


def test_a_figure_is_registered_by_its_file_and_drawn_with_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(style, "DPI", 50)
    monkeypatch.setattr(FIGURES, "_things", dict(FIGURES))
    one = dataclasses.replace(FIGURES["entropy_vs_dimension"], name="another", needs={"another_table": ("x",), "heads": ("entropy",)})
    assert FIGURES.add(one) is one
    heads = TINY_TABLES["heads"][["label", "stage", "block", "depth", "head", "entropy", "pca_99"]]
    tables = {"heads": heads, "another_table": pd.DataFrame({"x": [1.0]})}
    assert [p.name for p in draw(tables, tmp_path, only=["another"])] == ["another.pdf", "another.png"]
    assert {p.stem for p in draw(tables, tmp_path / "all")} == {"another", "entropy_vs_dimension"}
    with pytest.raises(ValueError, match="registered twice"):
        FIGURES.add(one)
    with pytest.raises(FigureError, match="did you mean head_clustering"):
        draw(tables, tmp_path, only=["head_clusters"])


def test_regimes_and_levels_are_drawn_apart(tmp_path, monkeypatch):
    """Of tables that hold several, one set of figures each; what knows no regime is drawn once."""
    monkeypatch.setattr(style, "DPI", 50)
    told = {}
    monkeypatch.setattr(
        figures_module, "save", lambda figure, folder, name: told.setdefault(name, [figure.get_supxlabel()]) and [folder / name]
    )
    views = [("pre", "clip"), ("post", "clip"), ("pre", "token")]
    tables = {"heads": pd.concat([with_keys(TINY_TABLES["heads"], *view) for view in views])}
    tables["few_shot"] = pd.DataFrame({"method": ["plain"], "shots": ["1"], "accuracy": [0.5]})
    names = {p.name for p in draw(tables, tmp_path, {"regime": "both"}, only=["entropy_vs_dimension", "few_shot_curve"])}
    assert names == {"entropy_vs_dimension", "postproj_entropy_vs_dimension", "token_entropy_vs_dimension", "few_shot_curve"}
    assert "post-projection" in told["postproj_entropy_vs_dimension"][0]
    assert "pre-projection, tokens" in told["token_entropy_vs_dimension"][0].replace("\n", " ")


def test_draw_makes_every_figure_twice(drawn):
    paths, _ = drawn
    assert [p.as_posix() for p in paths] == [f"figures/{name}.{kind}" for name in NAMES for kind in ("pdf", "png")]


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_encoder_is_written(name, tmp_path, monkeypatch):
    """Stages of two blocks, blocks of one head, heads of four and six axes. Not laid out and in low quality, to save time."""
    monkeypatch.setattr(style, "DPI", 50)
    monkeypatch.setitem(style.RC, "pdf.fonttype", 3)
    with style.applied():
        figure = FIGURES[name].plot(TINY_TABLES, Context())
    figure.set_layout_engine("none")
    paths = style.save(figure, tmp_path / "new" / "folder", name)
    assert [p.name for p in paths] == [f"{name}.pdf", f"{name}.png"]
    assert [p.read_bytes()[:4] for p in paths] == [b"%PDF", b"\x89PNG"]
    assert min(p.stat().st_size for p in paths) > 2000
    assert re.search(r"\bnan\b", said(figure)) is None
    assert any(axes.has_data() for axes in figure.axes)


def test_full_quality_whatever_the_users_settings(tmp_path):
    """200 dpi at the column's width; TrueType fonts, which journals ask for; the same bytes each time."""
    tables = {"clusters": TINY_TABLES["clusters"]}
    with matplotlib.rc_context({"font.size": 30, "figure.constrained_layout.use": False, "axes.grid": True}):
        before = dict(matplotlib.rcParams)
        first = draw(tables, tmp_path / "a")
        assert dict(matplotlib.rcParams) == before
    pdf, png = draw(tables, tmp_path / "b")
    assert [p.read_bytes() for p in first] == [pdf.read_bytes(), png.read_bytes()]
    assert int.from_bytes(png.read_bytes()[16:20], "big") == style.SINGLE * 200
    assert b"/Subtype /Type3" not in pdf.read_bytes()


def check_text(name, figure):
    """All text inside the page, none over other text, none too small; no legend over data."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts(figure)]
    page, touch = figure.bbox.padded(1), figure.dpi / 200
    assert figure.get_figwidth() in (style.SINGLE, style.DOUBLE)
    assert min(t.get_fontsize() for t in texts(figure)) >= style.SMALL, name
    for text, box in boxes:
        assert page.contains(box.x0, box.y0), (name, text)
        assert page.contains(box.x1, box.y1), (name, text)
    for (a, one), (b, other) in itertools.combinations(boxes, 2):
        assert not one.padded(-touch).overlaps(other.padded(-touch)), (name, a, b)
    for legend in figure.findobj(Legend):
        assert not any(legend.get_window_extent(renderer).overlaps(axes.get_window_extent()) for axes in figure.axes), name


@pytest.mark.parametrize("name", NAMES)
def test_text_can_be_read(figures, name):
    check_text(name, figures["full"][name])


@pytest.mark.parametrize("name", ["htsat_block_metrics", "class_activation_heatmap", "block_ablation"])
def test_text_can_be_read_in_a_small_encoder(name):
    """The figures whose size depends on the encoder."""
    figure = FIGURES[name](HOLES, CONTEXT)
    figure.draw_without_rendering()  # labels take their places only now
    check_text(name, figure)


@pytest.mark.parametrize("case", CASES)
def test_facts_in_the_footer(figures, case):
    for name, figure in figures[case].items():
        footer = figure.get_supxlabel()
        assert "laion/clap-htsat-unfused · ESC-50 · 2,000 clips · pre-projection" in footer.replace("\n", " · "), name
        assert ("k = 20" in footer) == (name in ("panel_C", "panel_G", "panel_H")), name


def test_stage_colours_are_the_same_everywhere(figures):
    colours = {to_rgb(c) for c in style.stage_colours(range(4))}
    assert len(colours) == 4
    for name, figure in figures["full"].items():
        handles = [h for legend in figure.findobj(Legend) for h in legend.legend_handles if h.get_label().startswith("stage")]
        for handle in handles:
            assert to_rgb(handle.get_color()) == style.stage_colour(int(handle.get_label().split()[1])), name
    for name in ("panel_B", "entropy_vs_dimension", "fisher_vs_ablation", "head_clustering", "block_ablation"):
        axes = figures["full"][name].axes[1 if name == "block_ablation" else 0]
        drawn = {tuple(c[:3]) for group in axes.collections if len(group.get_offsets()) > 1 for c in group.get_facecolors()}
        assert drawn == colours, name


def test_many_stages_have_many_colours():
    assert len({style.stage_colour(s) for s in range(18)}) == 18


def test_panels_carry_every_head(figures):
    heads = FULL["heads"]
    columns = {"B": "twonn", "C": "mle", "D": "participation_ratio", "E": "effective_rank", "F": "evr_1"}
    for letter, column in columns.items():
        drawn = points(figures["full"][f"panel_{letter}"].axes[0])
        np.testing.assert_allclose(drawn[:, 1], heads[column])
        assert np.array_equal(np.round(drawn[:, 0]), heads["depth"])
    for axes, column in zip(figures["full"]["panel_A"].axes, ("pca_90", "pca_95", "pca_99"), strict=True):
        np.testing.assert_allclose(points(axes)[:, 1], heads[column])
    assert any(np.allclose(line.get_ydata(), 0.5) for line in figures["full"]["panel_F"].axes[0].lines)


def test_a_panel_of_neighbours_shows_one_clip_per_recording_too():
    heads = FULL["heads"].assign(twonn_one=np.arange(len(FULL["heads"]), dtype=float) + 1)
    figure = FIGURES["panel_B"].plot({**FULL, "heads": heads}, CONTEXT)
    left, right = figure.axes
    np.testing.assert_allclose(points(left)[:, 1], heads["twonn"])
    np.testing.assert_allclose(points(right)[:, 1], heads["twonn_one"])
    assert "one clip per recording" in right.get_title(loc="left") + right.get_title()


def test_holes_are_left_out_and_counted(figures):
    drawn = figures["holes"]
    assert len(points(drawn["panel_B"].axes[0])) == 22
    for name, fact in {
        "panel_B": "22 heads · 2 heads without a value left out",
        "panel_D": "23 heads · 1 head without a value left out",
        "panel_G": "heads without a value left out: 1 in PCA99, 2 in TwoNN, 2 in MLE",
        "panel_H": "22–23 of 24 heads per pair",
        "htsat_block_metrics": "2 cells without a value left out",
        "spectral_fingerprinting": "1 head without a value left out",
        "entropy_vs_dimension": "23 heads · 1 head without a value left out",
        "head_similarity_matrix": "23 heads · 1 head undefined",
        "head_clustering": "23 heads · 1 head without a value left out",
        "class_activation_heatmap": "1 head without a value left out",
        "fisher_discriminability": "23 heads · 1 head without a value left out",
        "fisher_vs_ablation": "22 heads · 2 heads without a value left out",
        "block_ablation": "3 blocks · 1 block without a value left out",
    }.items():
        assert fact in drawn[name].get_supxlabel().replace("\n", " · "), name


@pytest.mark.parametrize("case", ["full", "holes"])
def test_correlations_are_scipys(figures, case):
    heads = CASES[case]["heads"]
    rho, p = scipy.stats.spearmanr(heads["pca_99"], heads["entropy"], nan_policy="omit")
    assert f"ρ = {rho:.3f}, {p_text(p)}" in said(figures[case]["entropy_vs_dimension"])
    both = heads.merge(CASES[case]["ablation_head"], on="label").dropna(subset=["fisher", "margin_drop"])
    for name, test in {"r": scipy.stats.pearsonr, "ρ": scipy.stats.spearmanr}.items():
        value, p = test(both["fisher"], both["margin_drop"])
        assert f"{name} = {value:.3f}, {p_text(p)}" in said(figures[case]["fisher_vs_ablation"])
    within = partial_correlation(both["fisher"], both["margin_drop"], both["depth_x"])
    assert f"ρ given depth = {number_text(within.value)}, {p_text(within.p)}" in said(figures[case]["fisher_vs_ablation"])
    for name in ("entropy_vs_dimension", "fisher_vs_ablation", "panel_G"):
        assert CAVEAT in figures[case][name].get_supxlabel().replace("\n", " · "), "a p over heads is never alone"
    blocks = CASES[case]["blocks"].merge(CASES[case]["ablation_block"], on=["stage", "block"]).dropna(subset=["accuracy_drop"])
    r, p = correlation(blocks["entropy"], blocks["accuracy_drop"], "pearson")[:2]
    assert f"r = {number_text(r, 2)}, {p_text(p)}" in said(figures[case]["block_ablation"])


def test_metric_correlation_matrix_is_scipys(figures):
    image = figures["full"]["panel_H"].axes[0].images[0].get_array()
    names = ["pca_90", "pca_95", "pca_99", "evr_1", "participation_ratio", "effective_rank", "entropy", "twonn", "mle", "l_n"]
    np.testing.assert_allclose(image, scipy.stats.spearmanr(FULL["heads"][names]).statistic)


def test_block_table_has_the_deepest_block_on_top(figures):
    axes = figures["full"]["htsat_block_metrics"].axes[0]
    deepest = FULL["blocks"].iloc[-1]
    first_row = [t.get_text() for t in axes.texts if t.get_position()[1] == 0]
    assert first_row == [f"{deepest[c]:.2f}" for c in ("pca_99", "twonn", "l_n", "evr_1")]
    assert axes.get_yticklabels()[0].get_text() == "11   S3B1"
    borders = sorted({line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"})
    assert borders == [1.5, 7.5, 9.5]


def test_heat_maps_hold_the_tables(figures):
    drawn = figures["full"]
    fingerprints = drawn["spectral_fingerprinting"].axes[0].images[0].get_array()
    ratios = FULL["components"]["ratio"].to_numpy().reshape(184, 24)
    np.testing.assert_allclose(fingerprints, ratios.clip(1e-5))
    order = FULL["clusters"].sort_values("order")["label"]
    for axes, kind in zip(drawn["head_similarity_matrix"].axes, ("spectra", "subspaces"), strict=False):
        np.testing.assert_allclose(axes.images[0].get_array(), FULL[f"similarity_{kind}"].loc[order, order])
    summary = FULL["similarity_summary"].iloc[0]
    assert f"within {summary['within']:.3f}, between {summary['between']:.3f}, ratio {summary['ratio']:.2f}×" in said(
        drawn["head_similarity_matrix"]
    )
    alone = FULL["similarity_subspaces"].where(np.equal.outer(*[FULL["heads"]["stage"].to_numpy()] * 2))
    drawn_alone = FIGURES["head_similarity_matrix"].plot(FULL | {"similarity_subspaces": alone}, CONTEXT)
    by_stage = sorted(order, key=lambda label: Unit.parse(label).stage)
    np.testing.assert_allclose(drawn_alone.axes[1].images[0].get_array().filled(np.nan), alone.loc[by_stage, by_stage])
    scores = np.asarray(drawn["class_activation_heatmap"].axes[0].images[0].get_array())
    assert scores.shape == (184, 50)
    np.testing.assert_allclose(scores.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(scores.std(1), 1)


def test_class_names_are_shown_letter_by_letter(figures):
    labels = [t.get_text() for t in figures["full"]["class_activation_heatmap"].axes[0].get_xticklabels()]
    assert len(labels) == 50
    assert {"rain_drops", r"\$x_1\$", r"cost \$5", "a b"} <= set(labels)
    assert any(label.startswith("<script>") and len(label) <= 22 for label in labels)
    assert style.plain("a$b" * 40).count(r"\$") == style.plain("a$b" * 40).count("$")


def test_hundreds_of_classes_are_named_in_part():
    tables = {"class_activation": make_tables(TINY, [f"class {i}" for i in range(400)])["class_activation"]}
    labels = FIGURES["class_activation_heatmap"].plot(tables, Context()).axes[0].get_xticklabels()
    assert 30 < len(labels) < 60


def test_the_map_shows_clusters_by_shape_and_says_how_it_was_made(figures):
    axes = figures["full"]["head_clustering"].axes
    assert "PCA" in axes[0].get_title(loc="left")
    assert len(axes[0].collections) == FULL["clusters"]["cluster"].nunique()
    assert len(points(axes[0])) == 184
    assert len(axes[1].collections[0].get_segments()) == 183  # a tree of n leaves has n − 1 joints
    (cut,) = axes[1].lines
    heights = hierarchy.ward(FULL["components"]["ratio"].to_numpy().reshape(184, 24))[:, 2]
    assert (heights > cut.get_ydata()[0]).sum() == 3  # a cut into four clusters
    other = FULL | {"clusters": FULL["clusters"].assign(cluster=FULL["clusters"]["stage"] + 1)}
    assert not FIGURES["head_clustering"].plot(other, CONTEXT).axes[1].lines
    umap = FULL | {"clusters": FULL["clusters"].assign(map="umap")}
    assert "UMAP" in said(FIGURES["head_clustering"].plot(umap, CONTEXT))


def test_strips_keep_their_distance_at_every_resolution():
    """A PDF is drawn at 72 dpi, whatever the figure was laid out for."""
    figure = FIGURES["htsat_block_metrics"].plot(TINY_TABLES, Context())
    axes = figure.axes[0]
    for dpi in (72, 200):
        figure.dpi = dpi
        figure.draw_without_rendering()
        gap = axes.get_window_extent().x0 - axes.child_axes[0].get_window_extent().x1
        assert gap * 72 / dpi == pytest.approx(2, abs=0.1)


def test_a_model_in_a_folder_is_called_by_its_last_name():
    figure = FIGURES["entropy_vs_dimension"].plot(TINY_TABLES, Context(model="../shared/models/whisper-tiny", regime="post, tokens"))
    assert figure.get_supxlabel().startswith("whisper-tiny · 2,000 clips · post-projection, tokens")


def test_best_heads_first(figures):
    best = FULL["heads"].sort_values("fisher", ascending=False)["label"].head(15).tolist()
    assert [t.get_text() for t in figures["full"]["fisher_discriminability"].axes[1].get_yticklabels()] == best


def test_ablation_is_in_percentage_points(figures):
    bars = figures["full"]["block_ablation"].axes[0].patches
    heights = [bar.get_height() for bar in bars][:12]
    np.testing.assert_allclose(heights, 100 * FULL["ablation_block"]["accuracy_drop"])


def test_missing_tables_skip_their_figures(tmp_path):
    assert draw({}, tmp_path) == []
    unlabelled = TINY_TABLES | {"heads": TINY_TABLES["heads"].assign(fisher=np.nan)}
    ready = {name for name in NAMES if not FIGURES[name].lack(unlabelled)}
    assert set(NAMES) - ready == {"fisher_discriminability", "fisher_vs_ablation"}
    old = {"heads": FULL["heads"].drop(columns="mle")}
    assert "panel_C" not in {name for name, figure in FIGURES.items() if not figure.lack(old)}
    with pytest.raises(MissingTable, match=r"panel_C needs the columns \['mle'\] of the table 'heads'.*analyze"):
        FIGURES["panel_C"](old, CONTEXT)


@pytest.mark.parametrize("name", ["head_similarity_matrix", "fisher_discriminability", "head_clustering"])
def test_optional_tables(name):
    needed = {table: TINY_TABLES[table] for table in FIGURES[name].needs}
    figure = FIGURES[name].plot(needed, Context())
    assert figure.get_figwidth() == style.SINGLE
    assert re.search(r"\bnan\b", said(figure)) is None


def test_tables_read_back_from_files_draw_the_same():
    """Parquet and CSV keep the labels as a first column, or drop them where the index had no name."""
    matrix = TINY_TABLES["similarity_spectra"]
    for stored in (matrix.reset_index(), matrix.rename_axis(None).reset_index(drop=True), matrix.rename_axis("unit").reset_index()):
        pd.testing.assert_frame_equal(square(stored), matrix, check_names=False)
    with pytest.raises(ValueError, match="must be square"):
        square(matrix.iloc[:2])
    activation = {"class_activation": TINY_TABLES["class_activation"].reset_index()}
    assert FIGURES["class_activation_heatmap"].plot(activation, Context()).axes[0].images[0].get_array().shape == (6, 2)


def test_numbers_as_text():
    assert [p_text(p) for p in (0.104, 3.21e-5, 0.0, float("nan"))] == ["p = 0.104", "p = 3.2 × 10⁻⁵", "p < 10⁻³⁰⁰", "p = –"]
    assert number_text(-0.5, 2) == "−0.50"
    assert number_text(float("nan")) == "–"
