"""What a page asks, over real sockets, against the same asked of the package without a server."""

import base64
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from residual_audio.adaptation.adapter import load_adapter, save_adapter
from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.fold import fold
from residual_audio.adaptation.gain import ResiDual
from residual_audio.data import Dataset
from residual_audio.data.prompts import templates
from residual_audio.evaluation import prompt_directions, zero_shot
from residual_audio.meaning import ask
from residual_audio.models import load_encoder
from tests.helpers.page import CLASSES, HOSTILE

API = "/api/run"


def unpacked(packed: dict) -> np.ndarray:
    steps = np.frombuffer(base64.b64decode(packed["int8"]), np.int8).reshape(packed["shape"])
    return steps * float(np.frombuffer(base64.b64decode(packed["scale"]), "<f4").item())


def data_of(server) -> dict:
    html = server.ask("GET", "/r/run/").body.decode()
    return json.loads(html.split('id="data">', 1)[1].split("</script>", 1)[0])


@pytest.fixture(scope="module")
def data(server) -> dict:
    return data_of(server)


@pytest.fixture(scope="module")
def clips(made, data) -> Dataset:
    """The clips that the equaliser runs, as a dataset for the offline commands."""
    ids = {data["clips"][i]["id"] for i in data["equaliser"]["clips"]}
    return made.dataset.only(lambda clip: clip.id in ids, "those of the equaliser")


@pytest.fixture(scope="module")
def wave(made) -> bytes:
    return next(c for c in made.dataset.clips if c.id != "broken").source.read_bytes()


@pytest.fixture(scope="module")
def sound(server, wave) -> dict:
    return server.post(f"{API}/sounds", raw=wave)


def offline(encoder, clips: Dataset) -> float:
    """The figure of `residual-audio zero-shot`."""
    return zero_shot(encoder, clips, workers=1).summary()["top1"].value


class TestThePage:
    def test_one_entry_is_opened_at_once(self, server):
        answer = server.ask("GET", "/")
        assert (answer.status, answer.headers["location"]) == (303, "/r/run/")
        assert server.ask("GET", "/r/run").headers["location"] == "/r/run/"

    def test_it_is_the_static_page_with_a_server_behind_it(self, server, data):
        live = data["live"]
        assert (live["api"], live["adapter"], live["has_text"], live["run"]) == (API, "adapter", True, True)
        assert data["classes"] == server.get(API)["classes"]
        assert len(data["clips"]) == 28
        assert live["clips"] == [clip["row"] for clip in data["clips"]]
        assert "residual" in live["methods"]

    def test_its_policy_is_a_header_too_and_allows_no_other_server(self, server):
        answer = server.ask("GET", "/r/run/")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "script-src 'sha256-" in policy
        assert "unsafe-eval" not in policy
        assert HOSTILE not in answer.body.decode()

    def test_entries_and_clips_are_listed(self, server, data):
        assert [entry["id"] for entry in server.get("/api")["entries"]] == ["run"]
        rows = server.get(f"{API}/clips?start=1&count=2")
        assert rows["total"] == 28
        assert [row["row"] for row in rows["clips"]] == [1, 2]
        record = server.get(f"{API}/clips/{data['clips'][3]['row']}")
        assert record == data["clips"][3]


