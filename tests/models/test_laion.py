"""LAION's original files, in all of their layouts, against a formula that was written from their keys, not from our mapping."""

import zipfile

import numpy as np
import pytest
import torch
from transformers import ClapFeatureExtractor, ClapModel

from residual_audio.audio import Waveform
from residual_audio.cli.checks import check_model
from residual_audio.cli.convert import convert
from residual_audio.models import EncoderError, known_models, load_encoder
from residual_audio.models.encoders.laion import FILES
from tests.helpers import laion_reference as reference
from tests.helpers.checkpoints import laion_original


@pytest.fixture(scope="module", params=reference.LAYOUTS)
def opened(request, tmp_path_factory):
    """A file of the layout with its real keys and depths, what is in it, and the encoder."""
    depths, width, fused = reference.LAYOUTS[request.param]
    path = laion_original(tmp_path_factory.mktemp("laion"), request.param, depths)
    return load_encoder(path), reference.random_state(depths, width, fused, seed=len(request.param)), depths, fused


def wave(seconds: float) -> np.ndarray:
    count = int(seconds * 48000)
    return (0.2 * np.random.default_rng(3).standard_normal(count) * np.linspace(0, 1, count)).astype(np.float32)


def encoded(encoder, samples: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, bool]:
    prepared = encoder.prepare(Waveform(samples, 48000))
    with torch.no_grad():
        return encoder.encode(prepared.features, torch.tensor([prepared.longer]))[0], prepared.features[0], prepared.longer


def test_audio_equals_the_independent_formula(opened):
    encoder, state, depths, fused = opened
    samples = wave(10)
    ours, features, _ = encoded(encoder, samples)
    if not fused:
        expected = reference.audio_embedding(state, samples, depths)
        assert features.shape == (1, 1001, 64)
    else:
        mel = torch.from_numpy(reference.log_mel(samples, 480, reference.htk_filters()))
        assert (features - mel).abs().max() < 1e-3
        expected = reference.fused_embedding(state, mel.expand(4, -1, -1), False, depths)
    assert (ours - expected).abs().max() < 1e-4 * expected.abs().max()


def test_a_long_clip_is_fused_as_in_the_formula(opened):
    encoder, state, depths, fused = opened
    ours, features, longer = encoded(encoder, wave(12))
    assert longer
    if fused:
        expected = reference.fused_embedding(state, features, True, depths)
        assert (ours - expected).abs().max() < 1e-4 * expected.abs().max()
        assert (expected - reference.fused_embedding(state, features, False, depths)).abs().max() > 1e-2 * expected.abs().max()
    else:
        assert torch.allclose(ours, encoded(encoder, wave(12)[:480000])[0], atol=1e-5)  # its start


def test_text_equals_roberta_and_the_projection(opened):
    encoder, state, *_ = opened
    text = "rain on a roof"
    ids = encoder.tokenizer(text)["input_ids"]
    with torch.no_grad():
        ours = encoder.encode_text([text, "a much longer text about a church bell that rings"])[0]
    assert (ours - reference.text_embedding(state, ids)).abs().max() < 1e-5
    assert encoder.tokenizer.model_max_length == 77


def test_sizes_are_inferred(opened):
    encoder, _, depths, fused = opened
    assert [len(stage) for stage in encoder.units.heads] == depths
    assert [stage[0] for stage in encoder.units.heads] == reference.HEADS
    assert encoder.module.config.audio_config.enable_fusion is fused is encoder.policy.fusion
    assert encoder.dim == reference.JOINT
    assert encoder.logit_scale == pytest.approx(np.exp(2.9), rel=1e-5)
    assert (encoder.policy.mel.f_min, encoder.policy.mel.f_max, encoder.policy.mel.hop) == (50.0, 14000.0, 480)


@pytest.mark.parametrize("opened", ["630k-audioset-fusion-best.pt", "music_audioset_epoch_15_esc_90.14.pt"], indirect=True)
def test_the_converted_directory_opens_in_transformers(opened, tmp_path):
    """With plain ``ClapModel`` and ``ClapFeatureExtractor``, and here: the same embeddings."""
    encoder = opened[0]
    convert(str(encoder.path), tmp_path / "new")
    clap, extractor = ClapModel.from_pretrained(tmp_path / "new").eval(), ClapFeatureExtractor.from_pretrained(tmp_path / "new")
    samples = wave(3)
    features = extractor(samples, sampling_rate=48000, return_tensors="pt")
    features["is_longer"] = torch.zeros(1, 1, dtype=torch.bool)  # the extractor marks a random short clip as long
    with torch.no_grad():
        theirs = torch.nn.functional.normalize(clap.get_audio_features(**features).pooler_output, dim=-1)
    ours = encoder.embed([samples], sample_rate=48000)
    assert (theirs - ours).abs().max() < 1e-4
    again = load_encoder(tmp_path / "new")
    assert again.policy == encoder.policy
    assert torch.allclose(again.embed([samples], sample_rate=48000), ours, atol=1e-5)
    assert torch.allclose(again.embed_text(["a dog"]), encoder.embed_text(["a dog"]), atol=1e-5)


