"""ResiDual is a PEFT method like any other: wrapped, trained, saved, reloaded, switched, merged; and its folders are ours."""

import copy
import enum
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from peft import PeftModel, PeftType, get_peft_model
from peft.mapping import PEFT_TYPE_TO_TUNER_MAPPING
from safetensors.torch import load_file, save_file
from transformers import ClapModel, WhisperConfig, WhisperModel

from residual_audio.adaptation.adapter import AdapterError, load_adapter, save_adapter
from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.fold import fold
from residual_audio.adaptation.forms import FORMS
from residual_audio.adaptation.gain import TENSORS, ResiDual, Shape, gain_set
from residual_audio.adaptation.objective import Objective
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.streams import cache_streams, place_bases
from residual_audio.adaptation.train import Lesson, Training, train_gains
from residual_audio.audio import Waveform
from residual_audio.models.copies import copied
from residual_audio.options import OptionError
from residual_audio.peft import ResiDualConfig, ResiDualLayer, ResiDualModel, fit_axes
from residual_audio.peft.register import extended, register
from tests.helpers.gains import made_up
from tests.helpers.layouts import noise, open_layout

# One per place that can be changed; a stage is one basis for several layers.
SELECTIONS = {
    "laion_dir": "S2B0H1 S3 heads S1 stages S3B1 mlps embedding",
    "msclap_path": "S3 heads S2 blocks",
    "whisper_dir": "heads mlps",
}


@pytest.fixture(params=SELECTIONS)
def layout(request):
    return request.param


@pytest.fixture
def encoder(layout, request):
    return open_layout(layout, request)


@pytest.fixture
def residual(encoder, layout):
    return made_up(encoder, SELECTIONS[layout], "drop", kept=3, form="mixing")


def around(encoder):
    """A second encoder of the same weights whose module may be wrapped."""
    return copied(encoder)


def outputs(encoder, module=None):
    features = noise(encoder, clips=1)
    ran = copy.copy(encoder)
    if module is not None:
        ran.module = module
    with torch.inference_mode():
        return ran.encode(features, torch.zeros(1, dtype=torch.bool))


def close(first, second) -> bool:
    """To rounding: where a tensor lies in memory changes the last bit of products."""
    return bool((first - second).abs().max() < 1e-6 * max(1.0, second.abs().max()))


def same(first: ResiDual, second: ResiDual) -> bool:
    rules = [("place", "form", "truncated", "tau")] * len(first.sets)
    return first.mean == second.mean and all(
        all(getattr(a, r) == getattr(b, r) for r in rule) and all(torch.equal(getattr(a, t), getattr(b, t)) for t in TENSORS)
        for a, b, rule in zip(first.sets, second.sets, rules, strict=True)
    )


def test_the_type_is_added_once():
    class Kind(str, enum.Enum):  # noqa: UP042 — as PEFT's is
        OLD = "OLD"

    added = extended(Kind, "NEW")
    assert extended(Kind, "NEW") is added is Kind.NEW is Kind["NEW"] is Kind("NEW")
    assert [*Kind] == [Kind.OLD, added]
    assert (added.name, added.value, str.upper(added)) == ("NEW", "NEW", "NEW")
    assert {added: 1}["NEW"] == 1
    assert [*PeftType].count("RESIDUAL") == 1
    register(sys.modules["peft"], ResiDualConfig, ResiDualModel)  # again: neither an error nor a second entry
    assert PEFT_TYPE_TO_TUNER_MAPPING[PeftType.RESIDUAL] is ResiDualModel
    assert [*PeftType].count("RESIDUAL") == 1


def test_without_peft_the_error_names_the_extra():
    code = "import sys; sys.modules['peft'] = None; import residual_audio.peft"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'residual-audio[peft]'" in failed.stderr


