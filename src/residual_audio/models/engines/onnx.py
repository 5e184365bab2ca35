"""Graphs in ONNX, run by ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...lazy import need
from ..encoder import EncoderError
from ..sealed import KEY, check_seal, parse, read_bytes, seal, written
from . import KEPT, Arrays, Graph

SUFFIX, EXTRA = ".onnx", "onnx"
# Operators of other makers could do anything; export writes none.
DOMAINS = ("", "ai.onnx")
SERIOUS = 3  # of ONNX Runtime's levels of remarks: errors only


def tensors_of(graph: Any) -> Iterator[Any]:
    """Every tensor in a graph and in the graphs inside its nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from tensors_of(inner)


def nodes_of(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes_of(inner)


def check_contained(model: Any, path: Path) -> None:
    """Refuse tensors in other files (they may lie anywhere), and operators that are not ONNX's own."""
    tensors = [*tensors_of(model.graph), *(t for function in model.functions for t in tensors_of(graph_of(function.node)))]
    if outside := [t.name for t in tensors if t.data_location or len(t.external_data)]:
        raise EncoderError(f"{path}: has tensors in other files ({outside[0]}); an exported file holds everything itself")
    nodes = [*nodes_of(model.graph), *(n for function in model.functions for n in nodes_of(graph_of(function.node)))]
    if foreign := {node.domain for node in nodes} - set(DOMAINS):
        raise EncoderError(f"{path}: has operators of {', '.join(sorted(foreign))}, which export does not write")


def graph_of(nodes: Any) -> Any:
    """Nodes in the shape of a graph."""
    from onnx import GraphProto

    return GraphProto(node=nodes)


def shapes(values: Any) -> dict[str, tuple[int | None, ...]]:
    return {v.name: tuple(d.dim_value if d.HasField("dim_value") else None for d in v.type.tensor_type.shape.dim) for v in values}


def pruned(model: Any, wanted: Sequence[str]) -> Any:
    """The part of a model that these outputs need; ONNX Runtime itself would compute the rest and throw it away."""
    needed, nodes = set(wanted), []
    for node in reversed(model.graph.node):  # inputs stand before what reads them
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(name for inner in nodes_of(graph_of([node])) for name in inner.input)
    part = type(model)(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    part.graph.name = model.graph.name
    part.graph.node.extend(reversed(nodes))
    part.graph.input.extend(model.graph.input)
    part.graph.output.extend(o for o in model.graph.output if o.name in wanted)
    part.graph.initializer.extend(t for t in model.graph.initializer if t.name in needed)
    return part


class OnnxGraph(Graph):
    """``model`` is a ``ModelProto``; sessions are made per set of outputs, so that what is not asked for is not computed."""

    def __init__(self, model: Any) -> None:
        need(EXTRA, "onnx", "onnxruntime")
        self.model = model
        self._sessions: dict[tuple[str, ...], Any] = {}

    @property
    def inputs(self) -> dict[str, tuple[int | None, ...]]:
        return shapes(self.model.graph.input)

    @property
    def outputs(self) -> dict[str, tuple[int | None, ...]]:
        return {name: shape for name, shape in shapes(self.model.graph.output).items() if not name.startswith(KEPT)}

    @cached_property
    def kept(self) -> dict[str, np.ndarray]:
        from onnx import numpy_helper

        return {t.name.removeprefix(KEPT): numpy_helper.to_array(t).copy() for t in self.model.graph.initializer if t.name.startswith(KEPT)}

    def _session(self, wanted: tuple[str, ...]) -> Any:
        if wanted not in self._sessions:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = SERIOUS
            part = pruned(self.model, wanted).SerializeToString()
            self._sessions[wanted] = onnxruntime.InferenceSession(part, options, providers=["CPUExecutionProvider"])
        return self._sessions[wanted]

    def run(self, feeds: Arrays, wanted: Sequence[str]) -> list[np.ndarray]:
        made: list[np.ndarray] = self._session(tuple(wanted)).run(list(wanted), dict(feeds))
        return made


def write(model: Any, sheet: dict[str, Any], path: Path) -> None:
    """One file with everything in it."""
    described = type(model)()
    described.CopyFrom(model)
    del described.metadata_props[:]
    entry = described.metadata_props.add()
    entry.key, entry.value = KEY, written(sheet)
    path.write_bytes(seal(described.SerializeToString()))


def read(path: Path, part: str) -> tuple[dict[str, Any], OnnxGraph]:
    """A file that :func:`write` wrote, or an error."""
    need(EXTRA, "onnx", "onnxruntime")
    import onnx

    data = read_bytes(path)
    check_seal(path, data)
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protocol buffers raise their own
        raise EncoderError(f"{path}: is no ONNX model ({str(error).splitlines()[0]})") from error
    check_contained(model, path)
    described = {entry.key: entry.value for entry in model.metadata_props}
    return parse(path, described.get(KEY, ""), part), OnnxGraph(model)
