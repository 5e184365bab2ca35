"""A run of every layout becomes a page from its folder alone: its own model opens, turns heads and answers questions; images too."""

import base64
import io
import json
import re

import pytest
from PIL import Image

from residual_audio.data import load_dataset
from residual_audio.extraction import Run, extract
from residual_audio.meaning import MeaningError, ask, describe
from residual_audio.models import load_encoder
from residual_audio.report import report

SOUNDS = {"laion_dir": {}, "fused_dir": {}, "msclap_path": {}, "whisper_dir": {"seconds": 1.0}, "ast_dir": {}}
IMAGES = {"clip_dir": {}, "vit_dir": {}, "dinov2_dir": {}}
WITH_TEXT = ("laion_dir", "fused_dir", "msclap_path", "clip_dir")


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S).group(1))


@pytest.fixture(scope="module")
def picture_run(clip_dir, image_folder, tmp_path_factory):
    data = load_dataset(f"folder:{image_folder}").limited(6)
    folder = tmp_path_factory.mktemp("pictures") / "run"
    extract(load_encoder(clip_dir), data, folder, ("head", "moments", "direct"), batch_size=6)
    return folder


@pytest.mark.parametrize("layout", [*SOUNDS, *IMAGES])
def test_from_the_folder_alone(layout, request, tmp_path, monkeypatch, image_folder):
    monkeypatch.setenv("RESIDUAL_AUDIO_CACHE", str(tmp_path / "cache"))
    options = (SOUNDS | IMAGES)[layout]
    data = load_dataset(f"folder:{image_folder}") if layout in IMAGES else load_dataset("synthetic-voice", per_class=1)
    encoder = load_encoder(request.getfixturevalue(layout), **options)
    extract(encoder, data.limited(6), tmp_path / "run", ("head", "moments", "direct"), batch_size=6)
    told = []
    page = data_of(report(tmp_path / "run", clips=6, words=4, tell=told.append))
    assert told == []
    assert page["meta"]["notes"] == []
    assert len(page["equaliser"]["clips"]) == 6
    kinds = [t["kind"] for t in page["ask"]["texts"]]
    assert kinds.count("class") == len(page["classes"])
    assert kinds.count("word") == (4 if layout in WITH_TEXT else 0)
    assert any("map" in clip for text in page["ask"]["texts"] for clip in text["clips"]) == (layout in SOUNDS)
    check_words(Run.open(tmp_path / "run"), layout in WITH_TEXT)
    shown = "image" if layout in IMAGES else "spectrogram"
    assert page["meta"]["media"] == ("image" if layout in IMAGES else "sound")
    assert all(shown in clip and "error" not in clip for clip in page["clips"])


def check_words(run, has_text):
    """`describe` and `ask` open the run's own model; without a text side they say so."""
    units = [unit.label for unit in run.units.where("head")[:2]]
    few = {"units": " ".join(units), "methods": ["somp"], "words": 3, "permutations": 2, "resamples": 0, "select": False}
    if not has_text:
        for question in (lambda: describe(run, "voice", **few), lambda: ask(run, "a dog")):
            with pytest.raises(MeaningError, match="no text side"):
                question()
        return
    assert set(describe(run, "voice", **few).tables["words"].label) == set(units)
    assert ask(run, "a dog", "S0B0 heads").tables["ask_units"].label.str.startswith("S0B0").sum() == run.units.heads[0][0]


def test_images_are_shown_in_a_browser(picture_run, browser, tmp_path, monkeypatch):
    monkeypatch.setenv("RESIDUAL_AUDIO_CACHE", str(tmp_path / "cache"))
    path = report(picture_run, tmp_path / "page.html", clips=6, words=0)
    clip = data_of(path)["clips"][0]
    picture = Image.open(io.BytesIO(base64.b64decode(clip["image"].partition("base64,")[2])))
    assert picture.format == "JPEG"
    assert max(picture.size) <= 160
    page = browser.new_page()
    trouble = []
    page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: trouble.append(str(e)))
    page.goto(f"{path.as_uri()}#view=ask")
    page.wait_for_selector("#ask figure img")
    assert page.locator("#ask figure img").count() == 3
    assert page.locator("#ask audio, #ask canvas").count() == 0
    assert page.locator("#ask figure img").first.evaluate("i => i.decode().then(() => i.naturalWidth)") == picture.width
    assert "what one hears" not in page.inner_text("#ask")
    page.click("#tab-equaliser")
    assert float(page.locator("#equaliser .tiles").get_attribute("data-accuracy")) >= 0
    assert trouble == []
    page.close()


def test_an_image_that_is_gone_has_a_placeholder(picture_run, tmp_path, monkeypatch):
    import pandas as pd

    from residual_audio.extraction import Run

    run = Run.open(picture_run)
    table = run.all_clips.assign(path=[str(tmp_path / "gone.png"), *run.all_clips["path"][1:]])
    monkeypatch.setattr(Run, "all_clips", property(lambda self: pd.DataFrame(table)))
    clips = data_of(report(run, tmp_path / "page.html", clips=6, model=False))["clips"]
    assert "no such file" in clips[0]["error"]
    assert all("image" in clip for clip in clips[1:])
