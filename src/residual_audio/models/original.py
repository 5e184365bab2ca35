"""HTS-AT under its authors' names, as the files of LAION and Microsoft have it, and how it goes to transformers' ClapAudioModel."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core.multiarray import scalar
from torch import Tensor, nn
from transformers import ClapAudioConfig

from .encoder import EncoderError
from .weights import all_but, check_keys

State = dict[str, Tensor]
DROPPED = ("spectrogram_extractor.", "logmel_extractor.", "tscam_conv.", "head.")
RENAMES = {
    "bn0.": "batch_norm.",
    ".norm1.": ".layernorm_before.",
    ".norm2.": ".layernorm_after.",
    ".attn.relative_position": ".attention.self.relative_position",
    ".attn.proj.": ".attention.output.dense.",
    ".mlp.fc1.": ".intermediate.dense.",
    ".mlp.fc2.": ".output.dense.",
}
# The first layer of the attention that weighs the whole clip against its chunks: a quarter as wide as the patches.
FUSION = "patch_embed.fusion_model.local_att.0.weight"
# Training leaves its figures beside the weights, as NumPy's numbers: plain data, under the name that NumPy 1 gave the function.
FIGURES: list[Any] = [
    (scalar, "numpy.core.multiarray.scalar"),
    scalar,
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f8", "f4", "i8", "i4", "?")),
]


def read_checkpoint(path: Path, key: str) -> State:
    """The tensors under ``key`` of a file (or all of it), without the prefix that parallel training leaves. No code of the file is run."""
    try:
        with torch.serialization.safe_globals(FIGURES):
            # Mapped, not read: optimisers' states, which nobody asks for, may be twice the size of the weights.
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:
        raise EncoderError(f"{path}: cannot be read as a PyTorch checkpoint ({error})") from error
    state = loaded.get(key, loaded) if isinstance(loaded, dict) else {}
    tensors = state.items() if isinstance(state, dict) else ()
    return {str(name).removeprefix("module."): value for name, value in tensors if isinstance(value, Tensor)}


def below(state: State, prefix: str) -> State:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


def to_transformers(htsat: State) -> State:
    """Keys of the authors' HTS-AT (prefix removed) → keys of ClapAudioModel; QKV is split in three."""
    mapped: State = {}
    for key, value in htsat.items():
        if key.startswith(DROPPED) or key.endswith("attn_mask"):
            continue
        for old, new in RENAMES.items():
            key = key.replace(old, new)
        if ".attn.qkv." in key:
            for name, part in zip(("query", "key", "value"), value.chunk(3), strict=True):
                mapped["audio_encoder." + key.replace(".attn.qkv.", f".attention.self.{name}.")] = part
        else:
            mapped["audio_encoder." + key] = value
    return mapped


def infer_audio_config(htsat: State) -> ClapAudioConfig:
    """Depths, heads, widths, window, grid and fusion of an HTS-AT, from the shapes of its tensors."""
    patch = htsat["patch_embed.proj.weight"]
    stages = 1 + max(int(k.split(".")[1]) for k in htsat if k.startswith("layers."))
    depths = [1 + max(int(k.split(".")[3]) for k in htsat if k.startswith(f"layers.{s}.blocks.")) for s in range(stages)]
    tables = [htsat[f"layers.{s}.blocks.0.attn.relative_position_bias_table"] for s in range(stages)]
    window = (round(tables[0].shape[0] ** 0.5) + 1) // 2
    fc1 = htsat["layers.0.blocks.0.mlp.fc1.weight"]
    shift_mask = htsat.get("layers.0.blocks.1.attn_mask")
    windows_a_side = round(shift_mask.shape[0] ** 0.5) if shift_mask is not None else 8
    return ClapAudioConfig(
        patch_size=patch.shape[-1],
        patch_stride=[patch.shape[-2], patch.shape[-1]],
        patch_embeds_hidden_size=patch.shape[0],
        hidden_size=patch.shape[0] * 2 ** (stages - 1),
        depths=depths,
        num_attention_heads=[table.shape[1] for table in tables],
        window_size=window,
        spec_size=windows_a_side * window * patch.shape[-1],
        num_mel_bins=htsat["bn0.weight"].shape[0],
        mlp_ratio=fc1.shape[0] / fc1.shape[1],
        enable_fusion=FUSION in htsat,
        fusion_type="aff_2d" if FUSION in htsat else None,
        aff_block_r=patch.shape[0] // len(htsat[FUSION]) if FUSION in htsat else 4,
    )


def load_exactly(module: nn.Module, state: State, path: Path) -> None:
    """Load a state dict that must fit; buffers that a module computes itself may be missing."""
    try:
        result = module.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise EncoderError(f"{path}: {str(error).splitlines()[-1].strip()}") from error
    check_keys(path, type(module).__name__, all_but(result.missing_keys, ()), all_but(result.unexpected_keys, ()))