class TestTheEqualiser:
    def test_the_learned_gains_have_the_accuracy_of_the_folded_checkpoint(self, server, made, clips):
        answer = server.post(f"{API}/equalise", {"adapter": "adapter"})
        assert answer["clips"] == len(clips) == 28
        assert answer["before"]["accuracy"] == offline(made.encoder, clips)
        assert answer["whole"]["accuracy"] == offline(fold(made.encoder, made.residual), clips)

    @pytest.mark.parametrize(
        ("gains", "strength"),
        [
            ({"S3B0H1": 0.0}, 1.0),
            ({"S3B0H1": 0.3, "S3B1H2.1": -2.0, "S0B0H0": 0.2}, 0.4),
            ({"S2B1H3": 3.0, "S3B0H2.2": 2.5}, 0.0),
        ],
    )
    def test_moved_gains_have_the_accuracy_of_the_adapter_that_is_saved_of_them(self, server, made, clips, folder, gains, strength):
        setting = {"adapter": "adapter", "strength": strength, "gains": gains}
        answer = server.post(f"{API}/equalise", setting)
        server.post(f"{API}/adapters", {"name": "moved", "setting": setting, "replace": True})
        saved = load_adapter(folder / "run" / "adapters" / "moved", made.encoder)
        assert answer["whole"]["accuracy"] == offline(fold(made.encoder, saved), clips)
        again = server.post(f"{API}/equalise", {"adapter": "moved"})["whole"]
        assert again["predicted"] == answer["whole"]["predicted"]
        assert again["margin"] == pytest.approx(answer["whole"]["margin"], abs=1e-5)

    def test_without_an_adapter_the_model_is_as_it_is(self, server):
        answer = server.post(f"{API}/equalise", {})
        assert answer["whole"] == answer["before"]
        assert answer["direct"] == answer["before"]

    def test_the_direct_effect_is_what_the_page_adds_up(self, server, data):
        packed = data["equaliser"]
        answer = server.post(f"{API}/equalise", {"adapter": "adapter", "gains": {"S3B0H1": 0.5}})
        size = packed["whole"]["shape"][1:]
        whole = np.frombuffer(base64.b64decode(packed["whole"]["int8"]), np.int8).reshape(packed["whole"]["shape"])
        scale = np.frombuffer(base64.b64decode(packed["whole"]["scale"]), "<f4")
        number = data["heads"]["label"].index("S3B0H1")
        total = np.frombuffer(base64.b64decode(packed["base"]["float"]), "<f4").reshape(size).copy()
        total += -0.5 * scale[number] * whole[number]
        for j, axis in enumerate(packed["axis"]):
            steps = np.frombuffer(base64.b64decode(axis["int8"]), np.int8).reshape(axis["shape"])
            steps = steps * np.frombuffer(base64.b64decode(axis["scale"]), "<f4")[:, None, None]
            volume = 0.5 if packed["heads"][j] == "S3B0H1" else 1.0
            total += volume * np.einsum("ack,a->ck", steps, np.array(packed["gains"][j]) - 1)
        targets = np.array([data["clips"][i]["class"] for i in packed["clips"]])
        own = total[np.arange(len(targets)), targets]
        rival = np.where(np.eye(size[1], dtype=bool)[targets], -np.inf, total).max(1)
        assert answer["direct"]["margin"] == pytest.approx(float((own - rival).mean()), abs=5e-3)

    def test_sliders_of_another_adapter_can_be_had(self, server, data):
        assert server.get(f"{API}/equaliser?adapter=adapter")["equaliser"] == data["equaliser"]
        plain = server.get(f"{API}/equaliser")["equaliser"]
        assert not plain["learned"]
        assert plain["clips"] == data["equaliser"]["clips"]

    def test_every_adapter_has_its_own_notes(self, server, made, folder):
        """What its sliders are follows from its form; the adapter that the server was started with has gains."""
        first = made.residual.sets[0]
        d = first.axes.shape[1]
        mixed = replace(first, form="mixing", values=torch.full((len(first.axes), d * d), 0.01))
        save_adapter(folder / "run" / "adapters" / "mixed", made.encoder, ResiDual((mixed,)))
        (note,) = server.get(f"{API}/equaliser?adapter=mixed")["notes"]
        assert note.startswith("Form mixing")
        assert server.get(f"{API}/equaliser?adapter=adapter")["notes"] == server.get(f"{API}/equaliser")["notes"] == []
        assert server.ask("DELETE", f"{API}/adapters/mixed").status == 204

    @pytest.mark.parametrize(
        "body",
        [
            {"gains": {"S9B0H1": 1.0}}, {"gains": {"S3B0H1.99": 1.0}}, {"gains": {"S3B0H1": 1e9}}, {"gains": {"../x": 1}},
            {"strength": 2}, {"strength": "1"}, {"unknown": 1}, {"gains": [1]}, [],
        ],
    )  # fmt: skip
    def test_what_makes_no_sense_is_refused(self, server, body):
        answer = server.ask("POST", f"{API}/equalise", body)
        assert answer.status == 422
        assert answer.json["error"]

    def test_numbers_that_are_none_are_refused(self, server):
        for word in (b"NaN", b"Infinity", b"1e999"):
            answer = server.ask("POST", f"{API}/equalise", raw=b'{"gains": {"S3B0H1": ' + word + b"}}", Content_Type="application/json")
            assert answer.status == 422


