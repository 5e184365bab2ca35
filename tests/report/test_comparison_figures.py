"""Figures of comparisons, few-shot curves and searches: every value is drawn, names can be read and do not touch."""

import itertools
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text

from residual_audio.report.figures import FIGURES, Context, draw, style
from residual_audio.report.figures.accuracy_vs_parameters import shifts
from residual_audio.report.figures.few_shot_curve import positions

CONTEXT = Context(model="tiny", dataset="synthetic-timbre", clips=720)
METHODS = ["plain", "plain+probe", "residual", "residual-random", "scalar", "top-heads", "aligner", "lora", "finetune"]


def summary(seed=0, methods=METHODS):
    """Realistic numbers: some methods train nothing, some train equally many numbers and do equally well."""
    rng = np.random.default_rng(seed)
    trained = {"plain": 0, "top-heads": 0, "residual": 4416, "residual-random": 4416, "scalar": 184, "plain+probe": 25650}
    rows = []
    for m in methods:
        value = rng.uniform(0.85, 0.98)
        spread = rng.uniform(0.005, 0.02)
        rows.append(dict(method=m, trained=trained.get(m, int(10 ** rng.uniform(3, 7))), accuracy=value, std=0.01, low=value - spread,
                         high=value + spread))  # fmt: skip
    return pd.DataFrame(rows)


def curve():
    rows = [
        dict(method=m, shots=s, accuracy=a, std=0.02, low=a - 0.03, high=a + 0.03, trained=5, train=n, seen=n)
        for j, m in enumerate(("plain", "plain+probe", "residual"))
        for i, (s, n) in enumerate([("1", 1), ("4", 4), ("16", 16), ("all", 48)])
        for a in [0.3 + 0.05 * i * j]
    ]
    return pd.DataFrame(rows)


def subsets(parts=("S0", "S1", "S2", "S3")):
    rng = np.random.default_rng(1)
    rows = [
        dict(trial="+".join(g), units=" ".join(g), size=k, trained=96 * k, stop_accuracy=a + 0.03, accuracy=a, low=a - 0.03, high=a + 0.03,
             std=0.02, plain=0.31)
        for k in range(1, len(parts) + 1) for g in combinations(parts, k) for a in [rng.uniform(0.3, 0.6)]
    ]  # fmt: skip
    return pd.DataFrame(rows).sort_values("stop_accuracy", ascending=False)


def elsewhere():
    """A comparison that also asked what adapting costs on other data; a method without an encoder cannot be asked."""
    rows = summary(1).assign(seconds=3.0, other=np.linspace(0.99, 0.4, len(METHODS)))
    return rows.assign(other=rows.other.where(rows.method != "plain+probe"))


def retained():
    points = ((1, 0.2, 0.2), (4, 0.8, 0.4), (8, 1.0, 0.5))
    rows = [(kind, k, s, a, a - 0.04, a + 0.04) for kind in ("principal", "random") for k, s, a in points]
    return pd.DataFrame(rows, columns=["axes", "retain", "share", "accuracy", "low", "high"])


def many():
    """Three methods with five classifiers each, on the task, elsewhere and on novel classes."""
    names = [(a, c) for a in ("plain", "residual", "lora") for c in ("prompts", "centroids", "probe", "gda", "kernel")]
    rows = summary(2, [a if c == "prompts" else f"{a}+{c}" for a, c in names])
    elsewhere_by = {"plain": 0.95, "residual": 0.9, "lora": 0.5}
    return rows.assign(
        adaptation=[a for a, _ in names], classifier=[c for _, c in names], seconds=2.0, other=[elsewhere_by[a] for a, _ in names],
        novel=[elsewhere_by[a] - 0.1 for a, _ in names],
    )  # fmt: skip


CASES = {
    "accuracy_vs_retention": {"retention": retained()},
    "accuracy_vs_cost": {"comparison_summary": elsewhere()},
    "accuracy_vs_parameters": {"comparison_summary": summary()},
    "few_shot_curve": {"few_shot": curve()},
    "stage_subsets": {"search": subsets()},
}


def written(figure):
    """Every text that is drawn: matplotlib keeps labels of ticks that are out of view, too."""
    FigureCanvasAgg(figure).draw()
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        out = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
        hidden |= {id(label) for tick in out for label in (tick.label1, tick.label2)}
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in hidden]


