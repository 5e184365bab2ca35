"""Weights as a checkpoint has them, or not at all: nothing made up, nothing left over, nothing that is no number.

transformers fills missing tensors with random ones and says so in a log. A model of which one tensor is random still runs, and two
loads of it differ: every loader therefore comes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from .encoder import EncoderError
from .files import companion, pinned

Model = TypeVar("Model", bound=PreTrainedModel)
# Buffers that older versions of transformers stored and newer ones compute; they hold nothing learned.
COMPUTED = ("position_ids", "token_type_ids", "relative_position_index", "num_batches_tracked", "attn_mask", "masked_bias", "attn.bias")
WEIGHTS, ADAPTER = ("model.safetensors", "pytorch_model.bin"), "adapter_config.json"
# The largest that any published checkpoint of these layouts has is far below.
MOST_LAYERS, MOST_OF_ANYTHING = 512, 2**24
SHOWN = 3


def open_exactly(kind: type[Model], source: str, *, unread: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> Model:
    """``kind.from_pretrained(source)`` in float32, in which every tensor is the checkpoint's.

    ``unread``: beginnings of names that the checkpoint may have in surplus, such as a classifier; ``optional``: parts that it may lack,
    which are then None.
    """
    check_sizes(kind, source)
    if companion(source, ADAPTER) is not None:
        # transformers would open the base that it names in the place of this checkpoint, and change it by the adapter, without a word.
        raise EncoderError(f"{source}: holds an adapter ({ADAPTER}) beside or instead of a model; keep adapters in folders of their own")
    try:
        opened: Any = kind.from_pretrained(**pinned(source), dtype=torch.float32, output_loading_info=True, trust_remote_code=False)
    except Exception as error:  # damaged files raise anything
        raise EncoderError(f"{source}: its weights do not fit {kind.__name__} ({str(error).strip().splitlines()[0]})") from error
    module, info = cast(Model, opened[0]), opened[1]
    check_keys(source, kind.__name__, all_but(info["missing_keys"], optional), all_but(info["unexpected_keys"], unread))
    if info["mismatched_keys"]:
        raise EncoderError(f"{source}: tensors of other shapes than its config says: {some(str(k) for k in info['mismatched_keys'])}")
    for part in optional:
        if any(key.startswith(part) for key in info["missing_keys"]):
            setattr(module, part.rstrip("."), None)  # a random one must be neither used nor written
    check_finite(module, source)
    return module


def all_but(keys: Iterable[str], allowed: tuple[str, ...]) -> list[str]:
    return sorted(key for key in keys if not key.endswith(COMPUTED) and not key.startswith(allowed))


def check_keys(source: str | Path, kind: str, missing: list[str], unexpected: list[str]) -> None:
    """Refuse tensors that are lacking (they would be random) or left over (the checkpoint is of another layout)."""
    for keys, what in ((missing, "lacks"), (unexpected, "has more than")):
        if keys:
            raise EncoderError(f"{source}: {what} the tensors of {kind}: {some(keys)}; get the checkpoint again, or the right one")


def check_finite(module: nn.Module, source: str | Path) -> None:
    """Refuse weights that are NaN or infinite."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    if broken := [name for name, value in tensors if value.is_floating_point() and not bool(torch.isfinite(value).all())]:
        raise EncoderError(f"{source}: weights that are NaN or infinite: {some(broken)}; get the checkpoint again")


def some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:SHOWN]) + (f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else "")


def check_sizes(kind: type[PreTrainedModel], source: str) -> None:
    """Refuse a config that asks for more than its weights could fill, before anything is allocated."""
    described: Any = kind.config_class
    check_numbers(PretrainedConfig.get_config_dict(**pinned(source))[0], source)  # as text: making a config may already loop over layers
    config: PretrainedConfig = described.from_pretrained(**pinned(source))
    files = [path for name in WEIGHTS if (path := companion(source, name)) is not None]
    if files:
        check_count(lambda: kind(config), max(path.stat().st_size for path in files), source)


def check_count(make: Callable[[], nn.Module], stored: int, source: str | Path) -> None:
    """``make()`` takes no memory here. A weight takes at least a byte of the ``stored`` ones."""
    try:
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in make().parameters())
    except Exception as error:
        raise EncoderError(f"{source}: no model can be made from its config ({str(error).splitlines()[0]})") from error
    if count > stored + 2**20:
        raise EncoderError(f"{source}: its config asks for {count:,} weights, but the file has {stored:,} bytes; that cannot be")


def check_numbers(config: Mapping[Any, Any], source: str | Path, path: str = "") -> None:
    """Refuse single numbers that make no sense: a million layers would be built one by one."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            check_numbers(value, source, f"{path}{key}.")
        for number in value if isinstance(value, list | tuple) else [value]:
            most = MOST_LAYERS if "layer" in str(key) or "depth" in str(key) else MOST_OF_ANYTHING
            if isinstance(number, int | float) and not isinstance(number, bool) and not abs(number) <= most:
                raise EncoderError(f"{source}: {path}{key} is {number} in its config; at most {most:,} makes sense")