class TestASound:
    def test_scores_are_those_of_the_model(self, server, made, sound, wave):
        samples, rate = soundfile.read(io.BytesIO(wave), dtype="float32")
        unit = made.encoder.embed([samples], sample_rate=rate)
        answer = server.post(f"{API}/sounds/{sound['sound']}/scores", {"texts": ["rain", "a bell"], "setting": {"adapter": "adapter"}})
        texts = prompt_directions(made.encoder, ["rain", "a bell"], templates("plain"))
        assert answer["before"]["texts"] == pytest.approx((unit @ texts.T)[0].tolist(), abs=1e-5)
        names = [made.dataset.names[label] for label in made.dataset.labels]
        classes = prompt_directions(made.encoder, names, templates("sound-of"))
        assert answer["before"]["classes"] == pytest.approx((unit @ classes.T)[0].tolist(), abs=1e-5)
        with attached(made.encoder, made.residual):
            changed = made.encoder.embed([samples], sample_rate=rate)
        assert answer["after"]["classes"] == pytest.approx((changed @ classes.T)[0].tolist(), abs=1e-5)

    def test_a_clip_of_the_run_is_nearest_to_itself(self, server, sound, data):
        nearest = server.post(f"{API}/sounds/{sound['sound']}/scores", {})["before"]["nearest"]
        assert nearest[0]["cosine"] == pytest.approx(1, abs=1e-4)
        assert data["clips"][nearest[0]["clip"]]["id"] == nearest[0]["id"]
        assert [one["cosine"] for one in nearest] == sorted((one["cosine"] for one in nearest), reverse=True)

    @pytest.mark.parametrize("towards", [{"text": "rain"}, {"class": 1}])
    def test_shares_sum_to_the_score_before_and_after(self, server, sound, towards):
        body = {**towards, "setting": {"adapter": "adapter", "gains": {"S3B0H1": 0.2}}}
        answer = server.post(f"{API}/sounds/{sound['sound']}/shares", body)
        assert len(answer["shares"]) == len(server.get(API)["units"])
        for state in (answer, answer["after"]):
            assert sum(state["shares"]) + state["constant"] == pytest.approx(state["score"], abs=2e-5)
        assert answer["after"]["score"] != pytest.approx(answer["score"], abs=1e-4)

    def test_maps_add_up_to_shares(self, server, sound):
        at = f"{API}/sounds/{sound['sound']}"
        units = server.get(API)["units"]
        shares = server.post(f"{at}/shares", {"text": "rain"})["shares"]
        every = server.post(f"{at}/map", {"text": "rain"})
        assert every["sum"] == pytest.approx(sum(shares), abs=1e-4)
        one = server.post(f"{at}/map", {"text": "rain", "units": "S3B0H1"})
        assert one["sum"] == pytest.approx(shares[units.index("S3B0H1")], abs=1e-5)
        assert unpacked(every["map"]).sum() == pytest.approx(every["sum"], abs=0.05)

    def test_a_row_stands_for_its_clip(self, server, data):
        row = data["clips"][2]["row"]
        assert server.post(f"{API}/sounds/row-{row}/scores", {})["before"]["nearest"][0]["row"] == row

    def test_an_upload_can_be_shown_again(self, server, sound):
        assert server.get(f"{API}/sounds/{sound['sound']}") == sound
        assert sound["audio"].startswith("data:audio/")


class TestAsk:
    def test_any_text_gets_the_answer_of_the_command(self, server, made):
        answer = server.post(f"{API}/ask", {"text": "a struck bell"})
        table = ask(made.run, "a struck bell", encoder=made.encoder).tables["ask_units"].set_index("label")["share"]
        labels = server.get(API)["units"]
        assert answer["share"] == pytest.approx([table[label] for label in labels], rel=2e-2, abs=2e-4)
        assert answer["kind"] == "typed"
        assert len(answer["clips"]) == 3
        assert all("map" in clip for clip in answer["clips"])

    def test_a_packed_text_gets_its_packed_answer(self, server, data):
        packed = next(t for t in data["ask"]["texts"] if t["kind"] == "word")
        answer = server.post(f"{API}/ask", {"text": packed["text"]})
        assert answer["share"] == packed["share"]
        assert answer["components"] == packed["components"]
        assert [c["clip"] for c in answer["clips"]] == [c["clip"] for c in packed["clips"]]


