"""The files of a checkpoint: what lies beside its weights, its revision, its tokenizer, and where the hub keeps it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .encoder import EncoderError
from .loading import split_revision

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


def pinned(source: str) -> dict[str, Any]:
    """The arguments by which ``from_pretrained`` opens a directory, ``REPO`` or ``REPO@COMMIT``."""
    name, revision = split_revision(source)
    return {"pretrained_model_name_or_path": name, **({} if revision is None else {"revision": revision})}


def companion(source: str, name: str) -> Path | None:
    """A file of a directory or hub repository, where it has that."""
    from transformers.utils.hub import cached_file

    repo, revision = split_revision(source)
    path = cached_file(
        repo, name, revision=revision, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
    )
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
    """The digest of a local directory's weights; of weights in several files, the digest of all their digests."""
    for pattern in ("model.safetensors", "pytorch_model.bin", "*.safetensors", "*.bin"):
        if paths := sorted(folder.glob(pattern)):
            digests = [file_digest(path) for path in paths]
            return digests[0] if len(digests) == 1 else "sha256:" + hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    return "unknown"


def revision_of(config: Any, source: str) -> str:
    """The commit of a hub repository, or the digest of a directory's weights.

    Some versions of transformers leave the commit in the config, others do not; the cache keeps every file below its commit.
    """
    if Path(source).is_dir():
        return local_revision(Path(source))
    if commit := getattr(config, "_commit_hash", None):
        return str(commit)
    kept = companion(source, "config.json")
    if kept is None or kept.parents[1].name != "snapshots":
        raise EncoderError(f"{source}: which commit of it was opened cannot be told; pass a local directory")
    return kept.parent.name


def at_commit(source: str, revision: str) -> str:
    """A hub repository at the commit that was opened, so that what is read of it later (its tokenizer) is of the same one."""
    return source if Path(source).is_dir() else f"{split_revision(source)[0]}@{revision}"


def open_tokenizer(kind: Any, source: str, hint: str) -> Any:
    """``kind.from_pretrained(source)``, refusing the empty tokenizer that transformers makes up when there are no files."""
    try:
        tokenizer = kind.from_pretrained(**pinned(source), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise EncoderError(f"no tokenizer at {source} ({str(error).splitlines()[0]}); {hint}") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise EncoderError(f"no tokenizer at {source}; {hint}")
    return tokenizer


def hub_file(repo: str, file: str, revision: str | None = None) -> tuple[Path, str]:
    """A file of a hub repository, from the cache if it is there, and the commit it belongs to."""
    from huggingface_hub import hf_hub_download

    try:
        path = Path(hf_hub_download(repo, file, revision=revision))
    except Exception as error:
        raise EncoderError(
            f"{file} of {repo} is neither in the cache nor to be had from the hub ({type(error).__name__}). "
            "Download it once while online, or pass its local path."
        ) from error
    return path, path.parent.name
