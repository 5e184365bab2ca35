"""A model as files for ONNX Runtime or OpenVINO: made, checked against the model itself, and only then there."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ..audio import Preprocessing
from ..data import Dataset, load_dataset
from ..lazy import need
from ..models import Encoder, EncoderError, load_encoder
from ..models.encoders.exported import ExportedEncoder, beside
from ..models.engines import Graph, onnx, openvino
from ..models.files import file_digest
from ..models.sealed import FORMAT, blank_seal
from ..options import OptionError
from ..writing import own_folder
from .check import BOUNDS, Agreement, Bounds, ExportError, compare
from .trace import OPSET, audio_graph, quantised, text_graph

FORMATS = {"onnx": onnx, "openvino": openvino}
PRECISIONS = tuple(BOUNDS)
# What `extract` stores by default.
DEFAULT_RECORD = ("head", "moments", "embedding")
RECORDS = ("head", "mlp", "block", "stage", "embedding", "moments")
# Clips that come with the package and that an export is checked on, unless others are given.
OWN_CLIPS, OWN_COUNT = "notes", 40
NOT_LONGER = 1_000_000  # tokenizers that know no longest text say a far larger number


@dataclass(frozen=True)
class Exported:
    """What was written: the model's file, the others that belong to it, and how it agrees with the live model."""

    path: Path
    others: tuple[Path, ...]
    agreement: Agreement
    remarks: tuple[str, ...] = ()


def recorded_of(record: Sequence[str]) -> tuple[str, ...]:
    """Granularities with what they imply, in the order of :data:`RECORDS`."""
    if unknown := [g for g in record if g not in RECORDS]:
        raise OptionError(f"--record {', '.join(unknown)}: cannot be exported; one or more of {', '.join(RECORDS)}")
    return tuple(g for g in RECORDS if g in {*record, "embedding", *(("head",) if "moments" in record else ())})


def export(
    encoder: Encoder,
    out: str | Path,
    format: str = "onnx",
    *,
    precision: str = "float32",
    record: Sequence[str] = DEFAULT_RECORD,
    check_clips: Dataset | None = None,
    least_cosine: float | None = None,
    workers: int | None = None,
) -> Exported:
    """Write ``encoder`` to ``out`` (``.onnx``, or ``.xml`` with ``.bin`` beside it; a text side gets files of its own: ``.text.onnx``).

    ``record``: granularities of :func:`extract` that the file will give. ``check_clips``: on which the export is compared with the encoder
    (default: sounds of the package). float32 may differ by 1e-4 of an array's scale; int8 and bf16 must keep ``least_cosine`` and
    zero-shot accuracy. What is not close enough is not written.
    """
    path = checked_place(out, format, precision)
    record = recorded_of(record)
    refuse_unknown(encoder)
    bounds = bounds_of(precision, least_cosine)
    if check_clips is None and encoder.media == "sounds":
        check_clips = load_dataset(OWN_CLIPS).limited(OWN_COUNT)
    model = audio_graph(encoder, record)
    model = quantised(model) if precision == "int8" else model
    engine = FORMATS[format]
    graph, content = as_graph(format, model, precision)
    text, remarks = None, []
    if encoder.has_text:
        try:
            described = text_sheet(encoder)
            text = (described, *as_graph(format, text_graph(encoder), "float32"))
        except EncoderError as error:
            remarks.append(f"without its text side: {error}")
    with tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        side = None
        if text is not None:
            engine.write(text[2], text[0], beside(draft))
            side = {"digest": file_digest(beside(draft)), "wording": text[0]["wording"]}
        sheet = described_model(encoder, format, precision, record, side)
        trial = ExportedEncoder(encoder.name, sheet, graph, None if text is None else lambda: text[:2])
        agreement = compare(encoder, trial, check_clips, record, workers)
        if broken := agreement.broken(bounds):
            raise ExportError(f"{encoder.name} is not exported in {precision}: {broken}")
        sheet["check"] = {"clips_of": None if check_clips is None else Path(check_clips.name).name, **agreement.record()}
        engine.write(content, sheet, draft)
        reopened = load_encoder(draft)
        if not torch.equal(reopened.probe(), trial.probe()):
            raise ExportError(f"{encoder.name}: what was written does not do what was checked; nothing is left of it")
        made = sorted(Path(folder).iterdir(), key=lambda part: (part.name == path.name, part.name))
        for part in made:  # the model last: where it is, the others are
            part.replace(path.with_name(part.name))
    others = tuple(path.with_name(p.name) for p in made if p.name != path.name)
    return Exported(path, others, agreement, tuple(remarks))


