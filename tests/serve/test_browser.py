"""The live page in a real browser, a real server process behind it: figures against Python and the offline command, no console error."""

import os
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch

from residual_audio.adaptation.attach import attached
from residual_audio.evaluation import prompt_directions
from residual_audio.meaning import ask
from tests.helpers.page import CLASSES, HOSTILE, make

WAIT = 90_000  # ms; for machines that do much else, never for what is tested
VIEWS = ("overview", "sound", "heads", "equaliser", "ask", "steer", "classes", "label")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def server(made, tmp_path_factory):
    """The address of a server with the run and, second, a model alone; and its folder."""
    folder = tmp_path_factory.mktemp("served") / "live"
    words = ["serve", made.folder, "tiny", "--adapter", made.adapter, "--folder", folder, "--port", 0, "--words", 8]
    code = "from residual_audio.cli import main; main()"
    with open(folder.parent / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), (folder.parent / "log").read_text()
        yield address.rstrip("/"), folder
    finally:
        process.terminate()
        process.wait(30)


class Watched:
    """Pages of the server, and everything that they complained about or asked of anybody else."""

    def __init__(self, browser, address):
        self.browser, self.address, self.trouble = browser, address, []

    def __call__(self, hash_="", size=(1280, 900), scheme="light", entry="run"):
        page = self.browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        page.set_default_timeout(WAIT)
        page.on("console", lambda m: self.trouble.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.trouble.append(str(e)))
        page.on("dialog", lambda d: (self.trouble.append(f"dialog {d.message}"), d.dismiss()))
        page.on("request", lambda r: self.trouble.append(r.url) if not r.url.startswith((self.address, "data:", "blob:")) else None)
        page.goto(f"{self.address}/r/{entry}/#{hash_}")
        page.wait_for_selector("[role=tab][aria-selected=true]")
        return page


@pytest.fixture
def opened(browser, server):
    """``opened("view=sound")`` → a page; afterwards nothing may have been complained about."""
    watched = Watched(browser, server[0])
    yield watched
    for context in browser.contexts:
        context.close()
    assert watched.trouble == []


def drop(page, path, name="own.wav", zone="#sound .drop"):
    """A file from the desktop, let go over the zone."""
    held = page.evaluate_handle(
        "([bytes, name]) => { const d = new DataTransfer(); d.items.add(new File([new Uint8Array(bytes)], name)); return d; }",
        [list(path.read_bytes()), name],
    )
    page.dispatch_event(zone, "drop", {"dataTransfer": held})


def slide(page, selector, value):
    """Move a slider as a user does: the browser tells the page of it."""
    page.locator(selector).first.evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input', { bubbles: true })); }", str(value))


def network(page):
    """The accuracy of the whole network, once it has answered for the sliders as they stand."""
    return float(page.wait_for_selector("#equaliser .tile.network[data-network]").get_attribute("data-network"))


def shares(page, text):
    section = page.wait_for_selector(f'#shares section[data-target="{text}"]')
    told = {name: float(section.get_attribute(f"data-{name}")) for name in ("sum", "score")}
    return told, page.locator("#shares .cell").evaluate_all("cells => cells.map(c => c.title)")


def cosines(made, path, texts, adapted=False):
    """Of a file with texts, by the encoder itself."""
    directions = prompt_directions(made.encoder, list(texts), ["{}"])
    with torch.inference_mode():
        features = made.encoder.prepare(path).features
        longer = torch.tensor([False])
        if adapted:
            with attached(made.encoder, made.residual):
                unit = torch.nn.functional.normalize(made.encoder.encode(features, longer), dim=-1)
        else:
            unit = torch.nn.functional.normalize(made.encoder.encode(features, longer), dim=-1)
    return (unit @ directions.T)[0].tolist()


