"""Uploads are decoded apart from everything else, also apart from the script that serves."""

import os
import signal

import numpy as np
import pytest
import soundfile

from residual_audio.serve.decoding import Decoder
from tests.helpers.serving import Server, children_of

RATE, SECONDS = 16_000, 5
PLAIN = """
import residual_audio as ra

with open({ran!r}, "a") as file:
    file.write("once\\n")
ra.serve(["tiny"], folder={folder!r}, port=0, tell=lambda address: print(address, flush=True))
"""


@pytest.fixture(scope="module")
def wave(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "tone.wav"
    soundfile.write(path, np.sin(np.arange(RATE) * 0.1) / 2, RATE, subtype="FLOAT")
    return path.read_bytes()


@pytest.fixture
def decoder():
    opened = Decoder()
    yield opened
    opened.end()


def test_a_plain_script_serves_and_runs_once(tmp_path, wave):
    """Without ``if __name__ == "__main__"``: a process that imported it again would serve again."""
    script, ran = tmp_path / "plain.py", tmp_path / "ran"
    script.write_text(PLAIN.format(ran=str(ran), folder=str(tmp_path / "live")))
    server = Server(cache=tmp_path, script=script)
    try:
        assert server.post("/api/tiny/sounds", raw=wave)["sound"]
    finally:
        assert server.end() == 0
    assert ran.read_text() == "once\n"


def test_an_upload_comes_back_as_it_was(decoder, wave):
    found = decoder.decoded(wave, "sound", RATE, SECONDS)
    assert found == pytest.approx(np.sin(np.arange(RATE) * 0.1) / 2, abs=1e-6)


def test_a_process_that_was_killed_is_started_again(decoder, wave):
    decoder.decoded(wave, "sound", RATE, SECONDS)
    os.kill(decoder.process.pid, signal.SIGKILL)
    decoder.process.wait()
    assert len(decoder.decoded(wave, "sound", RATE, SECONDS)) == RATE


def test_it_ends_with_the_line_to_it(wave):
    decoder = Decoder()
    decoder.decoded(wave, "sound", RATE, SECONDS)
    pid = decoder.process.pid
    decoder.end()
    assert pid not in children_of(os.getpid())
    decoder.end()