def checked_place(out: str | Path, format: str, precision: str) -> Path:
    """Where the file will be; told before anything is made that it cannot be."""
    if format not in FORMATS:
        raise OptionError(f"unknown format {format!r}; one of {', '.join(FORMATS)}")
    if precision not in PRECISIONS:
        raise OptionError(f"unknown precision {precision!r}; one of {', '.join(PRECISIONS)}")
    need("onnx", "onnx", "onnxruntime")  # torch writes ONNX, whatever becomes of it
    if format == "openvino":
        need("openvino", "openvino")
    path, suffix = Path(out).expanduser(), FORMATS[format].SUFFIX
    if path.suffix != suffix:
        raise OptionError(f"--out {out}: a file of the format {format} ends in {suffix}; call it {path.with_suffix(suffix).name}")
    if path.name.endswith(f".text{suffix}"):
        raise OptionError(f"--out {out}: {beside(Path('NAME' + suffix)).name} is how text sides are called; choose another name")
    for each in (path, beside(path), *((path.with_suffix(".bin"), beside(path).with_suffix(".bin")) if format == "openvino" else ())):
        if own_folder(each).exists():
            raise OptionError(f"{each} is there already; remove it, or choose another --out")
    if precision == "bf16" and format != "openvino":
        raise OptionError("bf16 is of --format openvino: ONNX Runtime multiplies float32 or int8 on a CPU")
    if precision == "bf16" and not openvino.has_bf16():
        raise OptionError("this CPU does not multiply in bf16, so the export cannot be checked; use --precision float32")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def refuse_unknown(encoder: Encoder) -> None:
    """Refuse what has no graph: an export, or an encoder that branches on its clips."""
    if encoder.replays is not None:
        raise ExportError(f"{encoder.name} is an exported file already; export the checkpoint that it was made from")
    if isinstance(encoder.policy, Preprocessing) and encoder.policy.fusion:
        raise ExportError(
            f"{encoder.name}: feature fusion runs other layers for longer clips, which a graph cannot; use a checkpoint without"
        )
    if encoder.device.type != "cpu" or encoder.dtype != torch.float32 or encoder.precision != "float32":
        raise ExportError(f"{encoder.name}: is exported from the CPU in float32; open it so")


def bounds_of(precision: str, least_cosine: float | None) -> Bounds:
    if least_cosine is None:
        return BOUNDS[precision]
    if BOUNDS[precision].cosine is None:
        raise OptionError("--least-cosine is read by --precision int8 and bf16; float32 must agree to 1e-4 whatever is asked for")
    return replace(BOUNDS[precision], cosine=least_cosine)


def as_graph(format: str, model: Any, precision: str) -> tuple[Graph, Any]:
    """What runs it, and what the format's ``write`` takes."""
    if format == "onnx":
        return onnx.OnnxGraph(model), model
    converted = openvino.converted(model.SerializeToString())
    return openvino.OpenVinoGraph(converted, bf16=precision == "bf16"), converted


def described_model(encoder: Encoder, format: str, precision: str, record: Sequence[str], text: dict[str, Any] | None) -> dict[str, Any]:
    """What stands inside the file."""
    joint = encoder.readout.joint_weights()
    return {
        "seal": blank_seal(), "format": FORMAT, "part": "model", "package": version("residual-audio"), "engine": format, "opset": OPSET,
        "precision": precision, "model": origin(encoder), "media": encoder.media,
        "policy": asdict(encoder.policy), "policy_hash": encoder.policy.hash, "units": asdict(encoder.units),
        "sites": [asdict(site) for site in encoder.sites], "stages": [asdict(stage) for stage in encoder.stages], "strips": encoder.strips,
        "dim": encoder.dim, "logit_scale": encoder.logit_scale, "recorded": list(record), "text": text,
        "joint_eps": None if joint is None or joint.norm is None else joint.norm.eps,
    }  # fmt: skip


def origin(encoder: Encoder) -> dict[str, str]:
    """What was exported; of a path only its last part, for the file may go to others."""
    path = Path(encoder.name.removesuffix("+residual")).expanduser()
    return {"name": Path(encoder.name).name if path.is_absolute() or path.exists() else encoder.name, "revision": encoder.revision}


def text_sheet(encoder: Encoder) -> dict[str, Any]:
    """Of the text side: how texts become tokens, with the tokenizer itself."""
    assert encoder.wording is not None
    tokenizer = encoder.tokenizer
    longest = encoder.wording.length or (tokenizer.model_max_length if tokenizer.model_max_length < NOT_LONGER else None)
    return {
        "seal": blank_seal(), "format": FORMAT, "part": "text side", "package": version("residual-audio"), "opset": OPSET,
        "model": origin(encoder), "wording": asdict(replace(encoder.wording, length=longest)),
        "pad_token": tokenizer.pad_token, "padding_side": tokenizer.padding_side, "tokenizer": tokenizer.backend_tokenizer.to_str(),
    }  # fmt: skip