def test_the_start_page_leads_to_every_run_and_model(opened, server):
    page = opened("view=overview", entry="tiny")
    assert "a model here and no run" in page.inner_text("#overview")
    page.click("text=all runs")
    page.wait_for_selector(".entry")
    assert page.locator(".entry").count() == 2
    assert page.locator("script").count() == 0
    page.click(".entry >> nth=0")
    page.wait_for_selector("#tab-sound")


def test_a_dropped_sound_is_scored_for_any_text_and_split_by_unit(opened, made):
    path = made.folder.parent / "1-0.wav"
    page = opened("view=sound&sound=")
    drop(page, path)
    page.wait_for_selector("#scores .score")
    page.fill("#own-text", "rain")
    first, cells = shares(page, "rain")
    assert first["sum"] == pytest.approx(first["score"], abs=1e-5)
    page.fill("#own-text", "a bell; rain")
    second, others = shares(page, "a bell")
    assert second["score"] != first["score"]
    assert cells != others
    rows = page.locator("#scores .score").evaluate_all(
        "rows => rows.map(r => [r.textContent, Number(r.dataset.score), Number(r.dataset.after)])"
    )
    before, after = cosines(made, path, ["a bell", "rain"]), cosines(made, path, ["a bell", "rain"], adapted=True)
    assert [row[1] for row in rows[:2]] == pytest.approx(before, abs=1e-4)
    assert [row[2] for row in rows[:2]] == pytest.approx(after, abs=1e-4)
    assert second["score"] == pytest.approx(after[0], abs=1e-4)
    page.wait_for_selector("#shares .map canvas")
    assert page.locator("#shares .map canvas").count() == 2
    assert page.locator("#nearest figcaption b").first.text_content() == CLASSES[1]
    page.click(f"#scores .score >> text={CLASSES[2]}")
    shares(page, CLASSES[2])
    page.select_option("#shares select", "before")
    page.wait_for_selector("#shares section[data-when=before]")


def test_a_recording_becomes_a_sound(opened):
    page = opened("view=sound")
    page.click("#sound .record")
    page.wait_for_selector("#sound .record >> text=Stop")
    page.wait_for_timeout(900)
    page.click("#sound .record")
    page.wait_for_selector("#scores .score")
    assert page.inner_text("#own-sound b") == "recording.wav"
    assert page.locator("#own-sound audio").evaluate("async a => { a.muted = true; await a.play(); return a.duration; }") > 0.4


def test_hearing_what_speaks_for_a_class(opened):
    page = opened("view=sound&sound=row-9&text=rain")
    shares(page, "rain")
    page.click("#explain")
    page.wait_for_selector("#kept")
    for part in ("kept", "removed", "against", "original"):
        player = page.locator(f"#{part}")
        assert player.evaluate("async a => { a.muted = true; await a.play(); return a.duration; }") > 0.5, part
    assert page.locator("#explanation tbody tr").count() > 1


