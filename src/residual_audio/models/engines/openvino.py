"""Graphs as OpenVINO has them: ``NAME.xml``, which describes them, and ``NAME.bin`` beside it with the weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch

from ...lazy import need
from ..encoder import EncoderError
from ..sealed import KEY, check_seal, parse, read_bytes, seal, written
from . import KEPT, Arrays, Graph

SUFFIX, WEIGHTS, EXTRA = ".xml", ".bin", "openvino"
MOST_LETTERS = 2**27  # of the description of a graph


class OpenVinoGraph(Graph):
    """``model`` is an ``openvino.Model``; it is compiled per set of outputs, so that what is not asked for is not computed.

    ``bf16``: products run in bf16, where the CPU has it; elsewhere the file is refused rather than run otherwise than it was checked.
    """

    def __init__(self, model: Any, bf16: bool = False) -> None:
        self.model, self.bf16 = model, bf16
        self._compiled: dict[tuple[str, ...], Any] = {}

    @staticmethod
    def _shape(port: Any) -> tuple[int | None, ...]:
        return tuple(None if d.is_dynamic else d.get_length() for d in port.get_partial_shape())

    @property
    def inputs(self) -> dict[str, tuple[int | None, ...]]:
        return {port.get_any_name(): self._shape(port) for port in self.model.inputs}

    @property
    def outputs(self) -> dict[str, tuple[int | None, ...]]:
        return {name: self._shape(port) for name, port in self._ports.items() if not name.startswith(KEPT)}

    @cached_property
    def _ports(self) -> dict[str, Any]:
        """By every name that a port has: equal constants may have become one."""
        return {name: port for port in self.model.outputs for name in port.get_names()}

    @cached_property
    def kept(self) -> dict[str, np.ndarray]:
        found = {}
        for name, port in self._ports.items():
            if name.startswith(KEPT):
                source = port.get_node()
                source = source.input_value(0).get_node() if source.get_type_name() == "Result" else source
                if source.get_type_name() != "Constant":
                    raise EncoderError(
                        f"{name} is computed by {source.get_type_name()} where a constant is expected; export the model again"
                    )
                found[name.removeprefix(KEPT)] = np.array(source.data)
        return found

    def _ready(self, wanted: tuple[str, ...]) -> Any:
        if wanted not in self._compiled:
            import openvino

            core = openvino.Core()
            settings = {
                "INFERENCE_NUM_THREADS": torch.get_num_threads(),
                "INFERENCE_PRECISION_HINT": "bf16" if self.bf16 else "f32",
                "ENABLE_CPU_PINNING": False,  # else every process on the machine takes the same first cores
            }
            sources = [self._source(self._ports[name]) for name in wanted]
            part = openvino.Model([openvino.opset13.result(s) for s in sources], self.model.get_parameters(), "part")
            self._compiled[wanted] = core.compile_model(part, "CPU", settings)
        return self._compiled[wanted]

    @staticmethod
    def _source(port: Any) -> Any:
        node = port.get_node()
        return node.input_value(0) if node.get_type_name() == "Result" else port

    def run(self, feeds: Arrays, wanted: Sequence[str]) -> list[np.ndarray]:
        ready = self._ready(tuple(wanted))
        made = ready([feeds[port.get_any_name()] for port in ready.inputs])
        return [np.array(made[i]) for i in range(len(wanted))]


def has_bf16() -> bool:
    """Whether this CPU multiplies in bf16, as OpenVINO finds it."""
    need(EXTRA, "openvino")
    import openvino

    return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def converted(onnx_model: bytes) -> Any:
    """An ONNX model as one of OpenVINO's."""
    need(EXTRA, "openvino")
    import openvino

    return openvino.Core().read_model(onnx_model)


def write(model: Any, sheet: dict[str, Any], path: Path) -> None:
    """``path`` and its weights beside it."""
    import openvino

    model.set_rt_info(written(sheet), KEY)
    openvino.save_model(model, path, compress_to_fp16=False)
    path.write_bytes(seal(path.read_bytes(), path.with_suffix(WEIGHTS).read_bytes()))


def read(path: Path, part: str) -> tuple[dict[str, Any], OpenVinoGraph]:
    """Files that :func:`write` wrote, or an error."""
    need(EXTRA, "openvino")
    import openvino

    beside = path.with_suffix(WEIGHTS)
    if path.exists() and not beside.exists():
        raise EncoderError(f"{path}: its weights, {beside.name}, are not beside it; the two files go together")
    drawing, weights = read_bytes(path), read_bytes(beside)
    check_seal(path, drawing, weights)
    sheet = parse(path, description(path, drawing, len(weights)), part)
    try:
        model = openvino.Core().read_model(drawing, weights)
    except RuntimeError as error:
        raise EncoderError(f"{path}: OpenVINO cannot read it ({str(error).strip().splitlines()[-1]})") from error
    return sheet, OpenVinoGraph(model, bf16=sheet.get("precision") == "bf16")


def description(path: Path, drawing: bytes, stored: int) -> str:
    """The description inside; refuses entities, operators that are not OpenVINO's own, and weights beyond the end of their file."""
    if len(drawing) > MOST_LETTERS or b"<!" in drawing:
        raise EncoderError(f"{path}: is no graph of OpenVINO: it is too long, or declares entities")
    try:
        root = ElementTree.fromstring(drawing)
        for layer in root.iter("layer"):
            if not layer.get("version", "").startswith("opset"):
                raise EncoderError(f"{path}: has an operator of {layer.get('version')!r}, which export does not write")
            for data in layer.iter("data"):
                if int(data.get("offset", 0)) + int(data.get("size", 0) if "offset" in data.attrib else 0) > stored:
                    raise EncoderError(f"{path}: asks for weights beyond the end of {path.with_suffix(WEIGHTS).name}")
        found = root.find(f"rt_info/{KEY}")
    except (ElementTree.ParseError, ValueError) as error:
        raise EncoderError(f"{path}: is no graph of OpenVINO ({error})") from error
    return "" if found is None else found.get("value", "")
