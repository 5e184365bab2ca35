"""An exported file is whole and our own, or it is refused in a line that says what is wrong: before any engine reads its graph."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, load_model_from_string, save_model

from residual_audio.data import load_dataset
from residual_audio.exporting.export import export
from residual_audio.models import EncoderError, load_encoder
from residual_audio.models.encoders.exported import beside
from residual_audio.models.engines import onnx, openvino
from residual_audio.models.sealed import MARK, blank_seal, seal


@pytest.fixture
def onnx_copy(exported_path, tmp_path) -> Path:
    return Path(shutil.copy(exported_path, tmp_path / "model.onnx"))


@pytest.fixture(scope="module")
def openvino_files(whisper_dir, tmp_path_factory) -> Path:
    clips = load_dataset("notes").limited(2)
    return export(
        load_encoder(whisper_dir), tmp_path_factory.mktemp("ov") / "m.xml", "openvino", record=("embedding",), check_clips=clips
    ).path


@pytest.fixture
def openvino_copy(openvino_files, tmp_path) -> Path:
    shutil.copy(openvino_files.with_suffix(".bin"), tmp_path / "m.bin")
    return Path(shutil.copy(openvino_files, tmp_path / "m.xml"))


def rewritten(path: Path, change) -> None:
    """The file with a changed description or graph, sealed again, as somebody who knows the seal would write it."""
    sheet, graph = onnx.read(path, "model")
    change(sheet, graph.model)
    onnx.write(graph.model, {**sheet, "seal": blank_seal()}, path)


def refused(path: Path, words: str) -> None:
    with pytest.raises(EncoderError, match=words) as told:
        load_encoder(path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"no model", np.random.default_rng(0).bytes(5000)])
@pytest.mark.parametrize("name", ["model.onnx", "model.xml"])
def test_foreign_bytes(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "model.bin").write_bytes(content)
    refused(tmp_path / name, "was not written by `residual-audio export`")


def test_a_mark_alone_is_no_file(tmp_path):
    for name in ("model.onnx", "model.xml"):
        (tmp_path / "model.bin").write_bytes(b"")
        (tmp_path / name).write_bytes(seal(b"<net>" + blank_seal().encode()))
        refused(tmp_path / name, "no ONNX model|no graph of OpenVINO|description")
        (tmp_path / name).write_bytes(MARK * 2)
        refused(tmp_path / name, "was not written by")


def test_an_onnx_of_others(tmp_path):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])]
    )
    save_model(helper.make_model(graph), tmp_path / "theirs.onnx")
    refused(tmp_path / "theirs.onnx", "was not written by `residual-audio export`")


def test_every_changed_byte_is_found(onnx_copy):
    whole = onnx_copy.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 40):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        onnx_copy.write_bytes(changed)
        refused(onnx_copy, "is damaged, or was changed|was not written by")
    for length in (len(whole) - 1, len(whole) // 2, 1000):
        onnx_copy.write_bytes(whole[:length])
        refused(onnx_copy, "is damaged, or was changed|was not written by")
    onnx_copy.write_bytes(whole)
    load_encoder(onnx_copy)


def test_openvino_files_that_do_not_belong_together(openvino_copy):
    weights = openvino_copy.with_suffix(".bin")
    whole = weights.read_bytes()
    for content in (whole[:-4], whole[:-1] + b"\xff", b""):
        weights.write_bytes(content)
        refused(openvino_copy, "is damaged, or was changed")
    weights.unlink()
    refused(openvino_copy, "are not beside it")
    weights.write_bytes(whole)
    load_encoder(openvino_copy)


def test_openvino_graphs_that_reach_beyond_their_files(openvino_copy):
    weights, drawing = openvino_copy.with_suffix(".bin").read_bytes(), openvino_copy.read_bytes()
    start = drawing.index(MARK) + len(MARK)
    blank = drawing[:start] + b"0" * 64 + drawing[start + 64 :]
    for old, new, words in (
        (b"<net ", b'<!DOCTYPE a [<!ENTITY b "c">]><net ', "declares entities"),
        (b'offset="0"', b'offset="99999999999"', "beyond the end"),
        (b'version="opset1"', b'version="theirs"', "operator of 'theirs'"),
    ):
        assert old in blank
        openvino_copy.write_bytes(seal(blank.replace(old, new, 1), weights))
        refused(openvino_copy, words)


def test_descriptions_that_make_no_sense(onnx_copy):
    whole = onnx_copy.read_bytes()

    def policy(sheet, model):
        sheet["policy"]["samples"] += 1

    def rate(sheet, model):
        sheet["policy"]["sample_rate"] = 10**12

    def width(sheet, model):
        sheet["dim"] += 1

    def heads(sheet, model):
        sheet["units"]["heads"] = [[10**6] * 3]

    def lacking(sheet, model):
        del sheet["sites"]

    def later(sheet, model):
        sheet["format"] = 99

    def media(sheet, model):
        sheet["media"] = "images"

    for change, words in (
        (policy, "exported as"),
        (rate, "makes no sense"),
        (width, "its output embedding.joint"),
        (heads, "makes no sense"),
        (lacking, "makes no sense"),
        (later, "is of format 99"),
        (media, "makes no sense"),
    ):
        onnx_copy.write_bytes(whole)
        rewritten(onnx_copy, change)
        refused(onnx_copy, words)


def test_tensors_in_other_files_and_strange_operators(onnx_copy, tmp_path):
    """A path outside, wherever in the graph it stands, is refused before anything opens it."""
    whole = onnx_copy.read_bytes()
    (tmp_path / "secret").write_bytes(b"\x00" * 64)

    def outside(tensor):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "../secret"

    def weight(sheet, model):
        outside(next(t for t in model.graph.initializer if t.raw_data))

    def inside_a_node(sheet, model):
        node = model.graph.node.add(op_type="Constant", output=["stolen"])
        attribute = node.attribute.add(name="value", type=4)
        attribute.t.CopyFrom(helper.make_tensor("t", TensorProto.FLOAT, [16], np.zeros(64, np.uint8).tobytes(), raw=True))
        outside(attribute.t)

    def operator(sheet, model):
        model.graph.node[0].domain = "their.domain"

    for change, words in (
        (weight, "tensors in other files"),
        (inside_a_node, "tensors in other files"),
        (operator, "operators of their.domain"),
    ):
        onnx_copy.write_bytes(whole)
        rewritten(onnx_copy, change)
        refused(onnx_copy, words)


def test_a_graph_that_does_not_run_is_told(onnx_copy):
    def reshaped(sheet, model):
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_value += 1

    rewritten(onnx_copy, reshaped)
    encoder = load_encoder(onnx_copy)
    with pytest.raises(EncoderError, match="does not run on this input"):
        encoder.probe()


def test_text_sides(tmp_path, whisper_dir, exported_path):
    """Missing, of another export, or opened as a model."""
    from residual_audio.models.encoders.clap import TINY

    live = load_encoder(TINY)
    clips = load_dataset("notes").limited(2)
    path = export(live, tmp_path / "tiny.onnx", record=("embedding",), check_clips=clips).path
    side = beside(path)
    refused(side, "holds the text side of an exported model")
    content = side.read_bytes()
    side.write_bytes(exported_path.read_bytes())
    encoder = load_encoder(path)
    with pytest.raises(EncoderError, match=r"is not the text side that tiny.onnx was exported with"):
        encoder.embed_text(["a dog"])
    side.unlink()
    with pytest.raises(EncoderError, match=r"tiny.text.onnx, is not beside it"):
        encoder.embed_text(["a dog"])
    side.write_bytes(content)
    assert torch.allclose(encoder.embed_text(["a dog"]), live.embed_text(["a dog"]), atol=1e-5)


def test_nothing_is_unpickled(exported_path):
    assert b"pickle" not in exported_path.read_bytes()
    assert openvino.SUFFIX == ".xml"
    assert load_model_from_string(exported_path.read_bytes()).metadata_props[0].key == "residual_audio"
