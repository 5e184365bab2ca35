"""A checkpoint is what it says, whole, or it is refused: nothing random, nothing that runs, nothing absurd."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import ASTConfig, ASTFeatureExtractor, ASTForAudioClassification, AutoTokenizer, WhisperConfig, WhisperFeatureExtractor
from transformers import WhisperForConditionalGeneration as WholeWhisper

from residual_audio.extraction import Run, extract
from residual_audio.models import EncoderError, load_encoder
from residual_audio.models.files import open_tokenizer
from residual_audio.models.original import read_checkpoint
from tests.extraction.test_reopen import dataset_of
from tests.helpers.checkpoints import stirred
from tests.helpers.layouts import ALL, FILES

LAYOUTS = [layout for layout in (*ALL, *FILES) if layout != "tiny"]


@pytest.fixture
def copy_of(request, tmp_path):
    """A copy of a layout's checkpoint, and its weights in a form that can be changed and written."""

    def make(layout: str) -> Path:
        source = request.getfixturevalue(layout)
        if source.is_file():
            shutil.copytree(source.parent, tmp_path / layout)
            return tmp_path / layout / source.name
        shutil.copytree(source, tmp_path / layout)
        return tmp_path / layout

    return make


def change(path: Path, how) -> None:
    """Apply ``how`` to the tensors of a checkpoint."""
    if path.is_file():
        if path.suffix == ".pt":
            tensors = read_checkpoint(path, "state_dict")
            tensors = {name: tensor.clone() for name, tensor in tensors.items()}  # they are the file, which is written again
            how(tensors)
            torch.save({"state_dict": tensors}, path)
            return
        loaded = torch.load(path, weights_only=True)
        how(loaded["model"])
        torch.save(loaded, path)
    else:
        tensors = load_file(path / "model.safetensors")
        how(tensors)
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


def learned(tensors: dict) -> str:
    """The name of a matrix in the last block that has nothing to do with a pooler or a text side."""
    return [
        k
        for k, v in tensors.items()
        if v.ndim == 2 and k.endswith("weight") and any(b in k for b in ("layers", "layer.")) and "text" not in k
    ][-1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_missing_tensor_is_never_made_up(layout, copy_of):
    path = copy_of(layout)
    change(path, lambda tensors: tensors.pop(learned(tensors)))
    with pytest.raises(EncoderError, match=r"lacks the tensors of|a tensor is missing"):
        load_encoder(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_that_are_no_numbers_are_refused(layout, copy_of):
    path = copy_of(layout)
    change(path, lambda tensors: tensors[learned(tensors)].view(-1)[:1].fill_(float("nan")))
    with pytest.raises(EncoderError, match="NaN or infinite"):
        load_encoder(path)


@pytest.mark.parametrize("layout", ["laion_dir", "msclap_path", "whisper_dir"])
def test_surplus_tensors_and_other_shapes_are_refused(layout, copy_of):
    path = copy_of(layout)
    name = "audio_encoder.base.htsat.extra" if layout == "msclap_path" else "extra.weight"
    change(path, lambda tensors: tensors.update({name: torch.zeros(3)}))
    with pytest.raises(EncoderError, match="has more than the tensors of"):
        load_encoder(path)
    change(path, lambda tensors: (tensors.pop(name), tensors.update({learned(tensors): torch.zeros(3, 5)})))
    with pytest.raises(EncoderError, match=r"fit|shape|size"):
        load_encoder(path)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout not in ("msclap_path", *FILES)])
def test_absurd_sizes_are_refused_before_anything_is_allocated(layout, copy_of):
    path = copy_of(layout)
    config = json.loads((path / "config.json").read_text())
    towers = [part for key in ("audio_config", "vision_config") if isinstance(part := config.get(key), dict)] or [config]
    width = next(key for key in ("patch_embeds_hidden_size", "encoder_ffn_dim", "intermediate_size", "mlp_ratio") if key in towers[0])
    for key, value in ((width, 2**23), ("num_hidden_layers" if "num_hidden_layers" in towers[0] else "encoder_layers", 10**9)):
        before = towers[0].get(key)
        towers[0][key] = value
        (path / "config.json").write_text(json.dumps(config))
        with pytest.raises(EncoderError, match=r"asks for .* weights|at most .* makes sense|no model can be made"):
            load_encoder(path)
        towers[0][key] = before


