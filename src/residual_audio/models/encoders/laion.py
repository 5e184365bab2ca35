"""LAION's CLAP from its original ``.pt`` files, mapped onto transformers' ClapModel; what :meth:`save` writes, ``ClapModel`` opens.

Sizes are inferred from the tensors: HTS-AT-tiny and -base, with and without feature fusion. The front end is the one that the files were
trained with: 48 kHz, 10 s, hop 480, 64 mels from 50 to 14000 Hz; Slaney's filters inside the network, or, with fusion, HTK's before it.
RoBERTa's norms have an ε of 1e-5 (transformers' default for CLAP is 1e-12).
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path

import torch
from transformers import (
    AutoTokenizer,
    ClapAudioConfig,
    ClapConfig,
    ClapFeatureExtractor,
    ClapModel,
    ClapTextConfig,
    PreTrainedTokenizerBase,
)

from ...audio import Preprocessing
from ...audio.mel import mel_filters
from ..encoder import Encoder, EncoderError
from ..files import file_digest, hub_file, open_tokenizer, split_revision
from ..loading import Loading
from ..original import State, below, infer_audio_config, load_exactly, read_checkpoint, to_transformers
from ..registry import ENCODERS, HUB, EncoderKind, KnownModel
from ..weights import check_count, check_finite, check_numbers
from .clap import ClapEncoder

REPO = "lukewys/laion_clap"
# The files there, and what they were trained on.
FILES = {
    "630k-best.pt": "LAION-Audio-630k",
    "630k-audioset-best.pt": "LAION-Audio-630k and AudioSet",
    "630k-fusion-best.pt": "LAION-Audio-630k, feature fusion",
    "630k-audioset-fusion-best.pt": "LAION-Audio-630k and AudioSet, feature fusion",
    "music_audioset_epoch_15_esc_90.14.pt": "music, AudioSet and LAION-Audio-630k, HTS-AT-base",
    "music_speech_epoch_15_esc_89.25.pt": "music, speech and LAION-Audio-630k, HTS-AT-base",
    "music_speech_audioset_epoch_15_esc_89.98.pt": "music, speech, AudioSet and LAION-Audio-630k, HTS-AT-base",
}
AUDIO, TEXT, MEL_FILTERS = "audio_branch.", "text_branch.", "audio_branch.logmel_extractor.melW"
# Heads of a loss that was tried in training; embeddings do not pass through them.
UNUSED = ("audio_transform.", "text_transform.")
PROJECTION = {"0.": "linear1.", "2.": "linear2."}
ROBERTA = "roberta-base@e2da8e2f811d1448a5b465c236feacd80ffbac7b"
TEXT_HEAD_WIDTH, TEXT_LENGTH, TEXT_EPS = 64, 77, 1e-5
SAMPLE_RATE, HOP, SECONDS, LOW, HIGH = 48_000, 480, 10, 50, 14_000


def read_state(path: Path) -> State:
    """The checkpoint's state dict; refuses what is not LAION's HTS-AT with RoBERTa, and says what it is instead."""
    state = read_checkpoint(path, "state_dict")
    if any(key.startswith("audio_encoder.base.") for key in state):
        raise EncoderError(f"{path}: this is Microsoft's checkpoint; call it .pth")
    if f"{AUDIO}patch_embed.proj.weight" not in state:
        what = (
            "its audio encoder is a CNN (PANN) without attention heads"
            if any(AUDIO in key for key in state)
            else f"no keys under {AUDIO!r}"
        )
        raise EncoderError(f"{path}: {what}; expected one of LAION's files with HTS-AT: {', '.join(FILES)}")
    kinds = state.get(f"{TEXT}embeddings.token_type_embeddings.weight")
    if kinds is None or len(kinds) != 1:
        raise EncoderError(
            f"{path}: its text encoder is not RoBERTa (BERT, BART or a plain transformer), which transformers' CLAP has no place for"
        )
    return state


def to_clap(state: State) -> State:
    """LAION's keys → keys of transformers' ClapModel."""
    mapped: State = {f"audio_model.{key}": value for key, value in to_transformers(below(state, AUDIO)).items()}
    mapped |= {f"text_model.{key}": value for key, value in below(state, TEXT).items()}
    for key, value in state.items():
        if key.startswith((AUDIO, TEXT, *UNUSED)):
            continue
        part, _, rest = key.partition(".")
        mapped[f"{part}.{PROJECTION.get(rest[:2], rest[:2])}{rest[2:]}" if rest else part] = value
    return mapped


def infer_text_config(text: State) -> ClapTextConfig:
    """Sizes of a RoBERTa, from the shapes of its tensors."""
    tokens, width = text["embeddings.word_embeddings.weight"].shape
    return ClapTextConfig(
        vocab_size=tokens,
        hidden_size=width,
        num_hidden_layers=1 + max(int(k.split(".")[2]) for k in text if k.startswith("encoder.layer.")),
        num_attention_heads=max(1, width // TEXT_HEAD_WIDTH),
        intermediate_size=len(text["encoder.layer.0.intermediate.dense.weight"]),
        max_position_embeddings=len(text["embeddings.position_embeddings.weight"]),
        type_vocab_size=len(text["embeddings.token_type_embeddings.weight"]),
        layer_norm_eps=TEXT_EPS,
    )


def front_end(audio: ClapAudioConfig, bins: int) -> ClapFeatureExtractor:
    """As LAION's training had it; hop, rate and range are in none of the tensors, and the same in all of the files."""
    return ClapFeatureExtractor(
        feature_size=audio.num_mel_bins, sampling_rate=SAMPLE_RATE, hop_length=HOP, max_length_s=SECONDS, fft_window_size=2 * (bins - 1),
        frequency_min=LOW, frequency_max=HIGH, truncation="fusion" if audio.enable_fusion else "rand_trunc", padding="repeatpad",
    )  # fmt: skip


