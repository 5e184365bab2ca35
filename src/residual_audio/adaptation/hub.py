"""Adapters and checkpoints to the hub and back. huggingface_hub reads ``HF_TOKEN``, ``HF_HOME``, ``HF_ENDPOINT`` and ``HF_HUB_OFFLINE``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..models.files import COMPANIONS, split_revision
from ..writing import drafted_folder
from .adapter import ADAPTER, CONFIG, WEIGHTS, read_config, weights_of
from .card import CARD

# All that a checkpoint may consist of; nothing else is uploaded or fetched.
CHECKPOINT = ("config.json", "model.safetensors", "model-*.safetensors", "model.safetensors.index.json", "*.pth", *COMPANIONS, CARD)


class HubError(ValueError):
    """Something that the hub does not give or take; the message says what to do."""


@contextmanager
def reaching(repository: str) -> Iterator[None]:
    """The hub's many errors as one, with the next step."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        yield
    except HFValidationError as error:
        raise HubError(f"{repository}: not the name of a hub repository; it looks like user/name ({first_line(error)})") from error
    except (OfflineModeIsEnabled, LocalEntryNotFoundError) as error:
        why = "is not asked; unset HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else "cannot be reached"
        raise HubError(f"{repository}: not in the cache (HF_HOME), and the hub {why}") from error
    except (GatedRepoError, RepositoryNotFoundError) as error:
        raise HubError(f"{repository}: not found, or not yours to see; check its name, and HF_TOKEN if it is private") from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        hint = "set HF_TOKEN to a token that may write there" if status in (401, 403) else first_line(error)
        raise HubError(f"{repository}: the hub refuses ({status}): {hint}") from error
    except Exception as error:  # of whichever HTTP library the hub's client is built on
        raise HubError(f"{repository}: the hub cannot be reached ({type(error).__name__}: {first_line(error)})") from error


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def kind_of(folder: Path) -> str:
    """``adapter`` or ``checkpoint``; anything else is an error."""
    if (folder / CONFIG).is_file():
        return "adapter"
    if (folder / "config.json").is_file() or any(folder.glob("*.pth")):
        return "checkpoint"
    raise HubError(f"{folder}: neither an adapter ({CONFIG}) nor a checkpoint (config.json or a .pth)")


def files_of(folder: Path) -> list[Path]:
    """The files of an adapter or checkpoint that belong to it."""
    patterns = ADAPTER if kind_of(folder) == "adapter" else CHECKPOINT
    return sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})


def push(folder: str | Path, repository: str, *, private: bool = False, licence: str | None = None) -> str:
    """Upload an adapter or a checkpoint in one commit, and make the repository if need be; returns the address of the commit.

    Only files that belong to it are uploaded. ``licence`` replaces the one of its card (an identifier of the hub, such as ``mit``).
    """
    from huggingface_hub import CommitOperationAdd, HfApi, ModelCard

    folder = Path(folder)
    if not folder.is_dir():
        raise HubError(f"{folder}: no such directory; expected one that `adapt` or `fold` wrote")
    kind = kind_of(folder)
    if kind == "adapter" and weights_of(folder, read_config(folder)).name != WEIGHTS:  # whole, and of our kind
        raise HubError(f"{folder}: a kill left it between two adapters; write it again with `adapt --replace`")
    if licence is not None and not (folder / CARD).is_file():
        raise HubError(f"{folder}: no {CARD} that --license could be written into")
    operations = []
    for path in files_of(folder):
        content: Path | bytes = path
        if path.name == CARD and licence is not None:
            card = ModelCard.load(path)
            card.data.license = licence
            content = str(card).encode()
        operations.append(CommitOperationAdd(path.name, content))
    with reaching(repository):
        api = HfApi()
        made = api.create_repo(repository, private=private, exist_ok=True)
        done = api.create_commit(made.repo_id, operations, commit_message=f"Upload {kind} with residual-audio")
    return str(done.commit_url)


def fetched(repository: str, patterns: tuple[str, ...]) -> Path:
    """The files of a repository (``REPO`` or ``REPO@COMMIT``) in the cache; offline, those that are there already."""
    from huggingface_hub import snapshot_download

    name, revision = split_revision(repository)
    with reaching(repository):
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))


def pull(repository: str, out: str | Path) -> Path:
    """Fetch an adapter or a checkpoint into a new folder; an adapter has to be whole. Returns the folder, there whole or not at all."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise HubError(f"{out} is there already; choose another --out")
    found = fetched(repository, (*ADAPTER, *CHECKPOINT))
    if kind_of(found) == "adapter":
        weights_of(found, read_config(found))
    with drafted_folder(out) as draft:
        for path in files_of(found):
            shutil.copyfile(path, draft / path.name)
    return out
