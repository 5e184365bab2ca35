"""The layouts of checkpoints that every contract runs over: the one list. Names are those of the fixtures that make them."""

import numpy as np
import pytest
import torch

from residual_audio.audio import Waveform
from residual_audio.models import Encoder, load_encoder

SOUNDS = ("tiny", "laion_dir", "fused_dir", "msclap_path", "whisper_dir", "ast_dir")
IMAGES = ("clip_dir", "vit_dir", "dinov2_dir")
ALL = (*SOUNDS, *IMAGES)
# Models of the layouts above in files of other names: opening them is what differs.
FILES = ("laion_path",)
# Files for engines that only infer: they hold no network, so most contracts do not concern them.
EXPORTS = ("exported_path",)
# One per architecture: `tiny` and the fused LAION are LAION's once more.
DISTINCT_SOUNDS = ("laion_dir", "msclap_path", "whisper_dir", "ast_dir")
DISTINCT = (*DISTINCT_SOUNDS, *IMAGES)


def open_layout(name: str, request: pytest.FixtureRequest, **options) -> Encoder:
    """The small encoder of that layout."""
    return load_encoder("tiny" if name == "tiny" else request.getfixturevalue(name), **options)


def clip_files(encoder: Encoder, request: pytest.FixtureRequest) -> list:
    """Seven files of the kind that the encoder takes."""
    return request.getfixturevalue("sound_files" if encoder.media == "sounds" else "image_files")


def noise(encoder: Encoder, clips: int = 3, seed: int = 0) -> torch.Tensor:
    """Model inputs of random clips, each louder than the one before."""
    rng, policy = np.random.default_rng(seed), encoder.policy
    if encoder.media == "images":
        sources = [rng.integers(0, 256, (*policy.shape, 3), dtype=np.uint8) for _ in range(clips)]
    else:
        samples = [rng.standard_normal(policy.samples).astype(np.float32) * 0.1 * (i + 1) for i in range(clips)]
        sources = [Waveform(wave, policy.sample_rate) for wave in samples]
    return torch.cat([encoder.prepare(source).features for source in sources]).to(encoder.dtype)


def first_windows(encoder: Encoder, files: list, count: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Model inputs of the first files, one window each."""
    prepared = [encoder.prepare(p) for p in files[:count]]
    return torch.cat([p.features[:1] for p in prepared]).to(encoder.dtype), torch.tensor([p.longer for p in prepared])