def test_a_moved_gain_runs_the_network_and_equals_the_folded_model(opened, server, made, command, tmp_path):
    page = opened("view=equaliser")
    learned = network(page)
    for number in range(24):
        slide(page, f"#equaliser .faders [data-volume] >> nth={number}", 2 if number % 3 else 0)
    page.wait_for_selector("#equaliser .tile.network.waiting", state="attached")
    turned, chosen = network(page), page.evaluate("N.answer.whole.predicted")
    assert turned != learned
    assert "gains=" in page.url
    assert "direct effect" in page.inner_text("#equaliser .tile.now")
    while page.locator("#undo").is_enabled():
        page.keyboard.press("Control+Z")
    assert "gains=" not in page.url
    assert network(page) == learned
    while page.locator("#redo").is_enabled():
        page.click("#redo")
    assert network(page) == turned
    page.fill("#adapter-name", "My moves")
    page.click("#save-adapter")
    page.wait_for_selector("#adapter-said a")
    with page.expect_download() as got:
        page.click("#adapter-said >> text=Fold and download model")
    zipfile.ZipFile(got.value.path()).extractall(tmp_path / "folded")
    folded = next((tmp_path / "folded").rglob("config.json")).parent
    table = f"table:{made.folder.parent / 'breaking.csv'}"
    assert command("zero-shot", folded, table, "--template", "sound-of", "--out", tmp_path / "scored") == 0
    offline = pd.read_parquet(tmp_path / "scored" / "tables" / "confusion.parquet").set_index("true")
    names = sorted(CLASSES)
    targets = [names.index(label) for label in made.run.clips["label"]]
    shown = np.zeros((len(names), len(names)), int)
    np.add.at(shown, (targets, chosen), 1)
    assert (shown == offline.loc[names, names].to_numpy()).all()
    assert turned == pytest.approx(np.trace(shown) / shown.sum(), abs=1e-9)
    page.click("#adapter-said >> text=Open my-moves")
    page.wait_for_selector("#equaliser select[aria-label=Adapter] option[value=my-moves]:checked", state="attached")
    assert network(page) == turned
    page.select_option("#equaliser select[aria-label=Adapter]", "-")
    page.wait_for_selector("text=the model as it is.")
    assert network(page) == page.evaluate("Q.before.accuracy")


def test_only_the_last_answer_is_shown(opened):
    shown = opened("view=equaliser").evaluate(
        """async () => {
          const shown = [];
          const ask = (signal, ms, value) => pause(ms).then(() => { if (value === "bad") throw new Error(value); return value; });
          const go = latest(ask, (value) => shown.push(value), (error) => shown.push(error.message), 5);
          go(300, "old"); await pause(100);
          go(0, "bad"); await pause(100);
          go(0, "dropped"); go(50, "new"); await pause(500);
          return shown;
        }"""
    )
    assert shown == ["bad", "new"]


def test_any_text_can_be_asked_for(opened, made):
    page = opened("view=ask")
    page.fill("#asked", "an old steam engine")
    page.keyboard.press("Enter")
    page.wait_for_selector("#ask h2 >> text=an old steam engine")
    table = ask(made.run, "an old steam engine", encoder=made.encoder).tables["ask_units"].set_index("label").share
    told = page.locator("#ask .cell").evaluate_all("cells => cells.map(c => c.title.split(' · '))")
    shown = {label: float(value.replace("−", "-")) for label, value in told}
    assert np.allclose([shown[x] for x in shown], [table[x] for x in shown], atol=2e-3)
    assert page.locator("#ask .map canvas").count() == 3


def test_ten_labels_by_keyboard_and_an_adapter_from_them(opened):
    page = opened("view=label&dataset=by-hand")
    page.wait_for_selector(".strip button")
    page.focus(".labeller")
    for _ in range(10):
        number = page.evaluate("D.clips[L.items[L.at].clip].class")
        page.keyboard.press(str(number + 1))
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
    page.wait_for_selector('#label-count[data-saved="10"]')
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.reload()
    page.wait_for_selector("text=10 labelled in by-hand")
    page.fill("#label-epochs", "2")
    page.fill("#label-adapter", "ten labels")
    page.click("#adapt")
    page.wait_for_selector("#adapting .trained", timeout=3 * WAIT)
    page.click("#adapting .open")
    page.wait_for_selector("#equaliser select[aria-label=Adapter] option[value=ten-labels]:checked", state="attached")
    assert 0 <= network(page) <= 1


def test_a_cancelled_training_leaves_nothing(opened, server):
    page = opened("view=equaliser")
    network(page)
    page.fill("#adapter-name", "never")
    page.fill("#epochs", "200")
    page.click("#train")
    page.wait_for_selector("#training progress")
    page.click("#training >> text=Cancel")
    page.wait_for_selector("text=nothing was kept")
    assert not list(server[1].rglob("never*"))


