"""bf16 only where a child has shown that it can be multiplied, and fast; everything that judges stays float32."""

import json
from subprocess import TimeoutExpired

import numpy as np
import pytest
import torch

from residual_audio.adaptation.gain import ResiDual, Shape, gain_set
from residual_audio.adaptation.learner import GainLearner
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.streams import cache_streams, place_bases
from residual_audio.models import load_encoder, precision
from residual_audio.models.precision import PrecisionError, bf16_ratio, chosen_precision, tried

CPU = torch.device("cpu")
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
KILLED = DIES.replace("SIGILL", "SIGKILL")


@pytest.mark.parametrize("trial", [DIES, "print('no number')", "import sys; sys.exit(3)", KILLED])
def test_a_child_that_dies_means_no_bf16(trial, tmp_path, monkeypatch):
    """As on a CPU where such a product is an illegal instruction: auto falls back, bf16 is refused, this process lives.

    Only that end is kept as an answer; a child that was killed for lack of memory is asked again.
    """
    monkeypatch.setattr(precision, "TRIAL", trial)
    monkeypatch.setattr(precision, "tried", lambda: tried(trial))
    monkeypatch.setattr(precision, "answers", lambda: tmp_path / "bf16.json")
    assert chosen_precision("auto", CPU) == "float32"
    with pytest.raises(PrecisionError, match=r"no bf16 on .*; use --precision float32 or auto"):
        chosen_precision("bf16", CPU)
    assert chosen_precision("float32", CPU) == "float32"
    assert (tmp_path / "bf16.json").exists() == (trial == DIES)


def test_the_answer_is_kept_per_cpu(tmp_path, monkeypatch):
    """Asked once; another CPU is asked for itself; an unreadable memory is made anew, and a home that cannot be written costs a trial."""
    asked, kept = [], tmp_path / "deep" / "bf16.json"
    monkeypatch.setattr(precision, "tried", lambda: asked.append(1) or 0.5)
    assert bf16_ratio(kept) == bf16_ratio(kept) == 0.5
    assert len(asked) == 1
    assert next(iter(json.loads(kept.read_text()))).startswith(precision.cpu_name())
    monkeypatch.setattr(precision, "cpu_name", lambda: "another")
    assert bf16_ratio(kept) == 0.5
    assert len(asked) == 2
    kept.write_text("[]")
    assert bf16_ratio(kept) == 0.5
    (tmp_path / "file").touch()
    assert bf16_ratio(tmp_path / "file" / "below" / "bf16.json") == 0.5
    assert len(asked) == 4

    def busy():
        raise TimeoutExpired("python", 60)

    monkeypatch.setattr(precision, "tried", busy)
    assert bf16_ratio(tmp_path / "busy.json") is None
    assert not (tmp_path / "busy.json").exists(), "asked again next time"
    monkeypatch.setattr(precision, "answers", lambda: tmp_path / "busy.json")
    assert Recipe(precision="auto").on(CPU)["precision"] == "float32", "what is recorded is what was done"


def test_auto_wants_a_gain(tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "answers", lambda: tmp_path / "bf16.json")
    for ratio, expected in ((0.5, "bf16"), (1.3, "float32")):
        monkeypatch.setattr(precision, "bf16_ratio", lambda ratio=ratio: ratio)
        assert chosen_precision("auto", CPU) == expected
        assert chosen_precision("bf16", CPU) == "bf16", "slow, but asked for"


def test_learning_in_bf16_is_learning_in_float32_up_to_rounding(sound_files):
    """Gradients agree to a few per cent; embeddings that judge are bit-identical whatever the precision of learning."""
    if bf16_ratio() is None:
        pytest.skip("this CPU has no bf16")
    encoder = load_encoder("tiny")
    streams = cache_streams(encoder, [str(path) for path in sound_files], 10)
    rows = np.arange(len(streams))
    places = choose_places(encoder.units, "S3 heads mlps")
    noise, bases = torch.Generator().manual_seed(0), place_bases(streams, rows, places, "token")
    residual = ResiDual(tuple(gain_set(p, b, Shape("mixing")) for p, b in zip(places, bases, strict=True)))
    moved = residual.with_values([s.values + 0.05 * torch.randn(s.values.shape, generator=noise) for s in residual.sets])
    goal = torch.randn(len(rows), 128, generator=torch.Generator().manual_seed(1))
    gradients, judged = {}, {}
    for kind in ("float32", "bf16"):
        learner = GainLearner(moved, streams)
        learner.precision = kind
        out = learner.forward(rows)
        assert out.dtype == torch.float32
        learner.backward(goal[:, : out.shape[1]])
        gradients[kind] = torch.cat([p.grad.flatten() for p in learner.parameters])
        judged[kind] = learner.embed(rows)
    cosine = torch.nn.functional.cosine_similarity(gradients["float32"], gradients["bf16"], dim=0)
    assert cosine > 0.995
    assert not torch.equal(gradients["float32"], gradients["bf16"]), "bf16 was not at work"
    # What says when to stop is judged as it is learned, close to what float32 says; what is tested is folded or attached anew, in float32.
    torch.testing.assert_close(judged["bf16"], judged["float32"], rtol=0.02, atol=0.02 * float(judged["float32"].abs().max()))