@pytest.mark.parametrize(("layout", "key", "value"), [
    ("laion_dir", "max_length_s", 10**9), ("laion_dir", "sampling_rate", 2**31), ("ast_dir", "std", float("nan")),
    ("clip_dir", "crop_size", {"height": 10**6, "width": 10**6}), ("clip_dir", "image_std", [0, 0, 0]),
])  # fmt: skip
def test_absurd_preprocessing_is_refused(layout, key, value, copy_of):
    path = copy_of(layout)
    config = json.loads((path / "preprocessor_config.json").read_text())
    (path / "preprocessor_config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(EncoderError, match="preprocessing"):
        load_encoder(path)


def test_a_microsoft_file_of_absurd_depth_is_refused(copy_of):
    path = copy_of("msclap_path")
    change(path, lambda tensors: tensors.update({"caption_encoder.base.h.99999999.ln_1.weight": torch.zeros(1)}))
    with pytest.raises(EncoderError, match="at most 512 makes sense"):
        load_encoder(path)


@pytest.fixture
def with_code(copy_of, monkeypatch, tmp_path):
    """A copy of a layout whose tokenizer names Python beside the weights: it is not imported, and nobody is asked whether it may be."""
    monkeypatch.setattr("builtins.input", lambda *a: pytest.fail("asked"))

    def make(layout: str) -> Path:
        path = copy_of(layout)
        home = path if path.is_dir() else path.parent
        (home / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass T: pass\n")
        (home / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["evil.T"] * 2}, "tokenizer_class": "T"}))
        return path

    yield make
    assert not (tmp_path / "ran").exists()


def test_code_in_a_checkpoint_is_neither_run_nor_asked_about(with_code):
    path = with_code("laion_dir")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "evil.T", "AutoConfig": "evil.T"}}))
    encoder = load_encoder(path)
    with suppress(ValueError):  # whatever transformers makes of it without the code
        encoder.embed_text(["a dog"])


def test_a_tokenizer_that_is_code_is_refused(with_code):
    """Where no config.json names a model that transformers knows, it asks y/n: at a terminal that is, in a job it waits."""
    path = with_code("laion_dir")
    (path / "config.json").unlink()
    with pytest.raises(EncoderError, match="contains custom code"):
        open_tokenizer(AutoTokenizer, str(path), "")


def test_a_tokenizer_beside_an_original_file_that_is_code_is_refused(with_code):
    encoder = load_encoder(with_code("laion_path"))
    with pytest.raises(EncoderError, match="contains custom code"):
        encoder.embed_text(["a dog"])


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout not in ("msclap_path", *FILES)])
def test_an_adapter_beside_the_weights_leads_nowhere_else(layout, copy_of):
    """transformers would open the base that it names in the place of the checkpoint, and change it by the adapter."""
    path = copy_of(layout)
    (path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "someone/else"}))
    with pytest.raises(EncoderError, match="holds an adapter"):
        load_encoder(path)


def test_a_run_opens_no_checkpoint_but_its_own(copy_of, sound_files, tmp_path, monkeypatch):
    """What lies at the path that a run names is compared before it is opened."""
    path = copy_of("laion_dir")
    extract(load_encoder(path), dataset_of(sound_files[:1]), tmp_path / "run", ("head",))
    change(path, lambda tensors: tensors[learned(tensors)].add_(1))
    monkeypatch.setattr("residual_audio.extraction.reopen.load_encoder", lambda *a, **k: pytest.fail("opened"))
    with pytest.raises(EncoderError, match="is revision sha256:"):
        Run.open(tmp_path / "run").open_encoder()


def test_a_whole_whisper_gives_its_own_encoder(tmp_path):
    """As the hub has them: decoder and all. The encoder's names then begin otherwise, and were all made up."""
    torch.manual_seed(0)
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 99}
    tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1)
    config = WhisperConfig(d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=500, **sizes, **tokens)
    whole = stirred(WholeWhisper(config), 0.05)
    whole.save_pretrained(tmp_path)
    WhisperFeatureExtractor(feature_size=80, chunk_length=10).save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path, seconds=10)
    features = torch.randn(1, 1, 1000, 80)
    theirs = whole.model.encoder(features[:, 0].transpose(1, 2)).last_hidden_state.mean(1)
    assert torch.allclose(encoder.encode(features, torch.zeros(1, dtype=torch.bool)), theirs, atol=1e-5)


def test_a_checkpoint_with_a_classifier_on_top_is_fine(tmp_path):
    config = ASTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, max_length=256)
    stirred(ASTForAudioClassification(config), 0.05).save_pretrained(tmp_path)
    ASTFeatureExtractor(max_length=256).save_pretrained(tmp_path)
    assert load_encoder(tmp_path).dim == 32


def test_a_window_goes_with_the_checkpoint(whisper_dir, tmp_path):
    """A Whisper that was used at 2.5 s and written reopens at 2.5 s."""
    written = load_encoder(whisper_dir, seconds=2.5).save(tmp_path / "w")
    assert load_encoder(written).policy == load_encoder(whisper_dir, seconds=2.5).policy
    assert load_encoder(written, seconds=5).policy.seconds == 5
