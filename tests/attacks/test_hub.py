"""What comes from a hub is pinned and recorded: model, tokenizer and adapter of one commit, whatever is uploaded afterwards."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import residual_audio
from residual_audio.adaptation.adapter import CARD, CONFIG, WEIGHTS, save_adapter
from residual_audio.models import load_encoder
from tests.helpers.gains import made_up
from tests.helpers.hub import COMMIT, running_hub

EARLIER, GAINS = "f" * 40, "e" * 40
PROGRAM = """
import json, sys, residual_audio as ra
from residual_audio.extraction.reopen import loading_record
said = {}
for name in ("me/gains@" + sys.argv[1], "me/gains"):  # the latest comes last
    encoder = ra.load_encoder(name)
    said[name] = {"revision": encoder.revision, "record": loading_record(encoder), "text": encoder.embed_text(["a bell"])[0].tolist()}
    if "@" in name:
        said["adapter"] = ra.load_adapter("me/gains@" + sys.argv[2], encoder).sets[0].values.sum().item()
print(json.dumps(said))
"""


def in_fresh_process(program, hub, home, *words):
    """The address of the hub is read when its client is imported."""
    env = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run([sys.executable, "-c", program, *words], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_commit_is_what_is_opened_and_recorded(tmp_path):
    """The latest upload has a tokenizer that spells otherwise and no adapter that fits: the pinned one does not see it."""
    tiny = load_encoder("tiny")
    home = Path(residual_audio.__file__).parent / "models" / "tiny"
    files = {p.name: p.read_bytes() for p in home.iterdir() if p.suffix in (".json", ".safetensors") and p.name != "training.json"}
    other = json.loads(files["tokenizer.json"])
    words = list(other["model"]["vocab"])
    other["model"]["vocab"] = dict(zip(words, [*range(5), *reversed(range(5, len(words)))], strict=True))
    # An adapter for the model as it is on the hub: its revision is the commit.
    tiny.revision = EARLIER
    folder = save_adapter(tmp_path / "adapter", tiny, residual := made_up(tiny, "S3B0 heads", "keep"))
    with running_hub() as hub:
        hub.earlier[EARLIER] = files
        hub.earlier[GAINS] = {name: (folder / name).read_bytes() for name in (CONFIG, WEIGHTS, CARD)}
        hub.files["me/gains"] = files | {"tokenizer.json": json.dumps(other).encode()}
        said = json.loads(in_fresh_process(PROGRAM, hub, tmp_path / "home", EARLIER, GAINS).splitlines()[-1])
        asked = [path for path in hub.asked if "/resolve/" in path]
    pinned, latest = said[f"me/gains@{EARLIER}"], said["me/gains"]
    assert pinned["revision"] == EARLIER
    assert latest["revision"] == COMMIT
    assert pinned["record"]["source"] == f"me/gains@{EARLIER}"
    assert max(abs(a - b) for a, b in zip(pinned["text"], tiny.embed_text(["a bell"])[0].tolist(), strict=True)) < 1e-4
    assert max(abs(a - b) for a, b in zip(latest["text"], pinned["text"], strict=True)) > 1e-3, "the tokenizers do differ"
    assert abs(said["adapter"] - residual.sets[0].values.sum().item()) < 1e-4
    first = asked[: next(i for i, path in enumerate(asked) if "/main/" in path or COMMIT in path)]
    assert {Path(p).name for p in first} >= {"config.json", "model.safetensors", "tokenizer.json", CONFIG, WEIGHTS}
    assert all(EARLIER in path or GAINS in path for path in first)
    # After the model is open at a commit, its tokenizer is asked for at that commit and not at main.
    late = [path for path in asked if path.endswith("tokenizer.json")]
    assert all(EARLIER in path or COMMIT in path for path in late), late
    shutil.rmtree(tmp_path / "home")
