"""From an encoder to ONNX: one forward pass with its recording, traced; weights that runs keep stand beside it as constants.

Traced by torch's TorchScript exporter, which takes seconds. ``torch.export`` gives the same numbers and took seven times as long on `tiny`.
What a trace could get wrong (a length of the example frozen into the graph) is found by the check, which runs other batch sizes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..extraction.capture import Capture
from ..extraction.reopen import PROBE, kept_weights
from ..models import Encoder, EncoderError
from ..models.copies import copied
from ..models.encoders.exported import POOLED, SECOND
from ..models.engines import KEPT
from ..models.fused import unfuse_attention
from ..models.recording import Recording, recorded

OPSET = 18
CLIPS = 2  # of the example that is traced; one might be taken for an axis that repeats
EXAMPLES = ("a dog barking", "rain on a roof in the evening")


class Traced(nn.Module):
    """A function of tensors as torch's exporter takes it."""

    def __init__(self, owner: nn.Module, run: Callable[..., Sequence[Tensor]]) -> None:
        super().__init__()
        self.owner, self.run = owner, run

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.run(*inputs))


def traced(owner: nn.Module, run: Callable[..., Sequence[Tensor]], examples: dict[str, Tensor], axes: dict[str, dict[int, str]]) -> Any:
    """``run(*examples)`` as an ONNX model; ``axes`` names the free lengths of inputs and outputs, and so the outputs."""
    import onnx

    buffer: Any = io.BytesIO()  # which this exporter takes, whatever its types say
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # remarks about what a trace cannot see; the check does
        try:
            torch.onnx.export(
                Traced(owner, run).eval(), tuple(examples.values()), buffer, dynamo=False, opset_version=OPSET, verbose=False,
                input_names=list(examples), output_names=[name for name in axes if name not in examples], dynamic_axes=axes,
            )  # fmt: skip
        except Exception as error:  # the exporter raises many kinds
            raise EncoderError(f"{type(owner).__name__} cannot be written as ONNX ({str(error).strip().splitlines()[0]})") from error
    return onnx.load_model_from_string(buffer.getvalue())


def token_seconds(recording: Recording, encoder: Encoder) -> Tensor:
    """Σxxᵀ of every head over the tokens of each clip, ``[clip, head, d, d]``."""
    parts = []
    for site in encoder.sites:
        heads = recording.heads[site.key].unflatten(-1, (site.heads, -1)).transpose(1, 2)
        parts.append(heads.transpose(-1, -2) @ heads)
    return torch.cat(parts, 1)


def audio_graph(encoder: Encoder, record: Sequence[str]) -> Any:
    """Features → embeddings and what is recorded, with the constants that a run needs."""
    own = copied(encoder)
    unfuse_attention(own.module)
    # Moments are sums of products of tokens: `tokens` keeps those, and no head's map is asked for.
    capture = Capture(own, [*record, *(("tokens",) if "moments" in record else ())])
    features = torch.cat([own.prepare(own.policy.noise()).features[:1]] * CLIPS)
    features = features * torch.linspace(0.9, 1.0, CLIPS)[:, None, None, None]

    def run(features: Tensor) -> dict[str, Tensor]:
        longer = torch.zeros(features.shape[0], dtype=torch.bool)
        recording = recorded(own, features, longer, capture.keep)
        arrays = capture.arrays(recording)
        if arrays[POOLED] is arrays["embedding.joint"]:
            del arrays[POOLED]
        return arrays | ({SECOND: token_seconds(recording, own)} if "moments" in record else {})

    with torch.no_grad():
        names = list(run(features))  # also makes what is made once, so that it is a constant of the trace
    axes = {name: {0: "clip"} for name in ("features", *names)}
    model = traced(own.module, lambda x: list(run(x).values()), {"features": features}, axes)
    constants = {k: v for k, v in kept_weights(encoder).items() if k not in (PROBE, "joint.norm.eps")}
    if encoder.filters is not None:
        constants["filters"] = encoder.filters
    keep(model, constants)
    return model


def keep(model: Any, constants: dict[str, Tensor]) -> None:
    """As outputs of the graph, so that no conversion drops them."""
    from onnx import helper, numpy_helper

    for name, value in constants.items():
        tensor = numpy_helper.from_array(value.detach().cpu().float().contiguous().numpy(), KEPT + name)
        model.graph.initializer.append(tensor)
        model.graph.output.append(helper.make_tensor_value_info(KEPT + name, tensor.data_type, list(tensor.dims)))


def text_graph(encoder: Encoder) -> Any:
    """Tokens → embeddings in the joint space."""
    own = copied(encoder)
    assert own.wording is not None
    ids, mask = own.wording.tokens(own.tokenizer, EXAMPLES)
    free = {0: "text"} if own.wording.padded else {0: "text", 1: "token"}
    axes = {"ids": free, "mask": free, "embedding": {0: "text"}}
    return traced(own.module, lambda ids, mask: [own.encode_tokens(ids, mask)], {"ids": ids, "mask": mask}, axes)


def quantised(model: Any) -> Any:
    """The same with the products of weights in int8: weights per channel, activations by their range in each batch."""
    import logging
    import tempfile
    from pathlib import Path

    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    del model.graph.value_info[:]  # shapes of the example would contradict what is put in
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it advises steps that the engines take themselves
    try:
        with tempfile.TemporaryDirectory() as folder:
            there = Path(folder) / "int8.onnx"
            quantize_dynamic(model, there, op_types_to_quantize=["MatMul", "Gemm"], weight_type=QuantType.QInt8, per_channel=True)
            return onnx.load_model(there)
    finally:
        logging.disable(before)
