"""An encoder as mteb takes it (2.x, MAEB): ``mteb.evaluate(to_mteb(encoder), tasks)``.

Sounds go through the encoder's own front end: its rate, its window, its filterbank, nothing random. Neither torchaudio nor torchcodec is
needed: files are decoded by soundfile.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import soundfile

try:
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction
except ImportError as error:
    raise ImportError("ra.to_mteb needs mteb 2: pip install 'residual-audio[mteb]'") from error

from .audio import AudioSource, Waveform
from .media import MediaError
from .models import Encoder, EncoderError

AT_ONCE = 256  # rows that are taken from a dataset at a time


@dataclass(frozen=True)
class Encoded:
    """The bytes of a sound file inside a dataset; decoded when its turn comes."""

    content: bytes

    def waveform(self) -> Waveform:
        try:
            samples, rate = soundfile.read(io.BytesIO(self.content), dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise MediaError(f"a sound inside the dataset cannot be decoded ({error})") from error
        return Waveform(samples, rate)


def source_of(sound: Any) -> AudioSource:
    """What a row of a dataset has as its sound: a file, its bytes, or samples with their rate."""
    if sound.get("bytes") is not None:
        return Encoded(sound["bytes"])
    if sound.get("path"):
        return str(sound["path"])
    return Waveform(np.asarray(sound["array"], np.float32), int(sound["sampling_rate"]))


class MtebEncoder(AbsEncoder):
    """What :func:`to_mteb` gives. Embeddings have unit length."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.mteb_model_meta = meta_of(encoder, self)

    def get_audio_embeddings(self, inputs: Any, batch_size: int = 16, **kwargs: Any) -> np.ndarray:
        """Of the column ``audio``, in order."""
        from datasets import Audio

        rows = inputs.dataset.select_columns(["audio"])
        if isinstance(rows.features["audio"], Audio):
            rows = rows.cast_column("audio", Audio(decode=False))
        parts = []
        for start in range(0, len(rows), AT_ONCE):
            sounds = rows[start : start + AT_ONCE]["audio"]
            parts.append(self.encoder.embed([source_of(sound) for sound in sounds], batch_size=batch_size).float().cpu().numpy())
        return np.concatenate(parts)

    def get_text_embeddings(self, inputs: Any, batch_size: int = 64, **kwargs: Any) -> np.ndarray:
        """Of the column ``text``, in order."""
        texts = [str(text) for text in inputs.dataset["text"]]
        return self.encoder.embed_text(texts, batch_size).float().cpu().numpy()

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        batch_size: int = 16,
        **kwargs: Any,
    ) -> np.ndarray:
        """Sounds or texts; the sum of both where rows have both, as mteb's own models of sounds and texts do it."""
        columns = inputs.dataset.column_names
        parts = []
        if "text" in columns:
            parts.append(self.get_text_embeddings(inputs, batch_size))
        if "audio" in columns:
            parts.append(self.get_audio_embeddings(inputs, batch_size))
        if not parts:
            raise EncoderError(f"{task_metadata.name}: neither sounds nor texts, but {', '.join(columns)}; choose tasks of MAEB")
        return np.sum(parts, axis=0)


def meta_of(encoder: Encoder, model: MtebEncoder) -> ModelMeta:
    """What mteb records of a model. It bears a name of its own, so that results are not mistaken for those of mteb's implementation."""

    def residual_audio_encoder(*args: Any, **kwargs: Any) -> Any:
        return model

    weights = sum(p.numel() for p in encoder.module.parameters())
    return ModelMeta(
        loader=residual_audio_encoder,
        name=f"residual-audio/{encoder.name.strip('/').replace('/', '__')}",
        revision=encoder.revision,
        adapted_from=encoder.name,
        release_date=None,
        languages=["eng-Latn"] if encoder.has_text else None,
        n_parameters=weights,
        memory_usage_mb=round(weights * encoder.dtype.itemsize / 2**20),
        max_tokens=None,
        embed_dim=encoder.dim,
        license=None,
        open_weights=True,
        public_training_code=None,
        public_training_data=None,
        framework=["PyTorch"],
        similarity_fn_name=ScoringFunction.COSINE,
        use_instructions=False,
        training_datasets=None,
        modalities=["audio", "text"] if encoder.has_text else ["audio"],
    )


def to_mteb(encoder: Encoder) -> MtebEncoder:
    """A model for ``mteb.evaluate``: any encoder of sounds, also an adapted and folded one."""
    if encoder.media != "sounds":
        raise EncoderError(f"{encoder.name} takes images; ra.to_mteb is for encoders of sounds")
    return MtebEncoder(encoder)
