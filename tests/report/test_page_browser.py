"""The page in a real browser, opened from disk: it asks nobody for anything, follows clicks and keys, plays, computes, and escapes."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

from residual_audio.analysis import analyze
from residual_audio.cli.compare import compare
from residual_audio.evaluation.metrics import outcome
from residual_audio.report.page import write_page
from residual_audio.report.page.gather import other_runs
from residual_audio.report.page.model import gains_by_head, model_part
from tests.helpers.page import CLASSES, HOSTILE

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def report(made, tmp_path_factory):
    """A page of the run with its analysis, a real comparison and the adapter; without ablation and words. Also what was put into it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESIDUAL_AUDIO_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(sys, "argv", ["residual-audio", "compare"])
        analyze(made.run, similarity=["direct"]).write(made.folder)
        folder = tmp_path_factory.mktemp("page") / "compared"
        compare("tiny", f"table:{made.folder.parent / 'breaking.csv'}", folder, methods="plain,fisher-gains")
        part = model_part(made.run, made.encoder, made.residual, 24, ["synthetic"], 12, "sound-of", None)
        path = write_page(
            made.run,
            folder.parent / "report.html",
            compare=[folder],
            part=part,
            gains=gains_by_head(made.residual),
            clips=24,
            command="residual-audio …",
        )
    return path, part


class Watched:
    """Pages of one report; what they complained about, and whom they asked. At desktop size one page is used again with another address."""

    def __init__(self, browser, path):
        self.browser, self.path, self.trouble, self.again = browser, path, [], None

    def page(self, size="desktop", scheme="light"):
        width, height = WIDTHS[size]
        page = self.browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.on("console", lambda m: self.trouble.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.trouble.append(str(e)))
        page.on("dialog", lambda d: (self.trouble.append(f"dialog {d.message}"), d.dismiss()))
        page.on("request", lambda r: self.trouble.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
        return page

    def __call__(self, address="", size="desktop", scheme="light", new=False):
        """A page at an address; ``new``: opened by it from disk."""
        if new or (size, scheme) != ("desktop", "light"):
            page = self.page(size, scheme)
            page.goto(f"{self.path.as_uri()}#{address}")
            page.wait_for_selector("[role=tab][aria-selected=true]")
            return page
        if self.again is None:
            self.again = self("view=heads", new=True)
        self.again.evaluate("address => { document.activeElement.blur(); location.hash = address; }", address)
        self.again.wait_for_timeout(100)
        return self.again


@pytest.fixture(scope="module")
def watched(browser, report):
    return Watched(browser, report[0])


@pytest.fixture
def opened(watched):
    """``opened("view=heads")`` → a page; nothing may have been complained about or asked of a network."""
    yield watched
    assert watched.trouble == []


def accuracy(page):
    return float(page.locator("#equaliser .tiles").get_attribute("data-accuracy"))


def volume(page, label, value):
    """Move a slider as a user does: the browser tells the page of it."""
    page.locator(f'[data-volume="{label}"]').evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', { bubbles: true })); }", str(value)
    )


def direct_accuracy(made, part, volumes=None, strength=1.0):
    """Σ in numpy, from the arrays before they were packed."""
    heads = [u.label for u in made.run.units.where("head")]
    scores = part.base.copy()
    for label, value in (volumes or {}).items():
        scores += (value - 1) * part.whole[:, heads.index(label)]
    for label, axis, gain in zip(part.knobs, part.axis, part.gain, strict=True):
        scores += (volumes or {}).get(label, 1) * np.einsum("cak,a->ck", axis, strength * (gain - 1))
    targets = np.array([sorted(CLASSES).index(x) for x in made.run.clips["label"].iloc[part.rows]])
    return float(outcome(scores, targets).correct.mean())


def test_it_is_one_small_file_of_its_own(report):
    text = report[0].read_text(encoding="utf-8")
    assert report[0].stat().st_size < 15e6
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=[\"']?(https?:)?//", text)
    assert text.count(HOSTILE) == 0
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
    assert HOSTILE in data["classes"]
    assert data["meta"]["failed"] == 1
    assert data["meta"]["errors"][0]["id"] == "broken"


def test_every_part_opens_at_every_size_and_in_the_dark(opened):
    for size, scheme in (("desktop", "light"), ("phone", "dark")):
        page = opened("view=overview", size, scheme)
        for name in ("overview", "heads", "equaliser", "ask", "classes"):
            page.click(f"#tab-{name}")
            page.wait_for_selector(f"#{name} .plot .main-svg")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, size)
        ink, ground = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
        light = sum(map(int, re.findall(r"\d+", ground)[:3])) > sum(map(int, re.findall(r"\d+", ink)[:3]))
        assert light == (scheme == "light")