def check_text(figure):
    """All text inside the page, none over other text, none too small. An annotation's line is not its text."""
    shown = written(figure)
    page = figure.bbox.padded(1)
    assert min(t.get_fontsize() for t in shown) >= style.SMALL
    extents = [(t.get_text(), Text.get_window_extent(t)) for t in shown]
    for text, box in extents:
        assert page.contains(*box.min), text
        assert page.contains(*box.max), text
    for (a, one), (b, other) in itertools.combinations(extents, 2):
        assert not one.padded(-1).overlaps(other.padded(-1)), (a, b)


def test_they_are_drawn_from_their_tables_alone(tmp_path):
    for name, tables in CASES.items():
        paths = draw(tables, tmp_path / name, caption=CONTEXT)
        also = {"accuracy_vs_parameters"} if name == "accuracy_vs_cost" else set()
        assert {p.stem for p in paths} == {name} | also
        assert [p.read_bytes()[:4] for p in paths] == [b"%PDF", b"\x89PNG"] * (1 + len(also))


@pytest.mark.parametrize("name", CASES)
def test_text_can_be_read(name):
    figure = FIGURES[name](CASES[name], CONTEXT)
    check_text(figure)
    assert "tiny · synthetic-timbre · 720 clips" in figure.get_supxlabel().replace("\n", " · ")


@pytest.mark.parametrize("seed", range(6))
def test_names_of_methods_touch_no_other_name_and_no_marker(seed):
    table = summary(seed)
    figure = FIGURES["accuracy_vs_parameters"]({"comparison_summary": table}, CONTEXT)
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    names = [t for t in axes.texts if isinstance(t, Annotation)]
    assert [t.get_text() for t in names] == METHODS
    boxes = [Text.get_window_extent(t) for t in names]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    markers = [line for line in axes.lines if line.get_marker() != "None"]
    spots = [line.get_transform().transform(line.get_xydata())[0] for line in markers]
    assert not [1 for box in boxes for spot in spots if box.contains(*spot)]
    for box in boxes:
        assert axes.get_window_extent().padded(1).contains(*box.min)
        assert axes.get_window_extent().padded(1).contains(*box.max)


def test_every_method_stands_where_it_belongs():
    """In data coordinates, exactly; zero is on the axis; equal numbers stand side by side, not on each other."""
    table = summary()
    axes = FIGURES["accuracy_vs_parameters"]({"comparison_summary": table}, CONTEXT).axes[0]
    drawn = np.array([line.get_xydata()[0] for line in axes.lines if line.get_marker() != "None"])
    np.testing.assert_allclose(drawn[:, 0], table["trained"])
    np.testing.assert_allclose(drawn[:, 1], 100 * table["accuracy"])
    ends = np.array([line.get_ydata() for line in axes.lines if line.get_marker() == "None"])
    np.testing.assert_allclose(ends, 100 * table[["low", "high"]])
    assert axes.get_xlim()[0] < 0 < table["trained"].max() < axes.get_xlim()[1]
    assert axes.get_xticklabels()[0].get_text() == "0"
    moved = shifts(np.array([0, 5, 0, 5, 7, 5]))
    assert moved[0] != moved[2]
    assert len({moved[1], moved[3], moved[5]}) == 3
    assert moved[4] == 0


@pytest.mark.parametrize("methods", [["plain"], ["plain", "top-heads"], ["plain+probe"]])
def test_few_methods_are_drawn_too(methods):
    check_text(FIGURES["accuracy_vs_parameters"]({"comparison_summary": summary(methods=methods)}, CONTEXT))


def test_the_curve_shows_every_point_on_a_doubling_axis():
    table = curve()
    figure = FIGURES["few_shot_curve"]({"few_shot": table}, CONTEXT)
    axes = figure.axes[0]
    assert positions(table["shots"]) == {"1": 1.0, "4": 4.0, "16": 16.0, "all": 32.0}
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "4", "16", "all"]
    assert axes.get_xaxis().get_transform().base == 2
    drawn = [line.get_ydata() for line in axes.lines if line.get_marker() != "None"]
    np.testing.assert_allclose(drawn, [100 * table.loc[table.method == m, "accuracy"] for m in ("plain", "plain+probe", "residual")])
    assert "N clips per class in all" in figure.get_supxlabel()
    assert "all: 48 clips per class outside the test" in figure.get_supxlabel()