class LaionEncoder(ClapEncoder):
    """One of LAION's files. RoBERTa's tokenizer is looked for beside it, then on the hub, at the first text."""

    policy: Preprocessing

    def __init__(self, path: str | Path, name: str | None = None, device: str | torch.device = "cpu", revision: str | None = None) -> None:
        self.path, self.name = Path(path), name or str(path)
        self.source, state = str(self.path.parent), read_state(self.path)
        try:
            audio, text = infer_audio_config(below(state, AUDIO)), infer_text_config(below(state, TEXT))
            joint, filters = len(state["audio_projection.0.weight"]), state[MEL_FILTERS].clone()
        except (KeyError, ValueError, IndexError, RuntimeError, TypeError) as error:
            raise EncoderError(f"{self.path}: a tensor is missing or of another shape than in LAION's files ({error})") from error
        for part in (audio, text):
            check_numbers(part.to_dict(), self.path)
        audio.projection_dim = text.projection_dim = joint
        config = ClapConfig(audio_config=audio.to_dict(), text_config=text.to_dict(), projection_dim=joint)
        check_count(lambda: ClapModel(config), self.path.stat().st_size, self.path)
        module = ClapModel(config)
        load_exactly(module, to_clap(state), self.path)
        check_finite(module, self.path)
        self.extractor = front_end(audio, len(filters))
        self.put_around(module.eval().to(device), self.extractor)
        if not self.policy.fusion:
            drawn = mel_filters(self.policy.mel)
            if drawn.shape != filters.shape or not torch.allclose(drawn, filters, atol=1e-5):
                raise EncoderError(f"{self.path}: its filterbank is not that of LAION's files ({SAMPLE_RATE} Hz, {LOW} to {HIGH} Hz)")
        self.revision = revision or file_digest(self.path)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        beside = any((self.path.parent / f).exists() for f in ("tokenizer.json", "vocab.json"))
        source = self.source if beside else ROBERTA
        tokenizer: PreTrainedTokenizerBase = open_tokenizer(AutoTokenizer, source, f"put roberta-base's tokenizer.json beside {self.path}")
        tokenizer.model_max_length = TEXT_LENGTH
        return tokenizer

    def write(self, folder: Path) -> Path:
        """A directory as the hub has them for transformers; with a tokenizer, where one is at hand."""
        self.module.save_pretrained(folder)
        self.extractor.save_pretrained(folder)
        with suppress(EncoderError):
            self.tokenizer.save_pretrained(folder)
        return folder


def open_laion(source: str, device: str | torch.device, options: Loading) -> Encoder:
    """A file, or one of LAION's by its name from the hub."""
    path = Path(source).expanduser()
    if path.exists():
        return LaionEncoder(path, source, device)
    name, revision = split_revision(source)
    if name not in FILES:
        raise EncoderError(f"{path}: no such file; LAION's are in the hub repository {REPO}, and open by their names: {', '.join(FILES)}")
    found, commit = hub_file(REPO, name, revision)
    encoder = LaionEncoder(found, name, device, commit)
    encoder.repository = REPO
    return encoder


ENCODERS.add(
    EncoderKind(
        "laion",
        open_laion,
        suffixes=(".pt",),
        known=tuple(
            KnownModel(name, f"LAION CLAP, original file: {what}", f"{HUB}, and roberta-base's tokenizer for texts")
            for name, what in FILES.items()
        ),
        order=15,
    )
)