def test_a_click_on_a_head_changes_the_panel_and_the_address(opened):
    page = opened("view=heads")
    before = page.inner_text("#head")
    page.click('[data-head="S2B1H7"]')
    assert "S2B1H7" in page.inner_text("#head h2")
    assert page.inner_text("#head") != before
    assert "head=S2B1H7" in page.url
    assert page.locator('[data-head="S2B1H7"]').first.get_attribute("aria-selected") == "true"
    page.click("#head .pick button >> text=PC2")
    assert "pc=2" in page.url
    assert "Clips at both ends of PC2" in page.inner_text("#head")


NONSENSE = (
    "head=constructor&pc=zz&colour=__proto__&of=nothing&x=none&y=none&brush=1,2,x&ask=-7&set=99&before=no&after=no&strength=x&gains=%"
)


def test_an_address_that_is_not_understood_falls_back(opened):
    for name in ("overview", "heads", "equaliser", "ask", "classes"):
        page = opened(f"view={name}&{NONSENSE}", new=True)
        page.wait_for_selector(f"#{name}:not([hidden])")
        assert page.inner_text(f"#{name}").strip(), name
        page.close()
    assert opened.trouble == []


def test_keys_move_through_heads_and_parts(opened):
    page = opened("view=heads&head=S2B1H7")
    page.locator('#heads [data-head="S2B1H7"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "head=S2B2H8" in page.url
    page.locator("#tab-heads").focus()
    page.keyboard.press("ArrowRight")
    assert "view=equaliser" in page.url
    assert page.is_visible("#equaliser")


def test_search_and_filter_dim_the_others(opened):
    page = opened("view=heads")
    page.fill("#heads input[type=search]", "s2b1h1")
    names = page.locator("#heads .cell:not(.dim)").evaluate_all("cells => cells.map(c => c.dataset.head)")
    assert names == ["S2B1H1", *(f"S2B1H{i}" for i in range(10, 16))]
    page = opened("view=heads&stage=1")
    assert page.locator("#heads .cell:not(.dim)").count() == 16


def test_a_brush_over_two_measures_keeps_what_is_inside(opened, made):
    page = opened("view=heads&x=fisher&y=evr_1")
    page.wait_for_selector("#heads .plot .main-svg .point")
    box = page.locator("#heads .stays .plot .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("brush="))
    left = set(page.locator("#heads .cell:not(.dim)").evaluate_all("cells => cells.map(c => c.dataset.head)"))
    low, high = map(float, re.search(r"brush=([-\d.]+)%2C([-\d.]+)", page.url).groups())
    heads = pd.read_parquet(made.folder / "tables" / "heads.parquet").set_index("label").fisher
    assert 0 < len(left) < len(heads)
    assert left <= set(heads.index[heads.between(low, high)])


def test_a_player_plays(opened):
    page = opened("view=heads")
    player = page.locator("#head audio").first
    player.evaluate("async a => { a.muted = true; await a.play(); }")
    assert (
        player.evaluate("a => new Promise(done => a.addEventListener('timeupdate', () => a.currentTime > 0.05 && done(a.currentTime)))") > 0
    )
    assert 0.5 < player.evaluate("a => a.duration") < 3


def test_linked_sounds_play_from_where_they_lie(browser, made):
    path = write_page(made.run, made.folder / "linked.html", audio="link", clips=4)
    watched = Watched(browser, path)
    page = watched("view=heads", new=True)
    player = page.locator("#head audio").first
    assert player.get_attribute("src").startswith("../")
    assert player.evaluate("async a => { a.muted = true; await a.play(); return a.duration; }") > 0.5
    assert watched.trouble == []
    page.close()


def test_other_runs_of_the_same_model_are_further_colours(made, report):
    heads = [u.label for u in made.run.units.where("head")]
    colours, notes = other_runs(made.run, [made.run], heads)
    values = {one["key"]: one["values"] for one in colours}
    assert notes == []
    table = pd.read_parquet(made.folder / "tables" / "heads.parquet")
    assert values["fisher@run"] == pytest.approx(table.fisher.tolist(), rel=1e-3)


def test_gains_change_the_shown_accuracy_as_numpy_says(opened, report, made):
    page = opened("view=equaliser")
    part, clip = report[1], 1 / len(report[1].rows) + 1e-9
    assert accuracy(page) == pytest.approx(direct_accuracy(made, part), abs=clip)
    shown = {accuracy(page)}
    moves = {}
    for label in part.knobs[:12]:
        if page.locator(f'[data-volume="{label}"]').count():
            moves[label] = 0.0
            volume(page, label, 0)
            shown.add(accuracy(page))
    assert accuracy(page) == pytest.approx(direct_accuracy(made, part, moves), abs=clip)
    page.locator("#strength").evaluate("e => { e.value = 0; e.dispatchEvent(new Event('input', { bubbles: true })); }")
    page.click("text=Undo my moves")
    assert accuracy(page) == pytest.approx(direct_accuracy(made, part, strength=0), abs=1e-9)
    shown.add(accuracy(page))
    assert len(shown) > 1
    assert "direct effect" in page.inner_text("#equaliser")


def test_a_shared_address_restores_the_view(opened):
    first = opened("view=heads")
    first.click('[data-head="S3B1H20"]')
    first.select_option("#heads select[aria-label=Colour]", "twonn")
    first.fill("#heads input[type=search]", "S3")
    first.click("#tab-equaliser")
    volume(first, "S3B1H20", 1.5) if first.locator('[data-volume="S3B1H20"]').count() else first.fill("#strength", "0.4")
    address = first.url.split("#")[1]
    second = opened(address, new=True)
    assert second.locator("#tab-equaliser").get_attribute("aria-selected") == "true"
    assert accuracy(second) == accuracy(first)
    second.click("#tab-heads")
    assert second.inner_text("#head h2").startswith("S3B1H20")
    assert second.input_value("#heads select[aria-label=Colour]") == "twonn"
    assert second.input_value("#heads input[type=search]") == "S3"
    assert second.locator("#heads .cell:not(.dim)").count() == 64


def test_a_class_named_like_a_script_is_text_everywhere(opened):
    page = opened("view=ask")
    page.click(f"#ask .pick button >> text={HOSTILE}")
    assert HOSTILE in page.inner_text("#ask h2 >> nth=1")
    page.click("#tab-classes")
    page.wait_for_selector("#classes .plot .main-svg")
    assert HOSTILE in page.inner_text("#classes table")
    labels = page.locator("#classes .plot .ytick text").all_text_contents()
    assert any(label.startswith(HOSTILE[:10]) for label in labels)
    page.click("#tab-heads")
    clip_of_class = """label => HEADS.slice(0, 60).some((h) => { set({ head: h });
        return [...document.querySelectorAll("#head figcaption b")].some((b) => b.textContent === label); })"""
    assert page.evaluate(clip_of_class, HOSTILE)
    assert page.locator("main script, main img").count() == 0


def test_asking_colours_heads_and_shows_maps(opened):
    page = opened(f"view=ask&ask={CLASSES[2]}")
    assert page.locator("#ask .map canvas").count() == 3
    colours = set(page.locator("#ask .cell").evaluate_all("cells => cells.map(c => c.style.background)"))
    assert len(colours) > 10
    page.fill("#asked", "no such thing")
    assert "residual-audio ask" in page.inner_text("#ask")


def test_confusion_counts_are_the_comparisons(opened, report):
    summary = pd.read_parquet(report[0].parent / "compared" / "tables" / "comparison_cells.parquet")
    page = opened("view=classes&before=plain&after=fisher-gains")
    shown = [float(x) for x in re.findall(r": ([\d.]+) % right", page.inner_text("#classes"))]
    for method, value in zip(("plain", "fisher-gains"), shown, strict=True):
        cells = summary[summary.method == method]
        assert value == pytest.approx(100 * (cells.accuracy * cells.clips).sum() / cells.clips.sum(), abs=0.06)


def test_what_is_missing_names_the_command(opened):
    page = opened("view=heads")
    text = page.inner_text("#head")
    assert "residual-audio ablate tiny" in text
    assert "residual-audio describe" in text


def test_the_page_is_ready_before_the_plots(opened, capsys):
    page = opened("view=heads", new=True)
    page.wait_for_selector("#heads .plot .main-svg")
    ready, loaded = page.evaluate(
        "(() => { const t = performance.getEntriesByType('navigation')[0]; return [t.domContentLoadedEventEnd, t.loadEventEnd]; })()"
    )
    with capsys.disabled():
        print(f"\nthe page was ready after {ready:.0f} ms and loaded after {loaded:.0f} ms")
    assert 0 < ready <= loaded
