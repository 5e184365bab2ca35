"""Microsoft CLAP 2023 written down once more, slowly, straight from its own state dict: an oracle, not a model.

Nothing here uses transformers' HTS-AT: attention is a loop over windows and heads, the spectrogram a loop over frames.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2Model

DEPTHS, HEADS, WIDTH, WINDOW, GRID, JOINT, TEXT_WIDTH, VOCABULARY = [2, 2, 2, 2], [1, 2, 4, 8], 4, 8, 64, 24, 64, 300
AUDIO = "audio_encoder.base.htsat."


def slaney_filters(rate: int = 32000, n_fft: int = 1024, mels: int = 64, low: float = 50, high: float = 14000) -> np.ndarray:
    """Slaney's auditory toolbox filters, triangle by triangle."""

    def hertz(mel: float) -> float:
        return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)

    def mel(f: float) -> float:
        return f * 3 / 200 if f < 1000 else 15 + 27 * math.log(f / 1000) / math.log(6.4)

    edges = [hertz(m) for m in np.linspace(mel(low), mel(high), mels + 2)]
    filters = np.zeros((n_fft // 2 + 1, mels))
    for m in range(mels):
        a, b, c = edges[m : m + 3]
        for k in range(n_fft // 2 + 1):
            f = k * rate / n_fft
            filters[k, m] = max(0.0, min((f - a) / (b - a), (c - f) / (c - b))) * 2 / (c - a)
    return filters


def log_mel(wave: np.ndarray, hop: int = 320, filters: np.ndarray | None = None) -> np.ndarray:
    """Frames of 1024 samples, reflected at both ends, in decibels: 965 of 7 s at 44.1 kHz with a hop of 320."""
    padded = np.pad(wave.astype(np.float64), 512, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    frames = [np.abs(np.fft.rfft(window * padded[i : i + 1024])) ** 2 for i in range(0, len(padded) - 1023, hop)]
    return 10 * np.log10(np.maximum(np.stack(frames) @ (slaney_filters() if filters is None else filters), 1e-10))


def random_htsat(
    state: dict[str, torch.Tensor], prefix: str, g: torch.Generator, width: int, depths: list[int], all_heads: list[int]
) -> None:
    """Every key that HTS-AT has in its authors' files, with small random tensors; the filterbank is left to the caller."""

    def put(key: str, *shape: int, around: float = 0.0, scale: float = 0.15) -> None:
        state[prefix + key] = around + scale * torch.randn(shape, generator=g)

    def norm(key: str, width: int) -> None:
        put(f"{key}.weight", width, around=1.0)
        put(f"{key}.bias", width)

    def linear(key: str, rows: int, columns: int, bias: bool = True) -> None:
        put(f"{key}.weight", rows, columns, scale=0.6 / math.sqrt(columns))
        if bias:
            put(f"{key}.bias", rows)

    norm("bn0", 64)
    state[prefix + "bn0.running_mean"] = torch.randn(64, generator=g) - 20
    state[prefix + "bn0.running_var"] = 200 + 50 * torch.rand(64, generator=g)
    state[prefix + "bn0.num_batches_tracked"] = torch.tensor(7)
    put("patch_embed.proj.weight", width, 1, 4, 4)
    put("patch_embed.proj.bias", width)
    norm("patch_embed.norm", width)
    for s, (depth, heads) in enumerate(zip(depths, all_heads, strict=True)):
        d, side = width * 2**s, GRID // 2**s
        for b in range(depth):
            at = f"layers.{s}.blocks.{b}"
            norm(f"{at}.norm1", d)
            norm(f"{at}.norm2", d)
            linear(f"{at}.attn.qkv", 3 * d, d)
            linear(f"{at}.attn.proj", d, d)
            put(f"{at}.attn.relative_position_bias_table", (2 * WINDOW - 1) ** 2, heads)
            state[prefix + f"{at}.attn.relative_position_index"] = position_index()
            linear(f"{at}.mlp.fc1", 4 * d, d)
            linear(f"{at}.mlp.fc2", d, 4 * d)
            if b % 2 == 1 and side > WINDOW:
                state[prefix + f"{at}.attn_mask"] = torch.zeros((side // WINDOW) ** 2, WINDOW**2, WINDOW**2)
        if s < len(depths) - 1:
            linear(f"layers.{s}.downsample.reduction", 2 * d, 4 * d, bias=False)
            norm(f"layers.{s}.downsample.norm", 4 * d)
    last = width * 2 ** (len(depths) - 1)
    norm("norm", last)
    linear("head", 527, 527)
    put("tscam_conv.weight", 527, last, 2, 3)
    put("tscam_conv.bias", 527)


def random_state(seed: int = 0) -> dict[str, torch.Tensor]:
    """Every key that the published checkpoint has, with small random tensors."""
    g = torch.Generator().manual_seed(seed)
    state: dict[str, torch.Tensor] = {}
    state[AUDIO + "spectrogram_extractor.stft.conv_real.weight"] = torch.zeros(513, 1, 4)
    state[AUDIO + "logmel_extractor.melW"] = torch.from_numpy(slaney_filters()).float()
    random_htsat(state, AUDIO, g, WIDTH, DEPTHS, HEADS)
    state |= projection("audio_encoder.projection.", WIDTH * 2 ** (len(DEPTHS) - 1), g)
    torch.manual_seed(seed)
    text = GPT2Model(GPT2Config(vocab_size=VOCABULARY, n_positions=80, n_embd=TEXT_WIDTH, n_layer=2, n_head=1)).state_dict()
    state |= {f"caption_encoder.base.{k}": v for k, v in text.items()}
    state["caption_encoder.base.h.0.attn.bias"] = torch.ones(1, 1, 80, 80).tril()
    state |= projection("caption_encoder.projection.", TEXT_WIDTH, g)
    state["logit_scale"] = torch.tensor(math.log(1 / 0.07))
    return state


def projection(prefix: str, width: int, g: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}linear1.weight": torch.randn(JOINT, width, generator=g) / math.sqrt(width),
        f"{prefix}linear2.weight": torch.randn(JOINT, JOINT, generator=g) / math.sqrt(JOINT),
        f"{prefix}layer_norm.weight": 1 + 0.1 * torch.randn(JOINT, generator=g),
        f"{prefix}layer_norm.bias": 0.1 * torch.randn(JOINT, generator=g),
    }


def position_index() -> torch.Tensor:
    rows, columns = np.divmod(np.arange(WINDOW**2), WINDOW)
    down = rows[:, None] - rows[None] + WINDOW - 1
    across = columns[:, None] - columns[None] + WINDOW - 1
    return torch.from_numpy(down * (2 * WINDOW - 1) + across)


def layer_norm(x: torch.Tensor, state: dict, key: str) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5) * state[f"{key}.weight"] + state[f"{key}.bias"]


def attention(x: torch.Tensor, state: dict, at: str, heads: int, shift: int) -> torch.Tensor:
    """``x [side, side, d]``: every token attends to the tokens of its (shifted) window that are its true neighbours."""
    side, d = x.shape[0], x.shape[-1]
    width = d // heads
    table = state[f"{at}.attn.relative_position_bias_table"]
    out = torch.zeros_like(x)
    starts = range(shift - WINDOW if shift else 0, side, WINDOW)
    for top in starts:
        for left in starts:
            cells = [(r, c) for r in range(top, top + WINDOW) for c in range(left, left + WINDOW) if 0 <= r < side and 0 <= c < side]
            rows = torch.tensor([r for r, _ in cells])
            columns = torch.tensor([c for _, c in cells])
            tokens = x[rows, columns]
            qkv = tokens @ state[f"{at}.attn.qkv.weight"].T + state[f"{at}.attn.qkv.bias"]
            offsets = (rows[:, None] - rows[None] + WINDOW - 1) * (2 * WINDOW - 1) + columns[:, None] - columns[None] + WINDOW - 1
            mixed = []
            for h in range(heads):
                q, k, v = (qkv[:, i * d + h * width : i * d + (h + 1) * width] for i in range(3))
                mixed.append(torch.softmax(q @ k.T / math.sqrt(width) + table[offsets, h], -1) @ v)
            out[rows, columns] = torch.cat(mixed, -1) @ state[f"{at}.attn.proj.weight"].T + state[f"{at}.attn.proj.bias"]
    return out


def audio_embedding(state: dict[str, torch.Tensor], wave: np.ndarray) -> torch.Tensor:
    """One waveform of 7 s at 44.1 kHz → the joint embedding, not normalised."""
    full = {k: v.double() if v.is_floating_point() else v for k, v in state.items()}
    s = {k.removeprefix(AUDIO): v for k, v in full.items()}
    mel = torch.from_numpy(log_mel(wave))
    patches = F.conv2d(as_image(mel, s)[None, None], s["patch_embed.proj.weight"], s["patch_embed.proj.bias"], stride=4)[0]
    return project(full, "audio_encoder.projection", pooled(patches, s, DEPTHS, HEADS))


def as_image(mel: torch.Tensor, s: dict[str, torch.Tensor]) -> torch.Tensor:
    """Normalised, stretched to 1024 frames, and cut into four strips of 256 that lie above each other."""
    mel = (mel - s["bn0.running_mean"]) / torch.sqrt(s["bn0.running_var"] + 1e-5) * s["bn0.weight"] + s["bn0.bias"]
    mel = F.interpolate(mel[None, None], (1024, 64), mode="bicubic", align_corners=True)[0, 0]
    return torch.cat([mel[i * 256 : (i + 1) * 256].T for i in range(4)])


def pooled(patches: torch.Tensor, s: dict[str, torch.Tensor], depths: list[int], all_heads: list[int]) -> torch.Tensor:
    """``patches [d, side, side]`` through the blocks; the mean over what is left of them."""
    x = layer_norm(patches.permute(1, 2, 0), s, "patch_embed.norm")
    for stage, (depth, heads) in enumerate(zip(depths, all_heads, strict=True)):
        for b in range(depth):
            at = f"layers.{stage}.blocks.{b}"
            shift = WINDOW // 2 if b % 2 == 1 and x.shape[0] > WINDOW else 0
            x = x + attention(layer_norm(x, s, f"{at}.norm1"), s, at, heads, shift)
            hidden = F.gelu(layer_norm(x, s, f"{at}.norm2") @ s[f"{at}.mlp.fc1.weight"].T + s[f"{at}.mlp.fc1.bias"])
            x = x + hidden @ s[f"{at}.mlp.fc2.weight"].T + s[f"{at}.mlp.fc2.bias"]
        if stage < len(depths) - 1:
            merged = torch.cat([x[0::2, 0::2], x[1::2, 0::2], x[0::2, 1::2], x[1::2, 1::2]], -1)
            x = layer_norm(merged, s, f"layers.{stage}.downsample.norm") @ s[f"layers.{stage}.downsample.reduction.weight"].T
    return layer_norm(x, s, "norm").mean((0, 1))


def project(state: dict[str, torch.Tensor], prefix: str, x: torch.Tensor) -> torch.Tensor:
    first = state[f"{prefix}.linear1.weight"] @ x
    return layer_norm(first + state[f"{prefix}.linear2.weight"] @ F.gelu(first), state, f"{prefix}.layer_norm")