def test_the_subset_that_the_stopping_part_chose_is_the_dark_bar():
    table = subsets()
    figure = FIGURES["stage_subsets"]({"search": table}, CONTEXT)
    above, below = figure.axes
    ordered = table.sort_values(["size", "trial"])
    np.testing.assert_allclose([bar.get_height() for bar in above.patches], 100 * ordered["accuracy"])
    dark = [i for i, bar in enumerate(above.patches) if bar.get_facecolor() != above.patches[1 if i == 0 else 0].get_facecolor()]
    colours = [bar.get_facecolor() for bar in above.patches]
    rare = [i for i, c in enumerate(colours) if colours.count(c) == 1]
    assert dark
    assert ordered["trial"].iloc[rare[0]] == table["trial"].iloc[0]
    filled = [len(c.get_offsets()) for c in below.collections if len(c.get_offsets())]
    assert sum(filled) == 15 * 4
    assert figure.axes[0].get_title(loc="left").endswith(f"chosen: {table['trial'].iloc[0]}")


def test_subsets_of_blocks_are_drawn_too():
    check_text(FIGURES["stage_subsets"]({"search": subsets(("S0B0", "S0B1", "S0B2", "S0B3"))}, CONTEXT))


def test_a_grid_draws_no_subsets(tmp_path):
    assert draw({"search": subsets().drop(columns="size")}, tmp_path) == []


def test_cost_names_every_method_that_was_asked_elsewhere():
    """With its trained numbers and seconds; the others, and comparisons without other data, are left out."""
    figure = FIGURES["accuracy_vs_cost"]({"comparison_summary": elsewhere()}, CONTEXT)
    names = {text.get_text().split("\n")[0] for text in figure.axes[0].texts}
    assert names == set(METHODS) - {"plain+probe"}
    assert any(text.get_text() == "residual\n4416 · 3 s" for text in figure.axes[0].texts)
    assert FIGURES["accuracy_vs_cost"].lack({"comparison_summary": summary()})


@pytest.mark.parametrize("name", ["accuracy_vs_cost", "accuracy_vs_novel", "accuracy_vs_parameters"])
def test_many_pairs_have_a_legend_of_methods_and_classifiers(name):
    table = many()
    figure = FIGURES[name]({"comparison_summary": table}, CONTEXT)
    check_text(figure)
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [*dict.fromkeys(table.adaptation), *dict.fromkeys(table.classifier)]
    assert not [t for t in figure.axes[0].texts if isinstance(t, Annotation)]
    points = [line for line in figure.axes[0].lines if line.get_marker() != "None"]
    assert len(points) == 15
    assert len({line.get_color() for line in points}) == 3
    assert len({line.get_marker() for line in points}) == 5
    np.testing.assert_allclose([line.get_ydata()[0] for line in points], 100 * table.accuracy)


def test_a_curve_of_many_pairs_has_one_too():
    table = pd.concat(
        [many().assign(shots=shots, train=1, seen=1, accuracy=many().accuracy - 0.1 / n) for n, shots in ((1, "1"), (4, "4"))]
    )
    figure = FIGURES["few_shot_curve"]({"few_shot": table}, CONTEXT)
    check_text(figure)
    assert len(figure.legends[0].get_texts()) == 3 + 5


def test_training_is_drawn_fold_by_fold_with_the_epoch_that_was_kept():
    rows = [
        {"method": m, "fold": f, "repeat": 0, "epoch": e, "train_loss": 2 / (1 + e) if e else np.nan, "stop_loss": 1 + abs(e - 2 - f) / 9,
         "stop_accuracy": 0.5 + 0.1 * (e == 2 + f), "kept": e == 2 + f}
        for m in ("residual", "lora") for f in range(2) for e in range(5)
    ]  # fmt: skip
    figure = FIGURES["training_dynamics"]({"training": pd.DataFrame(rows)}, CONTEXT)
    losses = figure.axes[1]
    assert len(losses.lines) == 2 * (2 + 1), "two folds and their mean, of two methods"
    dots = np.concatenate([c.get_offsets() for c in losses.collections])
    assert sorted(dots[:, 0]) == [2, 2, 3, 3]
    assert "4 trainings" in figure.get_supxlabel()
    alone = pd.DataFrame(rows[:5]).drop(columns=["method", "fold", "repeat"])
    assert len(FIGURES["training_dynamics"]({"training": alone}, CONTEXT).axes[2].lines) == 2
