"""The network, its tokenizer, and the checkpoint directory."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor
from transformers import ClapConfig, ClapFeatureExtractor, ClapModel, RobertaTokenizer

from residual_audio.data.synthesis import RATE

from .sounds import MEL

HEADS, DEPTHS, D_HEAD = [4, 8, 16, 32], [2, 2, 6, 2], 8
VOCABULARY = 1600


def make_tokenizer(texts: list[str], folder: Path) -> RobertaTokenizer:
    bpe = ByteLevelBPETokenizer(add_prefix_space=True)
    bpe.train_from_iterator(
        texts, vocab_size=VOCABULARY, min_frequency=2, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False
    )
    known = json.loads(bpe.to_str())["model"]
    tokenizer = RobertaTokenizer(
        vocab=known["vocab"], merges=[tuple(m) for m in known["merges"]], add_prefix_space=True, model_max_length=64
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(vocabulary: int, mels: Tensor) -> ClapModel:
    """Seeded by torch's generator. The batch norm at its entry is set to the clips' own statistics and stays there."""
    width = HEADS[0] * D_HEAD
    config = ClapConfig(
        text_config=dict(
            vocab_size=vocabulary, hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=192,
            max_position_embeddings=80, projection_dim=128, projection_hidden_act="relu", pad_token_id=1, bos_token_id=0, eos_token_id=2,
        ),
        audio_config=dict(
            spec_size=128, window_size=4, num_mel_bins=64, patch_size=4, patch_stride=[4, 4], patch_embeds_hidden_size=width,
            hidden_size=width * 2 ** (len(DEPTHS) - 1), depths=DEPTHS, num_attention_heads=HEADS, mlp_ratio=2.0,
            projection_dim=128, projection_hidden_act="relu", drop_path_rate=0.0, enable_fusion=False,
        ),
        projection_dim=128,
    )  # fmt: skip
    model = ClapModel(config)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.xavier_uniform_(module.weight)
    norm = model.audio_model.audio_encoder.batch_norm
    some = mels[:: max(1, len(mels) // 4000)].float().flatten(0, 1)
    norm.running_mean.copy_(some.mean(0))
    norm.running_var.copy_(some.var(0))
    model.train()
    norm.train(False)
    return model


def save(model: ClapModel, folder: Path) -> None:
    """A standard checkpoint directory. Weights are kept in half precision and loaded as float32."""
    model.config.dtype = torch.float32
    model.config.architectures = ["ClapModel"]
    model.config.save_pretrained(folder)
    state = {k: (v.half() if v.is_floating_point() else v).contiguous() for k, v in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    ClapFeatureExtractor(
        feature_size=MEL.mels, sampling_rate=RATE, hop_length=MEL.hop, max_length_s=4, fft_window_size=MEL.n_fft,
        frequency_min=MEL.f_min, frequency_max=MEL.f_max, truncation="rand_trunc", padding="repeatpad",
    ).save_pretrained(folder)  # fmt: skip
