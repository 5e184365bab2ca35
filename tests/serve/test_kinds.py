"""Several entries in one server: an encoder without texts, one of images, and a model without a run."""

import io
import shutil

import pytest
import soundfile

from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder
from tests.helpers.serving import Server


@pytest.fixture(scope="module")
def several(made, whisper_dir, vit_dir, laion_dir, image_folder, tmp_path_factory):
    home = tmp_path_factory.mktemp("kinds")
    sounds = made.dataset.without({"broken"}).limited(12)
    extract(load_encoder(whisper_dir), sounds, home / "whispered", ("head", "moments", "direct"))
    extract(load_encoder(vit_dir), load_dataset(f"folder:{image_folder}").limited(12), home / "pictured", ("head", "moments", "direct"))
    shutil.copytree(laion_dir, home / "mute", ignore=shutil.ignore_patterns("*token*", "vocab*", "merges*"))
    opened = Server(
        home / "whispered", home / "pictured", "tiny", home / "mute", "--folder", home / "live", "--clips", 12, "--words", 0, cache=home
    )  # fmt: skip
    yield opened
    assert opened.end() == 0


@pytest.fixture(scope="module")
def wave(made) -> bytes:
    return next(c for c in made.dataset.clips if c.id != "broken").source.read_bytes()


def test_the_start_page_leads_to_all_without_a_script(several):
    answer = several.ask("GET", "/")
    assert answer.status == 200
    for id in ("whispered", "pictured", "tiny", "mute"):
        assert f"/r/{id}/" in answer.body.decode()
        assert several.ask("GET", f"/r/{id}/").status == 200
    assert b"<script" not in answer.body


class TestWithoutTexts:
    def test_classes_are_centroids_and_texts_are_refused(self, several, wave):
        sound = several.post("/api/whispered/sounds", raw=wave)["sound"]
        scores = several.post(f"/api/whispered/sounds/{sound}/scores", {})["before"]
        assert len(scores["classes"]) == len(several.get("/api/whispered")["classes"])
        assert several.ask("POST", f"/api/whispered/sounds/{sound}/scores", {"texts": ["rain"]}).status == 422
        assert several.ask("POST", "/api/whispered/ask", {"text": "rain"}).status == 422
        shares = several.post(f"/api/whispered/sounds/{sound}/shares", {"class": 0})
        assert sum(shares["shares"]) + shares["constant"] == pytest.approx(shares["score"], abs=1e-4)
        assert shares["score"] == pytest.approx(scores["classes"][0], abs=1e-4)

    def test_its_equaliser_runs_the_network(self, several):
        answer = several.post("/api/whispered/equalise", {"gains": {"S0B0H0": 0.0}})
        assert answer["clips"] == 12
        assert answer["whole"]["margin"] != answer["before"]["margin"]

    def test_a_sound_of_one_entry_is_none_of_another(self, several, wave):
        sound = several.post("/api/tiny/sounds", raw=wave)["sound"]
        assert several.ask("GET", f"/api/whispered/sounds/{sound}").status == 404


class TestImages:
    def test_an_image_is_scored_and_a_sound_is_refused(self, several, image_files, wave):
        picture = next(path for path in image_files if path.suffix == ".png").read_bytes()
        sound = several.post("/api/pictured/sounds", raw=picture)
        assert sound["image"].startswith("data:image/jpeg")
        assert several.post(f"/api/pictured/sounds/{sound['sound']}/scores", {})["before"]["nearest"]
        assert several.ask("POST", f"/api/pictured/sounds/{sound['sound']}/map", {"class": 0}).status == 422
        assert several.ask("POST", "/api/pictured/sounds", raw=wave).status == 422
        assert several.ask("POST", "/api/tiny/sounds", raw=picture).status == 422


class TestAModelAlone:
    def test_texts_are_scored_and_shares_sum(self, several, wave):
        sound = several.post("/api/tiny/sounds", raw=wave)["sound"]
        scores = several.post(f"/api/tiny/sounds/{sound}/scores", {"texts": ["rain"]})["before"]
        assert scores["classes"] == scores["nearest"] == []
        shares = several.post(f"/api/tiny/sounds/{sound}/shares", {"text": "rain"})
        assert shares["score"] == pytest.approx(scores["texts"][0], abs=1e-5)
        assert sum(shares["shares"]) + shares["constant"] == pytest.approx(shares["score"], abs=1e-4)

    def test_what_needs_clips_is_told(self, several, wave):
        for path, body in (("equalise", {}), ("ask", {"text": "rain"}), ("jobs", {"name": "x"})):
            answer = several.ask("POST", f"/api/tiny/{path}", body)
            assert answer.status == 404
            assert "run" in answer.json["error"]

    def test_sounds_can_be_labelled(self, several, wave):
        samples, rate = soundfile.read(io.BytesIO(wave), dtype="float32")
        file = io.BytesIO()
        soundfile.write(file, samples[::-1], rate, format="WAV")
        for raw, label in ((wave, "forth"), (file.getvalue(), "back")):
            sound = several.post("/api/tiny/sounds", raw=raw)["sound"]
            told = several.post("/api/tiny/datasets/turned/labels", {"sound": sound, "label": label})
        assert told["classes"] == {"forth": 1, "back": 1}
        assert several.ask("POST", "/api/tiny/jobs", {"name": "x", "dataset": "turned"}).status == 422, "two clips of each are needed"


def test_what_a_checkpoint_cannot_do_is_told_and_is_no_bug(several, wave):
    """Its tokenizer is missing, which is only found out when a text is asked for."""
    sound = several.post("/api/mute/sounds", raw=wave)["sound"]
    answer = several.ask("POST", f"/api/mute/sounds/{sound}/scores", {"texts": ["rain"]})
    assert answer.status == 422
    assert "tokenizer" in answer.json["error"]
    assert several.post(f"/api/mute/sounds/{sound}/scores", {})["before"]["texts"] == []