def test_our_folder_opens_in_peft_and_comes_back(encoder, residual, tmp_path):
    """The same outputs as attached; written by PEFT and read by us, the same adapter to the last bit; read by PEFT, the same outputs."""
    save_adapter(tmp_path / "ours", encoder, residual)
    plain = outputs(encoder)
    wrapped = PeftModel.from_pretrained(around(encoder).module, tmp_path / "ours")
    with torch.inference_mode(), attached(encoder, residual.to(encoder.device, encoder.dtype)):
        ours = outputs(encoder)
    live = outputs(encoder, wrapped.base_model.model)
    assert (live - plain).abs().max() > 1e-2 * plain.abs().max(), "the adapter does nothing, so the test proves nothing"
    assert (live - ours).abs().max() < 1e-5 * ours.abs().max()
    wrapped.save_pretrained(tmp_path / "theirs")
    assert same(load_adapter(tmp_path / "theirs", encoder), residual)
    again = PeftModel.from_pretrained(around(encoder).module, tmp_path / "theirs")
    assert close(outputs(encoder, again.base_model.model), live)


def test_merging_is_folding(encoder, residual, tmp_path):
    """The plain model's keys and types, our folded weights, and the live outputs."""
    save_adapter(tmp_path / "ours", encoder, residual)
    module = around(encoder).module
    wrapped = PeftModel.from_pretrained(module, tmp_path / "ours")
    live = outputs(encoder, wrapped.base_model.model)
    merged = wrapped.merge_and_unload(safe_merge=True)
    assert type(merged) is type(encoder.module)
    assert not any(isinstance(part, ResiDualLayer) for part in merged.modules())
    folded, found = fold(encoder, residual).module.state_dict(), merged.state_dict()
    assert folded.keys() == found.keys()
    assert max((folded[k].float() - found[k].float()).abs().max() for k in folded) < 1e-6
    assert (outputs(encoder, merged) - live).abs().max() < 1e-5 * live.abs().max()


def test_adapters_are_switched_merged_and_taken_out(encoder, layout, tmp_path):
    """Off: the plain model. Two: one after the other, merged or not. Unmerged: the weights to the last bit. Deleted: gone."""
    plain = outputs(encoder)
    for seed in (0, 1):
        save_adapter(tmp_path / str(seed), encoder, made_up(encoder, SELECTIONS[layout], "keep", seed=seed))
    model = PeftModel.from_pretrained(around(encoder).module, tmp_path / "0", adapter_name="one")
    model.load_adapter(tmp_path / "1", "two")
    inside = model.base_model.model
    one = outputs(encoder, inside)
    model.set_adapter("two")
    two = outputs(encoder, inside)
    assert (one - two).abs().max() > 1e-3 * one.abs().max()
    with model.disable_adapter():
        assert close(outputs(encoder, inside), plain)
    model.base_model.set_adapter(["one", "two"])
    both = outputs(encoder, inside)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model.base_model.merge_adapter()
    assert (outputs(encoder, inside) - both).abs().max() < 1e-5 * both.abs().max()
    with model.disable_adapter():
        assert close(outputs(encoder, inside), plain)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    model.delete_adapter("two")
    model.set_adapter("one")
    assert close(outputs(encoder, inside), one)
    assert not any("two" in key for key in model.state_dict())


def test_a_plain_model_is_wrapped_fitted_saved_and_read(laion_dir, tmp_path):
    """From nothing but transformers: audio heads and MLPs only, the identity at the start, principal axes as ours, and our folder."""
    clap = ClapModel.from_pretrained(laion_dir).eval()
    encoder = open_layout("laion_dir", type("R", (), {"getfixturevalue": lambda self, name: laion_dir})())
    clips = {"input_features": noise(encoder, clips=2), "is_longer": torch.zeros(2, 1, dtype=torch.bool)}
    plain = clap.get_audio_features(**clips).pooler_output
    config = ResiDualConfig(
        target_modules=["attention.output.dense"], write_modules=r".*layers\.3\.blocks\.1\.output\.dense", form="axes", kept=4
    )
    model = get_peft_model(clap, config)
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    assert names
    assert all("audio_model" in name and ".residual_" in name for name in names)
    assert len(names) == 8 + 1
    with fit_axes(model):
        for row in (0, 1):
            model.get_audio_features(**{k: v[row : row + 1] for k, v in clips.items()})
    assert (model.get_audio_features(**clips).pooler_output - plain).abs().max() < 1e-6
    model.save_pretrained(tmp_path / "theirs")
    read = load_adapter(tmp_path / "theirs", encoder)
    assert [s.place.label for s in read.sets][-3:] == ["S3B0", "S3B1", "S3B1M"]
    places = [s.place for s in read.sets]
    sources = [Waveform(x, encoder.policy.sample_rate) for x in waves(encoder, 2)]
    streams = cache_streams(encoder, sources, 0)
    for ours, theirs in zip(place_bases(streams, np.arange(2), places, "token"), read.sets, strict=True):
        kept = ours.axes[:, :4]
        # Axes are compared by the variance that they explain: nearly equal ones may turn into each other.
        assert torch.allclose(ours.variance[:, :4], theirs.variance, rtol=1e-3, atol=1e-6)
        assert torch.allclose(ours.mean, theirs.mean, atol=1e-4)
        assert (kept[:, 0] * theirs.axes[:, 0]).sum(-1).abs().min() > 0.99


