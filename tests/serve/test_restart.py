"""Kills, ends and starts: what was told as saved is there, what was not is gone."""

import signal
import subprocess
import sys
import time

import pytest

from residual_audio.serve.folder import Folder
from residual_audio.serve.problems import ServeError
from tests.helpers.serving import Server

API = "/api/run"


def test_a_kill_keeps_adapters_and_labels_and_nothing_half_made(made, tmp_path):
    folder, words = tmp_path / "live", [made.folder, "--clips", 8, "--words", 0, "--folder", tmp_path / "live"]
    wave = next(c for c in made.dataset.clips if c.id != "broken").source.read_bytes()
    server = Server(*words, cache=tmp_path)
    server.post(f"{API}/adapters", {"name": "kept", "setting": {"gains": {"S3B0H1": 0.25}}})
    sound = server.post(f"{API}/sounds", raw=wave)["sound"]
    server.post(f"{API}/datasets/mine/labels", {"sound": sound, "label": "one"})
    server.post(f"{API}/datasets/mine/labels", {"row": 2, "label": "two"})
    before = server.get(f"{API}/datasets/mine"), server.post(f"{API}/equalise", {"adapter": "kept"})["whole"]
    job = server.post(f"{API}/jobs", {"name": "unfinished", "epochs": 200})
    server.job(job["id"], ("running",))
    deadline = time.monotonic() + 20
    while not list((folder / ".drafts").iterdir()):  # it is made just after the training is said to run
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = server.children
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    end = time.monotonic() + 60
    while (alive := [pid for pid in children if running(pid)]) and time.monotonic() < end:
        time.sleep(0.1)
    assert not alive, "what it started ends with it"

    server = Server(*words, "--token", cache=tmp_path)
    token = {"Authorization": f"Bearer {server.url.partition('token=')[2]}"}
    assert server.ask("GET", "/api").status == 401
    assert [one["name"] for one in server.ask("GET", f"{API}/adapters", **token).json["adapters"]] == ["kept"]
    assert server.ask("GET", f"{API}/datasets/mine", **token).json == before[0]
    assert server.ask("POST", f"{API}/equalise", {"adapter": "kept"}, **token).json["whole"]["margin"] == pytest.approx(before[1]["margin"])
    assert server.ask("GET", "/api/jobs", **token).json == {"jobs": []}
    assert not (folder / ".drafts").exists()

    refused = subprocess.run(
        [sys.executable, "-c", "from residual_audio.cli import main; main()", "serve", made.folder, "--folder", folder, "--port", "0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "another server writes to" in " ".join(refused.stderr.split())
    assert server.end() == 0


def running(pid: int) -> bool:
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TestTheFolder:
    def test_one_server_at_a_time(self, tmp_path):
        with Folder(tmp_path / "live").held(), pytest.raises(ServeError, match="another server"), Folder(tmp_path / "live").held():
            pass
        with Folder(tmp_path / "live").held():
            pass

    def test_what_was_half_made_is_cleared_away_and_links_are_not_followed(self, tmp_path):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").write_text("x")
        home = tmp_path / "live"
        home.mkdir()
        (home / ".drafts").symlink_to(outside)
        with Folder(home).held():
            assert not (home / ".drafts").is_symlink()
        assert (outside / "precious").exists()

    def test_a_lock_that_is_a_link_is_not_opened(self, tmp_path):
        (tmp_path / "target").write_text("x")
        (tmp_path / "live").mkdir()
        (tmp_path / "live" / ".lock").symlink_to(tmp_path / "target")
        with pytest.raises(OSError, match=r"[Ll]evels|loop"), Folder(tmp_path / "live").held():
            pass


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nonsense"], "unknown model"),
        (["tiny", "--limit", "3"], "--limit is of --data"),
        (["tiny", "--host", "192.0.2.1"], "cannot be listened to"),
        (["tiny", "--max-upload", "0"], "--max-upload"),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(command, capsys, tmp_path, words, told):
    assert command("serve", *words, "--folder", tmp_path / "live") == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_refused_server_leaves_the_drafts_alone(tmp_path):
    """They belong to the one that runs; and what stood aside when a server was killed comes back."""
    from residual_audio.serve.folder import Folder
    from residual_audio.serve.problems import ServeError

    home = Folder(tmp_path / "live")
    with home.held(), home.draft() as draft:
        (draft / "half").write_text("made")
        with pytest.raises(ServeError, match="another server writes"), Folder(tmp_path / "live").held():
            pass
        assert (draft / "half").read_text() == "made"
    place = home.of("tiny", "adapters", "mine")
    place.mkdir(parents=True)
    (place / "old").touch()
    place.replace(place.with_name(".mine.aside"))  # killed here, before the new one took its place
    with home.held():
        assert (place / "old").exists()
        with home.draft() as draft:
            (draft / "adapter").mkdir()
            (draft / "adapter" / "new").touch()
            home.put(draft / "adapter", place)
        assert [p.name for p in place.iterdir()] == ["new"]
        assert [p.name for p in place.parent.iterdir()] == ["mine"]
