"""``residual-audio push`` and ``residual-audio pull``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .checks import writable


def push(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An adapter of `adapt`, or a checkpoint of `fold`.")],
    repository: Annotated[str, typer.Argument(metavar="REPO", help="The hub repository, user/name; it is made if need be.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    licence: Annotated[
        str | None,
        typer.Option("--license", help="Licence on its card, as the hub spells it (mit, cc-by-4.0); default: the base model's."),
    ] = None,
) -> None:
    """Upload an adapter or a folded checkpoint to the hub, with its card, in one commit.

    The token is read from `HF_TOKEN`, or is that of `hf auth login`. Only files that belong to the model are uploaded.

    ```
    residual-audio push adapters/notes me/clap-notes --license mit
    residual-audio push folded/notes me/clap-notes-folded --private
    ```
    """
    from ..adaptation.hub import push as upload
    from .screen import say

    say(upload(folder, repository, private=private, licence=licence))


def pull(
    repository: Annotated[str, typer.Argument(metavar="REPO", help="A hub repository, user/name or, pinned, user/name@COMMIT.")],
    out: Annotated[Path, typer.Option(help="The new folder.")],
) -> None:
    """Fetch an adapter or a folded checkpoint from the hub into a folder.

    `HF_TOKEN` opens private repositories. With `HF_HUB_OFFLINE=1` the hub is not asked: what was fetched before comes from the cache.

    ```
    residual-audio pull me/clap-notes --out adapters/notes
    ```
    """
    from ..adaptation.hub import pull as fetch
    from .screen import say

    writable(out)
    folder = fetch(repository, out)
    say(f"{folder}: {', '.join(sorted(p.name for p in folder.iterdir()))}")
