"""The same verbs on images: words in, files and exit codes out, and what is stored is exact."""

import json
import shutil

import pandas as pd
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, CLIPModel

from residual_audio.adaptation.adapter import load_adapter
from residual_audio.adaptation.attach import attached
from residual_audio.data import DataError, load_dataset
from residual_audio.extraction import Run
from residual_audio.models import load_encoder
from residual_audio.report import figures
from tests.helpers.pictures import picture

PROMPT = "a photo of a {}"


@pytest.fixture(scope="module", autouse=True)
def no_figures():
    """Figures are looked at elsewhere, and take their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "FIGURES", {"training_dynamics": figures.FIGURES["training_dynamics"]})
        yield


@pytest.fixture(scope="module")
def pictures(image_folder, tmp_path_factory):
    """Three classes of four, and one file that is no image."""
    root = tmp_path_factory.mktemp("data") / "shapes"
    shutil.copytree(image_folder, root)
    (root / "red_square" / "broken.png").write_text("not a picture")
    return root


def test_folder_and_table_of_images(pictures, tmp_path):
    data = load_dataset(f"folder:{pictures}")
    assert data.labels == ("blue_triangle", "green_circle", "red_square")
    assert len(data) == 13
    table = tmp_path / "images.csv"
    pd.DataFrame({"path": [c.path for c in data.clips], "label": [c.label for c in data.clips]}).to_csv(table, index=False)
    assert [c.path for c in load_dataset(str(table)).clips] == [c.path for c in data.clips]
    (pictures / "loose.png").write_bytes(b"x")
    try:
        with pytest.raises(DataError, match=r"1 image files lie directly"):
            load_dataset(f"folder:{pictures}")
    finally:
        (pictures / "loose.png").unlink()


def test_a_cover_beside_recordings_is_no_clip(pictures, sound_files, tmp_path):
    (tmp_path / "dog").mkdir()
    shutil.copy(sound_files[0], tmp_path / "dog" / "a.wav")
    picture("circle", "red", 0).save(tmp_path / "dog" / "cover.png")
    picture("circle", "red", 0).save(tmp_path / "cover.png")
    assert [c.id for c in load_dataset(f"folder:{tmp_path}").clips] == ["dog/a.wav"]


def test_zero_shot_by_prompts(command, clip_dir, pictures, tmp_path, capsys):
    assert command("zero-shot", clip_dir, f"folder:{pictures}", "--template", PROMPT, "--out", tmp_path) == 0
    shown = capsys.readouterr()
    assert "1 of 13 clips could not be read" in shown.err
    assert "broken.png: not an image that Pillow can read" in shown.err
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["clips"] == {"used": 12, "errors": 1}
    encoder = load_encoder(clip_dir)
    assert record["preprocessing"]["hash"] == encoder.policy.hash
    assert record["preprocessing"]["crop"] == list(encoder.policy.shape)
    # The accuracy that transformers' own model and processor give.
    data = load_dataset(f"folder:{pictures}").only(lambda c: "broken" not in c.id, "readable")
    model = CLIPModel.from_pretrained(clip_dir).eval()
    tokens = encoder.tokenizer([PROMPT.format(data.names[x]) for x in data.labels], padding=True, return_tensors="pt")
    pixels = CLIPImageProcessorPil.from_pretrained(clip_dir)([Image.open(c.path) for c in data.clips], return_tensors="pt")
    with torch.inference_mode():
        predicted = model(**pixels, **tokens).logits_per_image.argmax(-1).numpy()
    assert record["result"]["top1"]["value"] == pytest.approx((predicted == data.targets).mean())


@pytest.mark.parametrize("name", ["vit_dir", "dinov2_dir"])
def test_towers_without_a_text_side_use_centroids(command, name, pictures, request, tmp_path):
    assert command("zero-shot", request.getfixturevalue(name), f"folder:{pictures}", "--out", tmp_path) == 0
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["settings"]["classifier"] == "centroids"
    assert record["result"]["top1"]["value"] > 0.5, "three colours that any tower sees"


@pytest.fixture(scope="module")
def run(command, clip_dir, pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "shapes"
    words = (
        "extract",
        clip_dir,
        f"folder:{pictures}",
        "--granularity",
        "head,moments,block,stage,mlp,direct",
        "--batch-size",
        4,
        "--out",
        folder,
    )
    assert command(*words) == 0
    assert command(*words) == 0, "a complete run is opened again"
    return folder


def test_extract_is_exact_on_disk(run, clip_dir, pictures):
    stored = Run.open(run)
    assert stored.complete
    assert dict(stored.all_clips.status.value_counts()) == {"ok": 12, "error": 1}
    joint = stored.array("embedding.joint")[:]
    shares, constant = stored.joint_shares()
    assert (shares.sum(1) + constant - joint).abs().max() < 1e-5 * joint.abs().max()
    embedded = load_encoder(clip_dir).embed(list(stored.clips.path))
    assert (torch.nn.functional.normalize(joint, dim=-1) - embedded).abs().max() < 1e-5


def test_analyze(command, run):
    assert command("analyze", run, "--regime", "both", "--k", 3) == 0
    heads = pd.read_parquet(next((run / "tables").glob("*head*.parquet")))
    assert len(heads) >= 12


def test_ablate(command, clip_dir, pictures, tmp_path):
    words = ("ablate", clip_dir, f"folder:{pictures}", "--template", PROMPT, "--how", "zero", "--out", tmp_path)
    assert command(*words, "--units", "S0B1 heads") == 0
    table = pd.read_parquet(tmp_path / "tables" / "ablation_head.parquet")
    assert table.label.tolist() == [f"S0B1H{i}" for i in range(4)]
    assert table.margin_drop.abs().max() > 0
    assert len(json.loads((tmp_path / "ablation_head.json").read_text())["errors"]) == 1


def test_adapt_then_fold_equals_running(command, clip_dir, pictures, tmp_path):
    words = ("adapt", clip_dir, f"folder:{pictures}", "--template", PROMPT, "--units", "heads", "--epochs", 2, "--rate", 0.2)
    assert command(*words, "--out", tmp_path / "adapter") == 0
    assert command("fold", clip_dir, tmp_path / "adapter", "--out", tmp_path / "folded") == 0
    encoder, folded = load_encoder(clip_dir), load_encoder(tmp_path / "folded")
    residual = load_adapter(str(tmp_path / "adapter"), encoder)
    paths = [c.path for c in load_dataset(f"folder:{pictures}").clips if "broken" not in c.path]
    with attached(encoder, residual):
        live = encoder.embed(paths)
    assert (folded.embed(paths) - live).abs().max() < 1e-5
    assert (encoder.embed(paths) - live).abs().max() > 1e-5
    CLIPModel.from_pretrained(tmp_path / "folded")
    assert command("zero-shot", tmp_path / "folded", f"folder:{pictures}", "--template", PROMPT) == 0


def test_sounds_given_to_a_vision_tower_are_told(command, clip_dir, sound_files, tmp_path, capsys):
    (tmp_path / "dog").mkdir()
    shutil.copy(sound_files[0], tmp_path / "dog" / "a.wav")
    assert command("zero-shot", clip_dir, f"folder:{tmp_path}") == 2
    assert "this encoder takes images" in capsys.readouterr().err