class TestAdapters:
    def test_saved_listed_downloaded_and_deleted(self, server, made, folder, tmp_path):
        body = {"name": "mine", "setting": {"gains": {"S3B0H1": 0.5}}}
        assert server.post(f"{API}/adapters", body)["name"] == "mine"
        assert server.ask("POST", f"{API}/adapters", body).status == 409
        assert server.ask("POST", f"{API}/adapters", {**body, "name": "adapter", "replace": True}).status == 409, "the given one stays"
        listed = {one["name"]: one for one in server.get(f"{API}/adapters")["adapters"]}
        assert listed["adapter"]["given"]
        assert not listed["mine"]["given"]

        with zipfile.ZipFile(io.BytesIO(server.ask("GET", f"{API}/adapters/mine/adapter.zip").body)) as archive:
            archive.extractall(tmp_path)
        saved = load_adapter(tmp_path / "mine", made.encoder)
        with zipfile.ZipFile(io.BytesIO(server.ask("GET", f"{API}/adapters/mine/folded.zip").body)) as archive:
            assert any(name.endswith(".safetensors") for name in archive.namelist())
            archive.extractall(tmp_path)
        folded = load_encoder(tmp_path / "mine-folded")
        noise = torch.randn(16000 * 2, generator=torch.Generator().manual_seed(1)).numpy() / 5
        with attached(made.encoder, saved):
            live = made.encoder.embed([noise], sample_rate=16000)
        assert folded.embed([noise], sample_rate=16000) == pytest.approx(live, abs=1e-5)

        assert server.ask("DELETE", f"{API}/adapters/mine").status == 204
        assert server.ask("GET", f"{API}/adapters/mine/adapter.zip").status == 404
        assert server.ask("DELETE", f"{API}/adapters/adapter").status == 404
        assert not (folder / "run" / "adapters" / "mine").exists()
        assert not list((folder / ".drafts").iterdir())

    def test_nothing_moved_is_nothing_to_save(self, server):
        assert server.ask("POST", f"{API}/adapters", {"name": "none", "setting": {}}).status == 422


