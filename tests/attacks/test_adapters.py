"""An adapter is sound, or it is neither used nor saved; a kill leaves the old one or the new one, and nothing else is touched."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

from residual_audio.adaptation import adapter
from residual_audio.adaptation.adapter import AdapterError, load_adapter, save_adapter
from residual_audio.adaptation.fold import fold
from residual_audio.models import EncoderError, load_encoder
from tests.helpers.gains import made_up


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def residual(tiny):
    return made_up(tiny, "S3B0 heads", "keep")


@pytest.fixture(scope="module")
def saved(tiny, residual, tmp_path_factory):
    return save_adapter(tmp_path_factory.mktemp("a") / "adapter", tiny, residual)


@pytest.fixture
def folder(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "adapter")
    return tmp_path / "adapter"


def change(folder: Path, config=lambda c: None, tensors=lambda t: None) -> None:
    """Both files as somebody could have made them, digest and all."""
    arrays = load_file(folder / adapter.WEIGHTS)
    tensors(arrays)
    save_file(arrays, folder / adapter.WEIGHTS)
    record = json.loads((folder / adapter.CONFIG).read_text())
    record[adapter.DIGEST] = adapter._digest(folder / adapter.WEIGHTS)
    config(record)
    (folder / adapter.CONFIG).write_text(json.dumps(record))


CONFIGS = {
    "no places": lambda c: c.pop("places"),
    "no base": lambda c: c.update(base=[]),
    "an unknown mean": lambda c: c.update(mean="median"),
    "an unknown form": lambda c: c["places"][0].update(form="magic"),
    "an unknown kind": lambda c: c["places"][0].update(kind="tails"),
    "a block that is not there": lambda c: c["places"][0].update(blocks=[[9, 9]]),
    "a head that is not there": lambda c: c["places"][0].update(heads=[10**6] * len(c["places"][0]["heads"])),
    "words for numbers": lambda c: c["places"][0].update(heads=["x"]),
    "a strength of 7": lambda c: c["places"][0].update(tau=7.0),
    "a place too many": lambda c: c["places"].append(c["places"][0]),
}
TENSORS = {
    "NaN": lambda t: t["0.values"].view(-1)[:1].fill_(float("nan")),
    "infinite": lambda t: t["0.mean"].view(-1)[:1].fill_(float("inf")),
    "no values": lambda t: t.pop("0.values"),
    "surplus": lambda t: t.update(extra=torch.zeros(1)),
    "other shapes": lambda t: t.update({"0.mean": torch.zeros(2, 3)}),
    "axes that are not orthonormal": lambda t: t["0.axes"].mul_(1.1),
}


@pytest.mark.parametrize("what", CONFIGS)
def test_a_config_that_makes_no_sense_is_refused(what, folder, tiny):
    change(folder, config=CONFIGS[what])
    with pytest.raises(AdapterError, match=r"adapter"):
        load_adapter(folder, tiny)


@pytest.mark.parametrize("what", TENSORS)
def test_tensors_that_make_no_sense_are_refused(what, folder, tiny):
    change(folder, tensors=TENSORS[what])
    with pytest.raises(AdapterError, match=r"adapter"):
        load_adapter(folder, tiny)


@pytest.mark.parametrize("text", ["", "[]", '{"peft_type": "RESIDUAL"}', "{", "null"])
def test_a_config_that_is_none_is_refused(text, folder, tiny):
    (folder / adapter.CONFIG).write_text(text)
    with pytest.raises(AdapterError):
        load_adapter(folder, tiny)


def test_weights_that_were_damaged_or_swapped_are_refused(folder, tiny):
    content = bytearray((folder / adapter.WEIGHTS).read_bytes())
    content[-3] ^= 1
    (folder / adapter.WEIGHTS).write_bytes(content)
    with pytest.raises(AdapterError, match="damaged or replaced"):
        load_adapter(folder, tiny)


def test_what_is_no_number_is_never_saved(tiny, residual, tmp_path):
    broken = replace(residual.sets[0], values=residual.sets[0].values * float("nan"))
    with pytest.raises(AdapterError, match="NaN"):
        save_adapter(tmp_path / "a", tiny, replace(residual, sets=(broken,)))
    assert not (tmp_path / "a").exists()
    with pytest.raises(EncoderError, match="NaN"):
        fold(tiny, replace(residual, sets=(broken,))).save(tmp_path / "f")
    assert not list(tmp_path.iterdir())


def test_another_adapter_is_replaced_only_when_asked_and_nothing_else_goes(folder, tiny, residual, command, capsys):
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(AdapterError, match="holds an adapter already"):
        save_adapter(folder, tiny, residual)
    save_adapter(folder, tiny, residual, replace=True)
    assert (folder / "thesis.tex").read_text() == "precious"
    assert sorted(p.name for p in folder.iterdir()) == sorted([adapter.CONFIG, adapter.WEIGHTS, adapter.CARD, "thesis.tex"])
    assert command("adapt", "tiny", "synthetic-voice", "--out", folder) == 2
    assert "holds an adapter already" in capsys.readouterr().err


CALLS = ((os, "link"), (os, "replace"), (os, "fsync"), (Path, "replace"), (Path, "unlink"), (Path, "open"))


def killed_at(step: int, work) -> int:
    """Run ``work`` in a child that kills itself at its ``step``-th call on files; the child's status, 0 where it came to its end."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    left = step

    def counted(call):
        def wrapped(*args, **named):
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **named)

        return wrapped

    for place, name in CALLS:
        setattr(place, name, counted(getattr(place, name)))
    work()
    os._exit(0)


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_one(folder, tiny, residual):
    """A child that replaces the adapter is killed before each of its system calls on files in turn."""
    changed = replace(residual, sets=tuple(replace(s, values=s.values + 1) for s in residual.sets))
    old, new = residual.sets[0].values, changed.sets[0].values
    seen, step, status = set(), 0, 1
    while status:
        step += 1
        status = killed_at(step, lambda: save_adapter(folder, tiny, changed, replace=True))
        values = load_adapter(folder, tiny).sets[0].values
        assert torch.equal(values, old) or torch.equal(values, new), step
        seen.add(torch.equal(values, new))
        if status:
            save_adapter(folder, tiny, residual, replace=True)
    assert seen == {True, False}
    assert step > 8


def test_names_in_a_card_are_text(tiny, residual, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "name", 'x"\ntags: [evil]\n# heading `code` <script>')
    card = adapter.adapter_card(tiny, residual)
    front = ModelCard(card).data.to_dict()
    assert "evil" not in front["tags"]
    assert "base_model" not in front, "no repository has that name"
    assert "<script>" not in card.split("---")[2].split("```")[0]
    compiled = card.split("```python\n")[1].split("```")[0]
    compile(compiled, "card", "exec")


def test_an_adapter_of_another_window_says_so(tmp_path, whisper_dir):
    encoder = load_encoder(whisper_dir, seconds=2.5)
    save_adapter(tmp_path / "a", encoder, made_up(encoder, "heads", "keep"))
    with pytest.raises(AdapterError, match="other --seconds"):
        load_adapter(tmp_path / "a", load_encoder(whisper_dir))
