"""Names, paths and places, looked at before anything heavy is imported: a typo should not wait for torch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from ..models.loading import split_revision
from ..options import OptionError, words
from ..registry import words_in_files

DICTIONARIES = Path(__file__).parents[1] / "meaning" / "dictionaries"
PATIENCE_SECONDS = 10  # for the hub's answer
NOT_THERE = (401, 404)  # what the hub says of a repository that is unknown, or private


def writable(out: str | Path | None) -> None:
    """Refuse an ``--out`` that cannot be written, before work begins."""
    if out is None or "://" in str(out):
        return
    folder = Path(out)
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if folder.is_file():
        raise OptionError(f"--out {out}: {folder} is a file, not a folder; choose another --out")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OptionError(f"--out {out}: nothing can be written to {folder} ({error.strerror}); choose another --out") from error


def meant(word: str, known: Iterable[str]) -> str:
    """A hint at what is spelt alike, as the middle of a sentence."""
    near = get_close_matches(word, sorted(known), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else "."


def check_model(model: str) -> None:
    """Refuse a name that no encoder has, a path that leads nowhere, and a hub repository that is not to be had."""
    path = Path(model).expanduser()
    if path.is_dir() and not (path / "config.json").exists():
        raise OptionError(f"{path}: has no config.json; expected a checkpoint directory as transformers writes it")
    if path.exists():
        return
    known, (name, revision) = words_in_files("models/encoders"), split_revision(model)
    if name in known:  # also LAION's files, which open by their names
        return
    if model.startswith((".", "~", "/")) or model.count("/") > 1 or path.suffix in (".pth", ".pt", ".ckpt", ".onnx", ".xml"):
        raise OptionError(f"no model at {model}: there is no such file or folder; see `residual-audio models`")
    if "/" in name:
        check_hub(name, revision, known)
    else:
        raise OptionError(f"unknown model {model!r}{meant(model, known)} See `residual-audio models`.")


def check_hub(repository: str, revision: str | None, known: Iterable[str]) -> None:
    """Refuse a repository that is neither in the cache nor on the hub. One question, where the hub's own client asks six times."""
    from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.utils import build_hf_headers

    if isinstance(try_to_load_from_cache(repository, "config.json", revision=revision), str):
        return
    reason = "this machine is offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else no_answer(
        hf_hub_url(repository, "config.json", revision=revision), build_hf_headers()
    )  # fmt: skip
    if reason:
        raise OptionError(
            f"{repository}: not a directory here, and not to be had from the hub ({reason}){meant(repository, known)} "
            "Check the spelling, or download it once while online (HF_HOME says where), or pass a local directory."
        )


def no_answer(url: str, headers: dict[str, str]) -> str:
    """Why an address gives nothing; empty where it does, or where only its own client can tell (certificates, a server that is busy)."""
    from ssl import SSLError
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(url, headers=headers, method="HEAD"), timeout=PATIENCE_SECONDS).close()
    except HTTPError as error:
        return "it has no such model, or a private one" if error.code in NOT_THERE else ""
    except (URLError, TimeoutError) as error:
        cause = getattr(error, "reason", error)
        return f"no connection: {cause}" if isinstance(cause, OSError) and not isinstance(cause, SSLError) else ""
    return ""


def check_classifiers(given: str) -> None:
    """Refuse a classifier that there is not."""
    known = words_in_files("evaluation/classifiers") | {"auto"}
    for name in words(given):
        if name not in known:
            raise OptionError(f"unknown classifier {name!r}{meant(name, known)} `--help` lists them.")


def check_template(template: str | None) -> None:
    """Refuse a set of prompts that there is not."""
    if template is not None:
        from ..data.prompts import templates

        templates(template)


def check_run(run: str) -> None:
    """Refuse a folder that holds no run."""
    path = Path(run)
    if "://" in run or (path / "run.json").exists():
        return
    beside = [p.name for p in path.parent.iterdir() if (p / "run.json").exists()] if path.parent.is_dir() else []
    raise OptionError(f"{run}: no run.json; expected a directory written by `residual-audio extract`{meant(path.name, beside)}")


def check_adapter(adapter: str | None) -> None:
    """Refuse a path that holds no adapter; what looks like a hub repository is left to the hub."""
    if adapter is None:
        return
    path = Path(adapter).expanduser()
    if path.is_dir() and not (path / "adapter_config.json").exists():
        raise OptionError(f"{adapter}: no adapter_config.json; expected a directory written by `residual-audio adapt`")
    if not path.is_dir() and (adapter.startswith((".", "~", "/")) or adapter.count("/") != 1):
        raise OptionError(
            f"{adapter}: there is no such folder; expected a directory written by `residual-audio adapt`, or a hub repository"
        )


def check_folder(path: str, flag: str) -> None:
    """Refuse a folder that is not there."""
    if "://" not in path and not Path(path).is_dir():
        raise OptionError(f"{flag} {path}: there is no such folder")


def check_file(path: Path, flag: str) -> None:
    """Refuse a file that is not there."""
    if not path.is_file():
        raise OptionError(f"{flag} {path}: there is no such file")


def check_words(dictionaries: Iterable[str] | None) -> None:
    """Refuse a dictionary that is neither in the package nor a file."""
    own = {path.stem for path in DICTIONARIES.glob("*.txt")} | {"synthetic"}
    for name in dictionaries or ():
        if name not in own and not Path(name).expanduser().is_file():
            raise OptionError(
                f"no dictionary {name!r}{meant(name, own)} Known are {', '.join(sorted(own))}, or a text file with one concept per line"
            )


def check_device(device: str) -> None:
    """Refuse a device that this machine does not have."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise OptionError(f"--device {device}: not to be had here ({str(error).splitlines()[0]}); use cpu") from error
