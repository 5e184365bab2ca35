"""Adapters go to a hub and come back: huggingface_hub's real client against a server on this machine."""

import os
import subprocess
import sys

import pytest

from residual_audio.adaptation.adapter import save_adapter
from residual_audio.models import load_encoder
from tests.helpers.gains import made_up
from tests.helpers.hub import running_hub

PUSH = "import sys; from residual_audio.adaptation.adapter import push_adapter; print(push_adapter(sys.argv[1], 'me/gains'))"
PULL = """
import torch, residual_audio as ra
encoder = ra.load_encoder("tiny")
print(sum(s.values.sum().item() for s in ra.load_adapter("me/gains", encoder).sets))
"""


def run(code, hub, home, *args):
    # The address of the hub is read when its client is imported: a fresh process.
    env = {
        **os.environ,
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(home),
        "HF_TOKEN": "hf_test",
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
    }
    found = subprocess.run([sys.executable, "-c", code, *args], env=env, capture_output=True, text=True)
    if found.returncode:
        pytest.fail(found.stderr[-3000:])
    return found.stdout.strip()


def test_an_adapter_goes_to_the_hub_and_comes_back(tmp_path):
    encoder = load_encoder("tiny")
    residual = made_up(encoder, "S3B1 heads", "keep")
    folder = save_adapter(tmp_path / "adapter", encoder, residual)
    (folder / "notes.txt").write_text("not part of the adapter")
    with running_hub() as hub:
        address = run(PUSH, hub, tmp_path / "a", str(folder))
        assert hub.created == ["gains"]
        assert "me/gains" in address
        assert sorted(hub.files) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
        assert hub.files["adapter_model.safetensors"] == (folder / "adapter_model.safetensors").read_bytes()
        total = float(run(PULL, hub, tmp_path / "b"))
    assert total == pytest.approx(sum(s.values.sum().item() for s in residual.sets))