class TestLabelsAndTraining:
    def test_ten_labelled_clips_become_an_adapter(self, server, sound, folder, made):
        for row in range(0, 28, 3):
            server.post(f"{API}/datasets/ten/labels", {"row": row, "label": CLASSES[1 + row % 2]})
        told = server.post(f"{API}/datasets/ten/labels", {"sound": sound["sound"], "label": HOSTILE})
        assert told["classes"][HOSTILE] == 1
        told = server.post(f"{API}/datasets/ten/labels", {"sound": sound["sound"], "label": CLASSES[1]})
        assert told["clips"] == 11
        assert HOSTILE not in told["classes"]
        rows = server.get(f"{API}/datasets/ten")["rows"]
        assert [row["row"] for row in rows] == [*range(0, 28, 3), None]
        job = server.post(f"{API}/jobs", {"name": "ten", "dataset": "ten", "epochs": 2})
        done = server.job(job["id"])
        assert (done["state"], done["error"]) == ("done", None)
        assert len(done["history"]) >= 1
        assert "ten" in [one["name"] for one in server.get(f"{API}/adapters")["adapters"]]
        load_adapter(folder / "run" / "adapters" / "ten", made.encoder)
        server.post(f"{API}/sounds/{sound['sound']}/scores", {"setting": {"adapter": "ten"}})

    def test_training_goes_on_from_the_setting(self, server, folder, made):
        """A rate that learns next to nothing cannot be asked for here, so one epoch is; what it began with is still what it is near to."""
        setting = {"adapter": "adapter", "gains": {"S2B1H3": -2.0}}
        body = {"name": "on", "units": "S3B1 heads", "epochs": 1, "setting": setting}
        assert server.ask("POST", f"{API}/jobs", {**body, "method": "residual-random"}).status == 422
        done = server.job(server.post(f"{API}/jobs", body)["id"])
        assert (done["state"], done["error"]) == ("done", None)
        assert any("goes on from an adapter" in reason for reason in done["reasons"])
        notes = next(one for one in server.get(f"{API}/adapters")["adapters"] if one["name"] == "on")["notes"]
        assert "moved by hand" in notes["begin"]
        found = load_adapter(folder / "run" / "adapters" / "on", made.encoder)
        assert not (folder / "run" / "adapters" / "on" / "begin").exists()
        early = next(one for one in found.sets if one.place.labels == ["S2B1H3"])
        d = early.axes.shape[-1]
        assert early.matrix()[0].trace() / d == pytest.approx(-2, abs=1)
        both = ({label for one in sets for label in one.place.labels} for sets in (made.residual.sets, found.sets))
        assert next(both) <= next(both)
        assert server.ask("DELETE", f"{API}/adapters/on").status == 204

    def test_two_trainings_queue_and_a_cancelled_one_leaves_nothing(self, server, folder):
        before = sorted(p.name for p in (folder / "run" / "adapters").iterdir()) if (folder / "run" / "adapters").exists() else []
        first = server.post(f"{API}/jobs", {"name": "first", "epochs": 200})
        second = server.post(f"{API}/jobs", {"name": "second", "epochs": 200})
        assert server.ask("POST", f"{API}/jobs", {"name": "second"}).status == 409
        server.job(first["id"], ("running",))
        assert server.get(f"/api/jobs/{second['id']}")["state"] == "queued"
        assert server.ask("DELETE", f"/api/jobs/{first['id']}").json["state"] == "cancelled"
        server.job(second["id"], ("running",))
        assert server.ask("DELETE", f"/api/jobs/{second['id']}").json["state"] == "cancelled"
        assert server.ask("DELETE", f"/api/jobs/{second['id']}").json["state"] == "cancelled"
        after = sorted(p.name for p in (folder / "run" / "adapters").iterdir()) if (folder / "run" / "adapters").exists() else []
        assert after == before
        assert not list((folder / ".drafts").iterdir())

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ({"name": "x", "dataset": "none"}, 422), ({"name": "x", "method": "evil"}, 422), ({"name": "x", "units": "S9"}, 422),
            ({"name": "../x"}, 422), ({"name": "x", "epochs": 0}, 422), ({"name": "adapter", "replace": True}, 409),
        ],
    )  # fmt: skip
    def test_trainings_that_cannot_be_are_refused_at_once(self, server, body, status):
        assert server.ask("POST", f"{API}/jobs", body).status == status

    def test_a_label_can_be_taken_back(self, server):
        server.post(f"{API}/datasets/back/labels", {"row": 1, "label": "one"})
        assert server.post(f"{API}/datasets/back/labels", {"row": 1, "label": None})["clips"] == 0
        assert server.ask("POST", f"{API}/datasets/back/labels", {"row": 1, "label": None}).status == 404
        assert server.ask("DELETE", f"{API}/datasets/back").status == 204
        assert server.ask("GET", f"{API}/datasets/back").status == 404


class TestWords:
    def test_steering_gives_a_setting(self, server, sound):
        answer = server.post(f"{API}/steer", {"more": ["bell"], "less": ["rain"], "controls": 0})
        sides = {row["concept"]: row["side"] for row in answer["concepts"]}
        assert (sides["bell"], sides["rain"]) == ("more", "less")
        gain = {row["concept"]: row["gain"] for row in answer["concepts"]}
        assert gain["bell"] > gain["rain"]
        setting = {"adapter": answer["adapter"]}
        scores = server.post(f"{API}/sounds/{sound['sound']}/scores", {"texts": ["bell"], "setting": setting})
        assert scores["after"]["texts"] != scores["before"]["texts"]
        assert server.post(f"{API}/adapters", {"name": "steered", "setting": setting})["name"] == "steered"
        assert answer["after"]["accuracy"] == server.post(f"{API}/equalise", {"adapter": "steered"})["whole"]["accuracy"]

    def test_an_explanation_can_be_heard(self, server, sound):
        answer = server.post(f"{API}/sounds/{sound['sound']}/explain", {"class": 1})

        def heard(name: str) -> np.ndarray:
            return soundfile.read(io.BytesIO(base64.b64decode(answer[name].partition(",")[2])))[0]

        assert heard("kept") + heard("removed") == pytest.approx(heard("original"), abs=2e-4)
        assert answer["concepts"][0]["weight"] > 0
        assert answer["concepts"][0]["units"]

    def test_steering_towards_nothing_is_refused(self, server):
        assert server.ask("POST", f"{API}/steer", {}).status == 422