@pytest.fixture(scope="module")
def whole():
    return reference.random_state([2, 2, 2, 2], 4, False)


@pytest.fixture
def small(whole, tmp_path):
    """A way to write a file that is changed, and to open that."""

    def opening(change, name="x.pt"):
        changed = dict(whole)
        change(changed)
        torch.save(reference.checkpoint(changed), tmp_path / name)
        return load_encoder(tmp_path / name)

    return opening


@pytest.mark.parametrize(("change", "message"), [
    (lambda s: s.pop("audio_branch.layers.2.blocks.1.mlp.fc1.weight"), "lacks the tensors"),
    (lambda s: s.pop("text_branch.pooler.dense.bias"), "lacks the tensors"),
    (lambda s: s.pop("audio_projection.2.bias"), "lacks the tensors"),
    (lambda s: s.update({"audio_branch.extra.weight": torch.zeros(2)}), "has more than"),
    (lambda s: s.update({"vision.weight": torch.zeros(2)}), "has more than"),
    (lambda s: s.update({"text_branch.pooler.dense.bias": torch.zeros(3)}), "size mismatch"),
    (lambda s: s.update({"audio_branch.norm.bias": torch.full((32,), float("nan"))}), "NaN or infinite"),
    (lambda s: s.update({"audio_branch.logmel_extractor.melW": torch.zeros(513, 64)}), "filterbank"),
    (lambda s: s.update({"text_branch.embeddings.token_type_embeddings.weight": torch.zeros(2, 64)}), "not RoBERTa"),
    (lambda s: s.update({"text_branch.encoder.layer.99999999.output.dense.bias": torch.zeros(1)}), "at most 512 makes sense"),
    (lambda s: [s.pop(k) for k in [*s] if k.startswith("audio_branch.patch")], "PANN"),
    (lambda s: s.update({"audio_encoder.base.htsat.bn0.weight": torch.zeros(1)}), "Microsoft's"),
    (lambda s: s.clear(), "no keys under"),
])  # fmt: skip
def test_what_is_not_whole_is_refused(small, change, message):
    with pytest.raises(EncoderError, match=message):
        small(change)


def test_figures_of_training_are_read_and_code_is_not(tmp_path, whole, small):
    """NumPy's numbers, under the name that NumPy 1 pickled them by; anything that would run is refused, and does not run."""
    encoder = small(lambda s: None)
    state = reference.checkpoint(whole)
    torch.save(state, tmp_path / "new.pt")
    with zipfile.ZipFile(tmp_path / "new.pt") as new, zipfile.ZipFile(tmp_path / "old.pt", "w") as old:
        for item in new.infolist():
            content = new.read(item)
            if item.filename.endswith("data.pkl"):
                assert b"numpy._core.multiarray\nscalar" in content
                content = content.replace(b"numpy._core.multiarray\nscalar", b"numpy.core.multiarray\nscalar")
            old.writestr(item.filename, content)
    assert load_encoder(tmp_path / "old.pt").revision
    torch.save({**state, "args": Run(str(tmp_path / "ran"))}, tmp_path / "evil.pt")
    with pytest.raises(EncoderError, match="cannot be read"):
        load_encoder(tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()
    assert encoder.revision.startswith("sha256:")


class Run:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_the_files_are_known_by_name(monkeypatch):
    assert set(FILES) <= {model.name for model in known_models()}
    for name in FILES:
        check_model(name)  # the command line takes it for a name, not for a file that is missing
    asked = []

    def hub_file(*wanted):
        asked.append(wanted)
        raise EncoderError("offline")

    monkeypatch.setattr("residual_audio.models.encoders.laion.hub_file", hub_file)
    with pytest.raises(EncoderError, match="no such file"):
        load_encoder("630k-audioset.pt")
    with pytest.raises(EncoderError, match="offline"):
        load_encoder("630k-audioset-best.pt@abc")
    assert asked == [("lukewys/laion_clap", "630k-audioset-best.pt", "abc")]
