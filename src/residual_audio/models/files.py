"""The files of a checkpoint: what lies beside its weights, its revision, its tokenizer, and where the hub keeps it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .encoder import EncoderError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENIZER_HINT = "put tokenizer.json, or vocab.json and merges.txt, beside its config.json"
# Files beside the weights that a checkpoint needs to be opened.
COMPANIONS = (
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)


def companion(source: str, name: str) -> Path | None:
    """A small file of a directory or hub repository, where it has that."""
    from transformers.utils.hub import cached_file

    path = cached_file(source, name, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False)
    return None if path is None else Path(path)


def copy_companions(source: str, folder: Path, names: Sequence[str] = COMPANIONS) -> None:
    """Copy small files (feature extractor, tokenizer) beside written weights, where the checkpoint has them."""
    for name in names:
        path = companion(source, name)
        if path is not None:
            shutil.copyfile(path, folder / name)


def write_pretrained(module: PreTrainedModel, source: str, folder: Path) -> Path:
    """The weights as transformers writes them, and the companions of the checkpoint they came from."""
    module.save_pretrained(folder)
    copy_companions(source, folder)
    return folder


def file_digest(path: Path) -> str:
    """A revision for weights that have no other: the start of their SHA-256."""
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()[:16]


def local_revision(folder: Path) -> str:
    """The digest of a local directory's weights."""
    for pattern in ("model.safetensors", "pytorch_model.bin", "*.safetensors", "*.bin"):
        for path in sorted(folder.glob(pattern)):
            return file_digest(path)
    return "unknown"


def revision_of(config: Any, source: str) -> str:
    """The commit of a hub repository, or the digest of a directory's weights."""
    return str(getattr(config, "_commit_hash", None) or local_revision(Path(source)))


def open_tokenizer(kind: Any, source: str, hint: str) -> Any:
    """``kind.from_pretrained(source)``, refusing the empty tokenizer that transformers makes up when there are no files."""
    try:
        tokenizer = kind.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise EncoderError(f"no tokenizer at {source} ({str(error).splitlines()[0]}); {hint}") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise EncoderError(f"no tokenizer at {source}; {hint}")
    return tokenizer


def hub_file(repo: str, file: str) -> tuple[Path, str]:
    """A file of a hub repository, from the cache if it is there, and the commit it belongs to."""
    from huggingface_hub import hf_hub_download

    try:
        path = Path(hf_hub_download(repo, file))
    except Exception as error:
        raise EncoderError(
            f"{file} of {repo} is neither in the cache nor to be had from the hub ({type(error).__name__}). "
            "Download it once while online, or pass its local path."
        ) from error
    return path, path.parent.name
