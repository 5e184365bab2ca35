"""``residual-audio convert``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import OptionError
from .checks import check_model, writable
from .options import Machine, ModelArgument, open_model


def convert(
    model: ModelArgument,
    out: Annotated[Path, typer.Option(help="Directory of the new checkpoint; must not exist, or be empty.")],
) -> None:
    """Write a checkpoint as a directory: one of LAION's original `.pt` files becomes what `ClapModel.from_pretrained` opens.

    The tokenizer goes along where it lies beside the file or in the hub's cache.

    ```
    residual-audio convert 630k-audioset-best.pt --out checkpoints/630k-audioset
    residual-audio convert downloads/music_audioset_epoch_15_esc_90.14.pt --out checkpoints/music
    ```
    """
    writable(out)
    if out.exists() and any(out.iterdir()):
        raise OptionError(f"{out} is not empty; choose another --out")  # told before a model is opened
    check_model(model)
    from .screen import say

    written = open_model(model, Machine()).save(out)
    names = sorted(p.name for p in out.iterdir())
    say(f"{written}: {', '.join(names)}")
    if not {"tokenizer.json", "vocab.json", "vocab.txt"} & set(names):
        say("It has no tokenizer: none was at hand. Texts need one: put tokenizer.json beside its config.json.")
