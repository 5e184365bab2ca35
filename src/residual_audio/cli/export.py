"""``residual-audio export``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..models.loading import Loading
from ..options import OptionError, option_specs, words
from .checks import check_adapter, check_model, writable
from .options import Data, Machine, ModelArgument, open_model, takes


@takes(data=Data, machine=Machine, loading=Loading)
def export(
    model: ModelArgument,
    out: Annotated[
        Path, typer.Option(help="The file: NAME.onnx, or NAME.xml (its weights go to NAME.bin). A text side goes to NAME.text.onnx.")
    ],
    data: Data,
    machine: Machine,
    loading: Loading,
    format: Annotated[Literal["onnx", "openvino"], typer.Option(help="onnx (for ONNX Runtime) or openvino.")] = "onnx",
    precision: Annotated[
        Literal["float32", "bf16", "int8"], typer.Option(help="float32; int8: weights and their products; bf16: products, openvino only.")
    ] = "float32",
    record: Annotated[
        str, typer.Option(help="What `extract` will get from the file, comma-separated: head, mlp, block, stage, embedding, moments.")
    ] = "head,moments",
    adapter: Annotated[
        str | None, typer.Option(help="Fold this adapter in first: a directory that `adapt` wrote, or a hub repository.")
    ] = None,
    check_clips: Annotated[
        str | None, typer.Option(help="Dataset on which the file is compared with the model; default: 40 of the package's notes.")
    ] = None,
    least_cosine: Annotated[
        float | None, typer.Option(min=-1, max=1, help="Lowest cosine that bf16 and int8 must keep; default: 0.999 and 0.99.")
    ] = None,
) -> None:
    """Write a model as a file for ONNX Runtime or OpenVINO, with everything that it records, its preprocessing and its text side.

    The file is compared with the model before it is there: float32 to 1e-4, int8 and bf16 by cosine and zero-shot accuracy. It opens
    wherever a command asks for MODEL: zero-shot, retrieve, and extract of what was recorded.

    ```
    residual-audio export tiny --out tiny.onnx
    residual-audio zero-shot tiny.onnx notes
    residual-audio export tiny --out fast/tiny.xml --format openvino --precision bf16 --record embedding
    residual-audio export tiny --out notes.onnx --adapter adapters/notes --precision int8 --check-clips notes
    ```
    """
    if out.is_dir():
        raise OptionError(f"--out {out}: is a folder; give the file's name, such as {out / 'model.onnx'}")
    writable(out.parent)
    check_model(model)
    check_adapter(adapter)
    if check_clips is None:
        if given := [spec.flag for name, spec in option_specs(Data).items() if getattr(data, name) != spec.default]:
            raise OptionError(f"{', '.join(given)}: about the clips of --check-clips; give that too")
        clips = None
    else:
        clips = data.open(check_clips)
    from ..exporting.export import checked_place, recorded_of
    from ..exporting.export import export as run_export
    from .screen import say

    checked_place(out, format, precision)
    recorded_of(words(record))
    encoder = open_model(model, machine, loading)
    if adapter is not None:
        from ..adaptation.adapter import load_adapter
        from ..adaptation.fold import fold

        encoder = fold(encoder, load_adapter(adapter, encoder))
    made = run_export(
        encoder, out, format, precision=precision, record=words(record), check_clips=clips, least_cosine=least_cosine,
        workers=machine.workers,
    )  # fmt: skip
    for path in (made.path, *made.others):
        say(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    for line in (*made.agreement.lines(), *made.remarks):
        say(line)
