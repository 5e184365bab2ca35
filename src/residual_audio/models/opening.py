"""From a name or a path to an encoder."""

from __future__ import annotations

import difflib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..audio import Preprocessing
from ..audio.decode import HIGHEST_RATE
from ..options import OptionError, option_specs
from .encoder import Encoder, EncoderError
from .files import file_digest, local_revision, pinned
from .loading import Loaded, Loading, Running, split_revision
from .precision import chosen_precision
from .registry import ENCODERS, EncoderKind, known_models

LONGEST_WINDOW = 600  # seconds


def load_encoder(
    name_or_path: str | Path,
    device: str | torch.device = "cpu",
    *,
    seconds: float | None = None,
    crop: str | None = None,
    pad: str | None = None,
    fast: bool = True,
    precision: str | None = None,
) -> Encoder:
    """Open an encoder by name, hub repository (``REPO`` or, pinned, ``REPO@COMMIT``), directory, ``.pth`` or ``.pt`` file, or export.

    ``seconds`` chooses the window of an encoder whose window can be chosen (Whisper); ``crop`` (start, centre,
    windows) and ``pad`` (repeatpad, repeat, pad) replace the checkpoint's own length policy. ``fast`` runs HTS-AT's
    attention fused: the same numbers to rounding, in less time; the others have a fused attention of their own.
    ``precision``: of products (:mod:`.narrow`): float32, bf16, or auto, which is bf16 where this machine is faster with it; where nobody
    asks, float32, or that of an exported file. ``encoder.precision`` says which. An option that the encoder does not read is an error.
    """
    from .fused import fuse_attention  # loads transformers, which reading a run does not need
    from .narrow import narrow

    source, options = str(name_or_path), Loading(seconds, crop, pad, fast)
    kind = recognise(source)
    check_read(kind, source, options)
    if kind.own_precision:
        encoder = kind.open(source, device, options)
        check_own_precision(encoder, precision)
    else:
        Running(precision=precision)  # checks the word
        chosen = chosen_precision(precision or "float32", torch.device(device))
        encoder = kind.open(source, device, options)
        if options.fast:
            fuse_attention(encoder.module)
        if chosen == "bf16":
            narrow(encoder)
        encoder.precision = chosen
    check_policy(encoder)
    if isinstance(encoder.policy, Preprocessing):
        if encoder.policy.fusion and options.crop is not None:
            raise OptionError(f"--crop does nothing for {source}: its feature fusion sees the whole clip; leave it out")
        changes: dict[str, Any] = {k: v for k, v in (("crop", options.crop), ("pad", options.pad)) if v is not None}
        encoder.policy = replace(encoder.policy, **changes)
    encoder.loading = Loaded(source, address_of(source), options)
    return encoder


def check_own_precision(encoder: Encoder, asked: str | None) -> None:
    """Refuse another precision than the one that a file was exported in."""
    if asked not in (None, "auto", encoder.precision):
        raise OptionError(f"--precision {asked}: {encoder.name} was exported in {encoder.precision}; leave it out, or export it in {asked}")


def check_policy(encoder: Encoder) -> None:
    """Refuse preprocessing whose input would be absurdly large, or no number, before any clip is prepared."""
    policy = encoder.policy
    if isinstance(policy, Preprocessing):
        mel = policy.mel
        sizes = {"sample rate": policy.sample_rate, "samples": policy.samples, "n_fft": mel.n_fft, "hop": mel.hop, "mels": mel.mels}
        most = {"sample rate": HIGHEST_RATE, "samples": LONGEST_WINDOW * policy.sample_rate, "n_fft": 2**16, "hop": 2**16, "mels": 2**12}
        scales: tuple[float, ...] = (mel.f_min, mel.f_max, mel.mean, mel.std)
    else:
        sizes, most = dict(zip(("height", "width"), policy.shape, strict=True)), {"height": 2**12, "width": 2**12}
        scales = (policy.scale, *policy.mean, *policy.std, *(1 / s if s else math.nan for s in policy.std))
    if absurd := [f"{name} {size:,}" for name, size in sizes.items() if not 0 < size <= most[name]]:
        raise EncoderError(f"{encoder.name}: its preprocessing makes no sense: {', '.join(absurd)}")
    if not all(map(math.isfinite, scales)):
        raise EncoderError(f"{encoder.name}: its preprocessing has scales that are no numbers, or divides by zero: {scales}")


def check_read(kind: EncoderKind, source: str, options: Loading) -> None:
    """Refuse an option that this kind of encoder does not read, and say which do."""
    sounds = [k for k in ENCODERS.values() if k.media == "sounds"]
    for name, readers, why in (
        ("seconds", [k for k in sounds if k.window], "has a window of one length"),
        ("crop", sounds, "takes images, which have no length"),
        ("pad", sounds, "takes images, which have no length"),
    ):
        if getattr(options, name) is not None and kind.name not in {k.name for k in readers}:
            flag = option_specs(Loading)[name].flag
            raise OptionError(f"{flag}: {source} {why}; leave it out. It is read by {', '.join(k.name for k in readers)}")


def recognise(source: str) -> EncoderKind:
    """The kind of encoder that a name, a file or a directory is."""
    for kind in ENCODERS.values():
        if split_revision(source)[0] in kind.own_names:
            return kind
    path = Path(split_revision(source)[0]).expanduser()
    for kind in ENCODERS.values():
        if path.suffix in kind.suffixes:
            return kind
    model_type = read_model_type(source)
    for kind in ENCODERS.values():
        if model_type in kind.model_types:
            return kind
    types = [t for kind in ENCODERS.values() for t in kind.model_types]
    endings = [f"{s} ({kind.name})" for kind in ENCODERS.values() for s in kind.suffixes]
    raise EncoderError(
        f"{source}: a model of type {model_type!r} is not supported; known are the types {', '.join(types)} and files {', '.join(endings)}"
    )


def read_model_type(source: str) -> str | None:
    """The ``model_type`` of a directory's or repository's config.json."""
    from transformers import PretrainedConfig

    path = Path(source).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists():
            raise EncoderError(f"{path}: has no config.json; expected a checkpoint directory as transformers writes it")
        source = str(path)
    elif path.exists():
        raise EncoderError(f"{path}: expected a directory, Microsoft's .pth, one of LAION's .pt, or an exported .onnx or .xml")
    elif "/" not in source:
        near = difflib.get_close_matches(source, [m.name for m in known_models()], n=2, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise EncoderError(f"unknown model {source!r}{hint} See `residual-audio models`.")
    try:
        config, _ = PretrainedConfig.get_config_dict(**pinned(source))
    except (OSError, ValueError) as error:
        raise EncoderError(
            f"{source}: not a directory here, and not to be had from the hub ({str(error).splitlines()[0]}). "
            "Check the spelling, or download it once while online (HF_HOME says where), or pass a local directory."
        ) from error
    return config.get("model_type")


def revision_here(source: str) -> str | None:
    """The revision of what lies at a path or in the package, without opening it; None for what the hub has."""
    kind = next((kind for kind in ENCODERS.values() if split_revision(source)[0] in kind.own_names), None)
    path = Path(source).expanduser() if kind is None else kind.home
    if path is None or not path.exists():
        return None
    return local_revision(path) if path.is_dir() else file_digest(path)


def address_of(source: str) -> str:
    """A known name or hub repository as it is, a path made absolute."""
    path = Path(source).expanduser()
    own = any(source in kind.own_names for kind in ENCODERS.values())
    return str(path.absolute()) if path.exists() and not own else source