def waves(encoder, clips):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(encoder.policy.samples).astype(np.float32) * 0.1 * (i + 1) for i in range(clips)]


@pytest.mark.parametrize("form", ["gains", "mixing"])
def test_plain_pytorch_learns_what_we_learn(encoder, form, tmp_path):
    """Four steps of Adam on the same clips, loss and start, in float64: the same numbers."""
    places = choose_places(encoder.units, "S3 heads" if len(encoder.units.d_head) > 1 else "S0B2 heads")
    clips = [Waveform(wave, encoder.policy.sample_rate) for wave in waves(encoder, 4)]
    streams = cache_streams(encoder, clips, None)
    encoder.module.double()
    streams = replace(streams, values=streams.values.astype(np.float64))
    bases = place_bases(streams, np.arange(4), places, "token")
    start = ResiDual(tuple(gain_set(p, b, Shape(form=form)) for p, b in zip(places, bases, strict=True)))
    directions = F.normalize(torch.randn(2, encoder.dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64), dim=-1)
    targets = torch.tensor([0, 1, 0, 1])
    how = Training(epochs=4, batch_size=4, optimiser="adam", rate=0.05, decay=0.0)
    lesson = Lesson(np.arange(4), np.arange(0), targets, 2, Objective(directions, False, 10.0))
    ours = train_gains(start, streams, lesson, how).residual

    save_adapter(tmp_path / "start", encoder, start)
    model = PeftModel.from_pretrained(around(encoder).module, tmp_path / "start", is_trainable=True)
    learned = [p for p in model.parameters() if p.requires_grad]
    assert sum(p.numel() for p in learned) == start.trained
    ran = copy.copy(encoder)
    ran.module = model.base_model.model
    rate = 0.05 * FORMS[form].scale
    optimiser = torch.optim.Adam(learned, lr=rate)
    features, longer = torch.from_numpy(streams.values), torch.zeros(4, dtype=torch.bool)
    for _ in range(4):
        optimiser.zero_grad()
        F.cross_entropy(10.0 * F.normalize(ran.encode(features, longer), dim=-1) @ directions.T, targets).backward()
        optimiser.step()
    assert all(p.grad is None for p in encoder.module.parameters())
    model.save_pretrained(tmp_path / "learned")
    theirs = load_adapter(tmp_path / "learned", encoder)
    for a, b, first in zip(ours.sets, theirs.sets, start.sets, strict=True):
        assert (a.values - first.values).abs().max() > 0.5 * rate, "nothing was learned, so the test proves nothing"
        assert (a.values - b.values).abs().max() < 1e-8


