"""What an exported file says about itself, and the seal that tells a whole file from a damaged or foreign one.

The description is JSON inside the file (ONNX: metadata; OpenVINO: ``rt_info``). It holds a digest of everything in the file, taken with the
digest's own place set to zeros: a changed byte anywhere is found before any library reads the graph.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .encoder import EncoderError

FORMAT = 1
KEY = "residual_audio"  # under which both formats keep the description
MARK, BLANK = b"residual-audio-sha256:", b"0" * 64
# Protocol buffers hold no more.
MOST_BYTES = 2**31
# Largest number that a description may hold; widths and rates are far below.
MOST = 2**31


def blank_seal() -> str:
    """What stands in a description before its file is sealed."""
    return (MARK + BLANK).decode()


def _digest(parts: Sequence[bytes], start: int) -> bytes:
    """Of all bytes, with the digits that begin at ``start`` of the first part as zeros."""
    first, made = memoryview(parts[0]), hashlib.sha256()
    pieces: list[bytes | memoryview] = [first[:start], BLANK, first[start + len(BLANK) :], *parts[1:]]
    for piece in pieces:
        made.update(piece)
    return made.hexdigest().encode()


def seal(head: bytes, *others: bytes) -> bytes:
    """``head`` (the part that holds the description) with the digest of itself and the other parts filled in."""
    start = head.index(MARK) + len(MARK)
    return head[:start] + _digest((head, *others), start) + head[start + len(BLANK) :]


def check_seal(path: Path, head: bytes, *others: bytes) -> None:
    """Refuse what was not written by ``export``, and what was changed since."""
    start = head.find(MARK) + len(MARK)
    if start < len(MARK) or head.count(MARK) != 1:
        raise EncoderError(
            f"{path}: was not written by `residual-audio export`, so its preprocessing and units are unknown; export the model"
        )
    if head[start : start + len(BLANK)] != _digest((head, *others), start):
        raise EncoderError(f"{path}: is damaged, or was changed: its contents and the digest inside differ; copy or export it again")


def read_bytes(path: Path) -> bytes:
    """The whole file, of a size that makes sense."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise EncoderError(f"{path}: has {size:,} bytes; an exported file has at most {MOST_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise EncoderError(
            f"{path}: cannot be read ({error.strerror}); exported models are files, or pairs of files, side by side"
        ) from error


def parse(path: Path, text: str, part: str) -> dict[str, Any]:
    """The description of a file that holds ``part`` (the model, or its text side)."""
    try:
        sheet = json.loads(text)
        check_values(sheet)
        found, version = sheet["part"], sheet["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EncoderError(f"{path}: its description cannot be read ({error}); export the model again") from error
    if version != FORMAT:
        raise EncoderError(f"{path}: is of format {version}, and this version reads {FORMAT}; export it again, or update the package")
    if found != part:
        raise EncoderError(f"{path}: holds the {found} of an exported model; open the file of the {part}")
    return dict(sheet)


def check_values(value: Any) -> None:
    """Refuse numbers that make no sense: nothing is built from them before."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_values(inner)
    if isinstance(value, int | float) and not abs(value) <= MOST:
        raise ValueError(f"the number {value} makes no sense")


def written(sheet: dict[str, Any]) -> str:
    """As text without line breaks or letters that XML would change."""
    return json.dumps(sheet, ensure_ascii=True, allow_nan=False)
