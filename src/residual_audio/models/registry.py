"""From a name or a path to an encoder."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..audio import Preprocessing
from .encoder import Encoder, EncoderError

TINY = Path(__file__).parent / "tiny"
MSCLAP_REPO, MSCLAP_FILE = "microsoft/msclap", "CLAP_weights_2023.pth"


@dataclass(frozen=True)
class KnownModel:
    """A line of ``residual-audio models``."""

    name: str
    what: str
    needs: str


KNOWN = (
    KnownModel("tiny", "small CLAP, 184 heads of 8 channels, trained on synthesised sounds", "nothing: it is in the package"),
    KnownModel("laion/clap-htsat-unfused", "LAION CLAP, 10 s, 48 kHz", "the hub or its cache"),
    KnownModel("laion/clap-htsat-fused", "LAION CLAP with feature fusion for long clips", "the hub or its cache"),
    KnownModel("laion/larger_clap_general", "LAION CLAP, larger audio encoder, general audio", "the hub or its cache"),
    KnownModel("laion/larger_clap_music", "LAION CLAP, larger, music", "the hub or its cache"),
    KnownModel("laion/larger_clap_music_and_speech", "LAION CLAP, larger, music and speech", "the hub or its cache"),
    KnownModel("msclap-2023", "Microsoft CLAP 2023, 7 s, GPT-2 text side", "the hub or its cache, and gpt2's tokenizer for texts"),
    KnownModel("openai/whisper-tiny.en", "Whisper's encoder (any size), no text side", "the hub or its cache"),
    KnownModel("MIT/ast-finetuned-audioset-10-10-0.4593", "Audio Spectrogram Transformer, no text side", "the hub or its cache"),
    KnownModel("openai/clip-vit-base-patch32", "CLIP's vision tower (any size) with its text side; images", "the hub or its cache"),
    KnownModel("google/vit-base-patch16-224-in21k", "Vision Transformer, no text side; images", "the hub or its cache"),
    KnownModel("facebook/dinov2-base", "DINOv2 (any size), no text side; images", "the hub or its cache"),
    KnownModel("PATH", "a directory of any of these layouts, or Microsoft's .pth", "the files"),
)


def load_encoder(
    name_or_path: str | Path,
    device: str | torch.device = "cpu",
    *,
    seconds: float | None = None,
    crop: str | None = None,
    pad: str | None = None,
    fast: bool = True,
) -> Encoder:
    """Open an encoder by name, hub repository, directory or ``.pth`` file.

    ``seconds`` chooses the window of an encoder whose window can be chosen (Whisper); ``crop`` (start, centre,
    windows) and ``pad`` (repeatpad, repeat, pad) replace the checkpoint's own length policy. ``fast`` runs HTS-AT's
    attention fused: the same numbers to rounding, in less time; the others have a fused attention of their own.
    """
    from .fused import fuse_attention

    encoder = _open(str(name_or_path), device, seconds)
    if fast:
        fuse_attention(encoder.module)
    changes = {k: v for k, v in (("crop", crop), ("pad", pad)) if v is not None}
    if changes and not isinstance(encoder.policy, Preprocessing):
        raise EncoderError(f"{name_or_path} takes images, and {' and '.join(changes)} are about the length of sounds; leave them out")
    if changes:
        encoder.policy = changed_policy(encoder.policy, **changes)
    return encoder


def changed_policy(policy: Preprocessing, **changes: str) -> Preprocessing:
    allowed = {"crop": ("start", "centre", "windows"), "pad": ("repeatpad", "repeat", "pad")}
    for key, value in changes.items():
        if value not in allowed[key]:
            raise EncoderError(f"{key}={value!r} is unknown; one of {', '.join(allowed[key])}")
    return replace(policy, **changes)


def _open(name: str, device: str | torch.device, seconds: float | None) -> Encoder:
    from .clap import ClapEncoder
    from .clip import ClipEncoder
    from .isotropic import AstEncoder, WhisperEncoder
    from .msclap import MsClapEncoder
    from .vit import Dinov2Encoder, ViTEncoder

    if name == "tiny":
        return ClapEncoder(TINY, "tiny", device)
    if name in ("msclap-2023", "msclap", MSCLAP_REPO):
        path, revision = hub_file(MSCLAP_REPO, MSCLAP_FILE)
        return MsClapEncoder(path, "msclap-2023", device, revision)
    path = Path(name).expanduser()
    if path.suffix in (".pth", ".pt", ".ckpt"):
        if not path.exists():
            raise EncoderError(
                f"{path}: no such file; download {MSCLAP_FILE} from the hub repository {MSCLAP_REPO}, or use the name msclap-2023"
            )
        return MsClapEncoder(path, name, device)
    kind = model_type(name)
    if kind == "clap":
        return ClapEncoder(path if path.is_dir() else name, name, device)
    if kind == "whisper":
        return WhisperEncoder(path if path.is_dir() else name, name, device, **({"seconds": seconds} if seconds else {}))
    others = {"audio-spectrogram-transformer": AstEncoder, "clip": ClipEncoder, "vit": ViTEncoder, "dinov2": Dinov2Encoder}
    if kind in others:
        return others[kind](path if path.is_dir() else name, name, device)
    raise EncoderError(
        f"{name}: a model of type {kind!r} is not supported; known are clap, whisper, {', '.join(others)} and Microsoft's .pth"
    )


def model_type(name: str) -> str:
    """The ``model_type`` of a directory's or repository's config.json."""
    from transformers import AutoConfig

    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists():
            raise EncoderError(f"{path}: has no config.json; expected a checkpoint directory as transformers writes it")
        name = str(path)
    elif path.exists():
        raise EncoderError(f"{path}: expected a directory, or Microsoft's .pth")
    elif "/" not in name:
        near = difflib.get_close_matches(name, [m.name for m in KNOWN], n=2, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise EncoderError(f"unknown model {name!r}{hint} See `residual-audio models`.")
    try:
        return AutoConfig.from_pretrained(name).model_type
    except (OSError, ValueError) as error:
        raise EncoderError(
            f"{name}: not a directory here, and not to be had from the hub ({str(error).splitlines()[0]}). "
            "Check the spelling, or download it once while online (HF_HOME says where), or pass a local directory."
        ) from error


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