def test_training_begins_with_what_is_on_the_page(opened):
    page = opened("view=equaliser&gains=S3B0H1:0.5&strength=40")
    network(page)
    page.fill("#adapter-name", "from-here")
    page.fill("#epochs", "200")
    with page.expect_request(lambda request: request.url.endswith("/jobs")) as asked:
        page.click("#train-here")
    setting = asked.value.post_data_json["setting"]
    assert (setting["strength"], setting["gains"]) == (0.4, {"S3B0H1": 0.5})
    assert setting["adapter"]
    page.wait_for_selector("#training progress")
    page.click("#training >> text=Cancel")
    page.wait_for_selector("text=nothing was kept")


def test_two_boxes_and_a_slider_steer(opened):
    page = opened("view=steer")
    page.fill("#more", "rain")
    page.fill("#less", "a bell")
    page.wait_for_selector('#steered [data-strength="1"]')
    text = page.inner_text("#steered")
    assert "random axes" in text
    slide(page, "#alpha", 0.5)
    page.wait_for_selector('#steered [data-strength="0.5"]')
    sides = page.locator("#steered section:last-child tbody tr").evaluate_all("rows => rows.map(r => r.cells[2].textContent)")
    assert {"more", "less"} <= set(sides)
    page.click("text=Try it on a sound")
    page.select_option("select[aria-label='Or a clip of the run']", "row-3")
    page.fill("#own-text", "rain")
    shares(page, "rain")
    assert page.locator("#scores .score").first.get_attribute("data-after") is not None


def test_a_shared_link_restores_the_view(opened, made):
    page = opened("view=sound")
    drop(page, made.folder.parent / "2-1.wav")
    page.fill("#own-text", "rain; a bell")
    page.wait_for_selector("#scores .score")
    page.click("#scores .score >> text=a bell")
    told, cells = shares(page, "a bell")
    again = opened(page.url.partition("#")[2])
    assert shares(again, "a bell") == (told, cells)
    assert again.input_value("#own-text") == "rain; a bell"
    assert again.locator("#own-sound audio").count() == 1


def test_keys_phone_and_dark(opened):
    page = opened("view=overview&sound=row-2&text=rain&more=rain", (390, 844), "dark")
    page.focus("#tab-overview")
    for number, name in enumerate(VIEWS):
        if number:
            page.keyboard.press("ArrowRight")
        page.wait_for_selector(f"#{name}:not([hidden])")
        if name == "sound":
            shares(page, "rain")
        assert page.evaluate("document.activeElement.id") == f"tab-{name}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground)[:3])) < 64


def test_scripts_in_labels_and_texts_stay_text(opened, made):
    evil = "<img src=x onerror=alert(3)><script>alert(4)</script>"
    page = opened("view=sound&sound=row-0")
    drop(page, made.folder.parent / "0-1.wav", name=f"{evil}.wav")
    page.wait_for_selector("#own-sound >> text=onerror")
    page.fill("#own-text", evil)
    page.wait_for_selector(f"#scores .score >> text={HOSTILE}")
    page.wait_for_selector("#shares h2 >> text=onerror")
    page.click("#tab-ask")
    page.fill("#asked", evil)
    page.keyboard.press("Enter")
    page.wait_for_selector("#ask h2 >> text=onerror")
    page.click("#tab-label")
    page.fill("#dataset-name", "evil")
    page.fill("#label-text", evil)
    page.keyboard.press("Enter")
    page.wait_for_selector('#label-count[data-saved="1"]')
    page.reload()
    page.wait_for_selector("#label-count >> text=onerror")
    assert page.locator("main script, main img").count() == 0


def test_what_goes_wrong_is_said_in_words(opened, made, tmp_path):
    noise = tmp_path / "no.wav"
    noise.write_bytes(b"no sound at all")
    page = opened("view=sound")
    drop(page, noise)
    page.wait_for_selector("#sound .drop [role=alert]")
    assert page.locator("#scores .score").count() == 0
    opened.trouble[:] = [line for line in opened.trouble if "Failed to load resource" not in line]
