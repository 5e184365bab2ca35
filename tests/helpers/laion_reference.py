"""LAION's CLAP written down from its own state dict: every key of its layouts, and the formula from a waveform or tokens to embeddings.

Nothing here uses transformers' CLAP. The blocks of HTS-AT are those of the other reference; the text side is transformers' RoBERTa, which
LAION trained with.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from transformers import RobertaConfig, RobertaModel

from tests.helpers.msclap_reference import as_image, log_mel, pooled, random_htsat, slaney_filters

HEADS, JOINT, VOCABULARY, TEXT_WIDTH = [4, 8, 16, 32], 20, 2000, 64
# Depths of the published files; channels per head are 24 (tiny) and 32 (base) there, and 1 and 2 here.
LAYOUTS = {
    "630k-audioset-best.pt": ([2, 2, 6, 2], 4, False),
    "630k-audioset-fusion-best.pt": ([2, 2, 6, 2], 4, True),
    "music_audioset_epoch_15_esc_90.14.pt": ([2, 2, 12, 2], 8, False),
    "music_speech_audioset_epoch_15_esc_89.98.pt": ([2, 2, 12, 2], 8, False),
}
TEXT = RobertaConfig(
    vocab_size=VOCABULARY, hidden_size=TEXT_WIDTH, num_hidden_layers=2, num_attention_heads=1, intermediate_size=96,
    max_position_embeddings=90, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
)  # fmt: skip


def htk_filters(rate: int = 48000, n_fft: int = 1024, mels: int = 64, low: float = 50, high: float = 14000) -> np.ndarray:
    """Triangles that are equally wide in HTK's mels and one high, one by one."""
    edges = [700 * (10 ** (m / 2595) - 1) for m in np.linspace(*(2595 * math.log10(1 + f / 700) for f in (low, high)), mels + 2)]
    filters = np.zeros((n_fft // 2 + 1, mels))
    for m in range(mels):
        a, b, c = edges[m : m + 3]
        for k in range(n_fft // 2 + 1):
            f = k * rate / n_fft
            filters[k, m] = max(0.0, min((f - a) / (b - a), (c - f) / (c - b)))
    return filters


def random_state(depths: list[int], width: int, fused: bool, seed: int = 0) -> dict[str, torch.Tensor]:
    """Every key of a published file, in its order of parts, with small random tensors."""
    g = torch.Generator().manual_seed(seed)
    state: dict[str, torch.Tensor] = {"logit_scale_a": torch.tensor(2.9), "logit_scale_t": torch.tensor(2.7)}
    for part in ("real", "imag"):
        state[f"audio_branch.spectrogram_extractor.stft.conv_{part}.weight"] = torch.zeros(513, 1, 4)
    state["audio_branch.logmel_extractor.melW"] = torch.from_numpy(slaney_filters(48000)).float()
    random_htsat(state, "audio_branch.", g, width, depths, HEADS)
    if fused:
        at, quarter = "audio_branch.patch_embed.", width // 4
        state[f"{at}mel_conv2d.weight"] = 0.1 * torch.randn(width, 1, 4, 12, generator=g)
        state[f"{at}mel_conv2d.bias"] = 0.1 * torch.randn(width, generator=g)
        for name, first in (("local_att", 0), ("global_att", 1)):
            for number, (rows, columns) in zip((first, first + 3), ((quarter, width), (width, quarter)), strict=True):
                key = f"{at}fusion_model.{name}.{number}"
                state[f"{key}.weight"] = torch.randn(rows, columns, 1, 1, generator=g) / math.sqrt(columns)
                state[f"{key}.bias"] = 0.1 * torch.randn(rows, generator=g)
                norm = f"{at}fusion_model.{name}.{number + 1}"
                state[f"{norm}.weight"] = 1 + 0.1 * torch.randn(rows, generator=g)
                state[f"{norm}.bias"] = 0.1 * torch.randn(rows, generator=g)
                state[f"{norm}.running_mean"] = 0.1 * torch.randn(rows, generator=g)
                state[f"{norm}.running_var"] = 0.5 + torch.rand(rows, generator=g)
                state[f"{norm}.num_batches_tracked"] = torch.tensor(7)
    torch.manual_seed(seed)
    text = RobertaModel(TEXT).state_dict()
    state |= {f"text_branch.{k}": v for k, v in text.items() if not k.endswith("token_type_ids")}
    state["text_branch.embeddings.position_ids"] = torch.arange(90)[None]
    for part, columns in (("text", TEXT_WIDTH), ("audio", width * 8)):
        for number, size in ((0, JOINT), (3, JOINT)):
            state[f"{part}_transform.sequential.{number}.weight"] = torch.randn(JOINT, size, generator=g)
            state[f"{part}_transform.sequential.{number}.bias"] = torch.randn(JOINT, generator=g)
        for number, size in ((0, columns), (2, JOINT)):
            state[f"{part}_projection.{number}.weight"] = torch.randn(JOINT, size, generator=g) / math.sqrt(size)
            state[f"{part}_projection.{number}.bias"] = 0.1 * torch.randn(JOINT, generator=g)
    return state


def checkpoint(state: dict[str, torch.Tensor]) -> dict:
    """As training saves it: from parallel processes, with an optimiser and figures that are NumPy's."""
    return {
        "epoch": 15,
        "name": "a run",
        "state_dict": {f"module.{k}": v for k, v in state.items()},
        "optimizer": {"state": {0: {"step": 3, "exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": np.float64(1e-4)}]},
    }


def project(state: dict, part: str, x: torch.Tensor) -> torch.Tensor:
    """Linear, ReLU, linear."""
    hidden = torch.relu(state[f"{part}_projection.0.weight"] @ x + state[f"{part}_projection.0.bias"])
    return state[f"{part}_projection.2.weight"] @ hidden + state[f"{part}_projection.2.bias"]


def doubled(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {k: v.double() if v.is_floating_point() else v for k, v in state.items()}


def audio_embedding(state: dict[str, torch.Tensor], wave: np.ndarray, depths: list[int]) -> torch.Tensor:
    """Ten seconds at 48 kHz → the joint embedding, not normalised; without fusion."""
    full = doubled(state)
    s = {k.removeprefix("audio_branch."): v for k, v in full.items()}
    image = as_image(torch.from_numpy(log_mel(wave, 480, slaney_filters(48000))), s)
    patches = F.conv2d(image[None, None], s["patch_embed.proj.weight"], s["patch_embed.proj.bias"], stride=4)[0]
    return project(full, "audio", pooled(patches, s, depths, HEADS))


def fused_embedding(state: dict[str, torch.Tensor], mels: torch.Tensor, longer: bool, depths: list[int]) -> torch.Tensor:
    """``mels [4, frame, mel]``: the whole clip and three chunks of it. A clip that is not longer is its first mel alone."""
    full = doubled(state)
    s = {k.removeprefix("audio_branch."): v for k, v in full.items()}
    images = [as_image(mel.double(), s) for mel in mels]
    patches = F.conv2d(images[0][None, None], s["patch_embed.proj.weight"], s["patch_embed.proj.bias"], stride=4)[0]
    if longer:
        chunks = [
            F.conv2d(i[None, None], s["patch_embed.mel_conv2d.weight"], s["patch_embed.mel_conv2d.bias"], stride=(4, 12))[0]
            for i in images[1:]
        ]
        beside = torch.cat(chunks, -1)
        local = torch.zeros_like(patches)
        local[..., : beside.shape[-1]] = beside
        both = patches + local
        weight = torch.sigmoid(_attention(both, s, "local_att", 0) + _attention(both.mean((1, 2), keepdim=True), s, "global_att", 1))
        patches = 2 * patches * weight + 2 * local * (1 - weight)
    return project(full, "audio", pooled(patches, s, depths, HEADS))


def _attention(x: torch.Tensor, s: dict, name: str, first: int) -> torch.Tensor:
    """Two maps between channels, a batch norm behind each, a ReLU between them."""
    for number in (first, first + 3):
        key, norm = f"patch_embed.fusion_model.{name}.{number}", f"patch_embed.fusion_model.{name}.{number + 1}"
        x = torch.einsum("oc,chw->ohw", s[f"{key}.weight"][:, :, 0, 0], x) + s[f"{key}.bias"][:, None, None]
        scale = s[f"{norm}.weight"] / torch.sqrt(s[f"{norm}.running_var"] + 1e-5)
        x = (x - s[f"{norm}.running_mean"][:, None, None]) * scale[:, None, None] + s[f"{norm}.bias"][:, None, None]
        x = torch.relu(x) if number == first else x
    return x


def text_embedding(state: dict[str, torch.Tensor], ids: list[int]) -> torch.Tensor:
    """RoBERTa's pooled first token through the projection."""
    roberta = RobertaModel(TEXT).eval()
    keys = {k.removeprefix("text_branch."): v for k, v in state.items() if k.startswith("text_branch.") and not k.endswith("position_ids")}
    roberta.load_state_dict(keys, strict=False)
    with torch.no_grad():
        return project(state, "text", roberta(input_ids=torch.tensor([ids])).pooler_output[0])