def test_a_whole_whisper_takes_an_adapter_of_its_encoder(whisper_dir, request, tmp_path):
    """Names are found below ``encoder``; the decoder, which has layers of the same names, stays as it is."""
    encoder = open_layout("whisper_dir", request)
    residual = made_up(encoder, "heads", "keep")
    save_adapter(tmp_path / "ours", encoder, residual)
    sizes = {"decoder_layers": 3, "decoder_attention_heads": 4, "decoder_ffn_dim": 64}
    whole = WhisperModel(WhisperConfig.from_pretrained(whisper_dir, **sizes))
    whole.encoder.load_state_dict(encoder.module.state_dict())
    model = PeftModel.from_pretrained(whole.eval(), tmp_path / "ours")
    assert all(name.startswith("encoder.layers.") for name in model.base_model.targeted_module_names)
    features = noise(encoder, clips=1)[:, 0].transpose(1, 2)
    with torch.inference_mode(), attached(encoder, residual.to(encoder.device, encoder.dtype)):
        ours = outputs(encoder)
        assert torch.allclose(model.base_model.model.encoder(features).last_hidden_state.mean(1), ours, atol=1e-5)
    model.save_pretrained(tmp_path / "theirs")
    assert same(load_adapter(tmp_path / "theirs", encoder), residual)
    model.add_adapter("second", ResiDualConfig())  # found by itself, on layers that are wrapped already
    assert [place["modules"] for place in model.peft_config["second"].places] == [
        [f"encoder.layers.{i}.self_attn.out_proj"] for i in range(3)
    ]


def test_what_makes_no_sense_is_refused(laion_dir, msclap_path, request, tmp_path):
    clap = ClapModel.from_pretrained(laion_dir)
    with pytest.raises(OptionError, match="form"):
        ResiDualConfig(form="louder")
    with pytest.raises(AdapterError, match="mean"):
        ResiDualConfig(mean="median")
    with pytest.raises(AdapterError, match="strength"):
        ResiDualConfig(tau=2.0)
    with pytest.raises(AdapterError, match="no heads of d_head = 7"):
        get_peft_model(copy.deepcopy(clap), ResiDualConfig(d_head=7))
    with pytest.raises(AdapterError, match="outside of the text tower"):
        get_peft_model(copy.deepcopy(clap), ResiDualConfig(target_modules=r"text_model\..*attention\.output\.dense"))
    encoder = open_layout("laion_dir", request)
    save_adapter(tmp_path / "good", encoder, made_up(encoder, "S3 heads", "keep"))
    for name, change in {
        "nan": lambda t: t["0.values"].fill_(float("nan")),
        "skew": lambda t: t["0.axes"].mul_(2),
        "lost": lambda t: t.pop("0.mean"),
    }.items():
        shutil.copytree(tmp_path / "good", tmp_path / name)
        tensors = load_file(tmp_path / name / "adapter_model.safetensors")
        change(tensors)
        save_file(tensors, tmp_path / name / "adapter_model.safetensors")
        with pytest.raises(AdapterError):
            PeftModel.from_pretrained(copy.deepcopy(clap), tmp_path / name)
    with pytest.raises(AdapterError, match="does not have"):  # another model
        PeftModel.from_pretrained(copy.deepcopy(open_layout("whisper_dir", request).module), tmp_path / "good")
    other = open_layout("msclap_path", request)
    save_adapter(tmp_path / "embedding", other, made_up(other, "embedding", "drop"))
    with pytest.raises(AdapterError, match=r"ra\.fold"):
        PeftModel.from_pretrained(other.module, tmp_path / "embedding")
    config = json.loads((tmp_path / "good" / "adapter_config.json").read_text())
    for place in config["places"]:
        del place["modules"]
    (tmp_path / "good" / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(AdapterError, match="earlier version"):
        PeftModel.from_pretrained(copy.deepcopy(clap), tmp_path / "good")


def test_an_adapter_for_other_layers_is_not_ours(laion_dir, request, tmp_path):
    """PEFT may wrap any linear layer; where we have no unit, the folder is refused."""
    model = get_peft_model(ClapModel.from_pretrained(laion_dir), ResiDualConfig(write_modules=["audio_projection.linear1"]))
    model.save_pretrained(tmp_path)
    with pytest.raises(AdapterError, match="has no writes"):
        load_adapter(tmp_path, open_layout("laion_dir", request))


def test_fitting_needs_passes(laion_dir):
    model = get_peft_model(ClapModel.from_pretrained(laion_dir), ResiDualConfig())
    with pytest.raises(AdapterError, match="nothing passed"), fit_axes(model):
        pass
    with pytest.raises(AdapterError, match="no layer"), fit_axes(model, "other"):
        pass
