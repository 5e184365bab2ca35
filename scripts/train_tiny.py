"""Train ``tiny``, the small CLAP that the package ships, from scratch, on synthesised sounds and captions only.

    .venv/bin/python scripts/train_tiny.py --out src/residual_audio/models/tiny

It has the topology of the real HTS-AT (depths 2-2-6-2, heads 4-8-16-32, patch merging, shifted windows) at
eight channels per head on a 32 × 32 grid. Seeded; the log with every figure is written beside the weights.
The loss is CLAP's symmetric cross-entropy, but since it is known which captions are true of which sounds,
every true pair in the batch is a positive. During the first half both towers are also drawn towards one
learned anchor per class (discarded afterwards): without it they wait for each other and nothing moves.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import track
from safetensors.torch import save_file
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor
from transformers import ClapConfig, ClapFeatureExtractor, ClapModel, RobertaTokenizer

from residual_audio.audio import MelSpec, log_mel
from residual_audio.data.synthesis import RATE, TASKS, draw_caption, take
from residual_audio.data.synthesis.captions import SYNONYMS

HEADS, DEPTHS, D_HEAD = [4, 8, 16, 32], [2, 2, 6, 2], 8
WORDS = sorted(SYNONYMS)
MEL = MelSpec(n_fft=1024, hop=256, mels=64, filter_rate=RATE, f_min=50, f_max=7600)
CAPTIONS, GROUP = 4, 4
# Evaluation takes are numbered from here, so that no training take is ever among them.
HELD_OUT = 10_000_000


@dataclass
class Pool:
    """Rendered clips: log-mels, class numbers, true words as bit sets, and captions with what each claims."""

    mels: Tensor
    labels: Tensor
    words: Tensor
    texts: list[list[str]]
    claimed_label: Tensor
    claimed_words: Tensor


def bits(words: frozenset[str]) -> int:
    return sum(1 << WORDS.index(w) for w in words)


def render(job: tuple[str, int, int]) -> tuple[np.ndarray, int, list[tuple[str, int, int]]]:
    task, index, seed = job
    torch.set_num_threads(1)
    clip = take(task, index, seed)
    mel = log_mel(torch.from_numpy(clip.samples), MEL).half().numpy()
    kind, rng = TASKS[task][index], np.random.default_rng([index, seed])
    captions = [clip.caption, *(draw_caption(rng, kind.label, kind.nouns, clip.words) for _ in range(CAPTIONS - 1))]
    return mel, bits(clip.words), [(c.text, -1 if c.label is None else index, bits(c.words)) for c in captions]


def make_pool(task: str, per_class: int, first_seed: int, title: str) -> Pool:
    jobs = [(task, i, first_seed + s) for i, kind in enumerate(TASKS[task]) for s in range(per_class * kind.variety)]
    with ProcessPoolExecutor() as pool:
        done = list(track(pool.map(render, jobs, chunksize=64), title, total=len(jobs)))
    return Pool(
        mels=torch.from_numpy(np.stack([d[0] for d in done])),
        labels=torch.tensor([j[1] for j in jobs]),
        words=torch.tensor([d[1] for d in done]),
        texts=[[c[0] for c in d[2]] for d in done],
        claimed_label=torch.tensor([[c[1] for c in d[2]] for d in done]),
        claimed_words=torch.tensor([[c[2] for c in d[2]] for d in done]),
    )


def make_tokenizer(texts: list[str], folder: Path) -> RobertaTokenizer:
    bpe = ByteLevelBPETokenizer(add_prefix_space=True)
    bpe.train_from_iterator(
        texts, vocab_size=900, min_frequency=2, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False
    )
    vocabulary, merges = json.loads(bpe.to_str())["model"]["vocab"], json.loads(bpe.to_str())["model"]["merges"]
    tokenizer = RobertaTokenizer(vocab=vocabulary, merges=[tuple(m) for m in merges], add_prefix_space=True, model_max_length=64)
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(vocabulary: int) -> ClapModel:
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
    return model


def augmented(mels: Tensor, rng: np.random.Generator) -> Tensor:
    """Another loudness, another start (sounds go round), and one band or stretch missing."""
    mels = mels.float()
    mels = mels + torch.from_numpy(rng.uniform(-8, 8, (len(mels), 1, 1)).astype(np.float32))
    for i, shift in enumerate(rng.integers(-60, 61, len(mels))):
        mels[i] = mels[i].roll(int(shift), 0)
        if rng.random() < 0.3:
            start, width = int(rng.integers(0, 56)), int(rng.integers(2, 8))
            mels[i, :, start : start + width] = mels[i].mean()
    return mels


def truth(pool: Pool, rows: Tensor, caption: Tensor) -> Tensor:
    """``[clip, caption]``: is the caption true of the clip?"""
    label, words = pool.claimed_label[rows, caption], pool.claimed_words[rows, caption]
    same = (label[None] == -1) | (label[None] == pool.labels[rows, None])
    return same & ((words[None] & ~pool.words[rows, None]) == 0)


def anchored(audio: Tensor, text: Tensor, anchors: Tensor, label: Tensor, claimed: Tensor) -> Tensor:
    """Cross-entropy of both towers against one learned direction per class; captions that name no class are skipped."""
    anchors, named = 14 * F.normalize(anchors, dim=-1), claimed >= 0
    return F.cross_entropy(audio @ anchors.T, label) + F.cross_entropy(text[named] @ anchors.T, claimed[named])


def grouped_batches(labels: Tensor, size: int, rng: np.random.Generator) -> list[Tensor]:
    """One epoch in batches of ``size`` made of groups of one class, so that words, not only classes, must be told apart."""
    groups = []
    for label in labels.unique():
        rows = torch.from_numpy(rng.permutation((labels == label).nonzero()[:, 0].numpy()))
        groups += [g for g in rows.split(GROUP) if len(g) == GROUP]
    order = rng.permutation(len(groups))
    per_batch = size // GROUP
    return [torch.cat([groups[i] for i in order[k : k + per_batch]]) for k in range(0, len(groups) - per_batch + 1, per_batch)]


def contrastive(logits: Tensor, true: Tensor) -> Tensor:
    target = true.float() / true.sum(1, keepdim=True)
    return -(target * F.log_softmax(logits, 1)).sum(1).mean()


@torch.inference_mode()
def zero_shot(model: ClapModel, tokenizer: RobertaTokenizer, pool: Pool, task: str) -> float:
    model.eval()
    prompts = [f"this is the sound of {kind.label}" for kind in TASKS[task]]
    text = F.normalize(model.get_text_features(**tokenizer(prompts, padding=True, return_tensors="pt")).pooler_output, dim=-1)
    audio = [model.get_audio_features(input_features=part.float()[:, None]).pooler_output for part in pool.mels.split(128)]
    model.train()
    return (F.normalize(torch.cat(audio), dim=-1) @ text.T).argmax(1).eq(pool.labels).float().mean().item()


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


def write_card(folder: Path) -> None:
    """README.md of the checkpoint, with the figures of its training log."""
    log = json.loads((folder / "training.json").read_text())
    columns = ("zero_shot_source", "zero_shot_timbre", "zero_shot_voice")
    cells = [[str(e["epoch"]), f"{e['loss']:.2f}", *(f"{100 * e[c]:.1f}" for c in columns)] for e in log["epochs"]]
    rows = "\n".join(f"| {' | '.join(row)} |" for row in cells)
    source, timbre, voice = (len(TASKS[task]) for task in ("source", "timbre", "voice"))
    heads = sum(d * h for d, h in zip(DEPTHS, HEADS, strict=True))
    card = f"""# tiny

A small CLAP with the topology of the real HTS-AT: depths {DEPTHS}, heads {HEADS}, {heads} heads in all, {D_HEAD} channels each,
on a 32 × 32 grid of tokens with windows of 4 × 4; {log["parameters"]:,} parameters with a RoBERTa-like text side. A standard
transformers checkpoint (`ClapModel.from_pretrained`), weights in half precision, loaded as float32. 4 s of 16 kHz audio, 64 mels.

Trained from scratch on {log["clips"]:,} synthesised clips of {source} classes with captions, by

    python scripts/train_tiny.py --out src/residual_audio/models/tiny

in {log["epochs"][-1]["minutes"]:.0f} minutes on 2 cores of a busy machine. Zero-shot accuracy in percent on takes not used for training,
20 per class (more for classes of great variety): the {source} source classes, and the two tasks it was not trained on
({timbre} timbres, {voice} voices):

| epoch | loss | source | timbre | voice |
|---|---|---|---|---|
{rows}

It knows only synthetic sounds. Use it to try things out and to test; it is not a model of real recordings.
"""
    (folder / "README.md").write_text(card)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory of the checkpoint")
    parser.add_argument(
        "--per-class", type=int, default=500, help="training clips of each source class (a multiple for classes of great variety)"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0, choices=range(10), help="takes from seed × 1,000,000 on; held-out takes begin later")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng, began = np.random.default_rng(args.seed), time.time()
    args.out.mkdir(parents=True, exist_ok=True)
    pool = make_pool("source", args.per_class, args.seed * 1_000_000, "training clips")
    checks = {task: make_pool(task, 20, HELD_OUT, f"held-out {task}") for task in TASKS}
    tokenizer = make_tokenizer([t for texts in pool.texts for t in texts], args.out)
    model = make_model(len(tokenizer))
    log = {
        "settings": {k: str(v) for k, v in vars(args).items() if k != "out"},
        "clips": len(pool.labels),
        "parameters": model.num_parameters(),
        "epochs": [],
    }
    print(
        f"{log['clips']} clips of {len(TASKS['source'])} classes, {log['parameters']:,} parameters, {time.time() - began:.0f} s", flush=True
    )

    anchors = torch.nn.Parameter(torch.randn(len(TASKS["source"]), model.config.projection_dim))
    decayed = [p for n, p in model.named_parameters() if p.ndim > 1 and "relative_position" not in n]
    plain = [p for n, p in model.named_parameters() if p.ndim <= 1 or "relative_position" in n]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": [*plain, anchors], "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    total, step = len(grouped_batches(pool.labels, args.batch_size, rng)) * args.epochs, 0
    for epoch in range(args.epochs):
        losses = []
        for rows in track(grouped_batches(pool.labels, args.batch_size, rng), f"epoch {epoch + 1}/{args.epochs}"):
            caption = torch.from_numpy(rng.integers(0, CAPTIONS, len(rows)))
            tokens = tokenizer(
                [pool.texts[r][c] for r, c in zip(rows.tolist(), caption.tolist(), strict=True)], padding=True, return_tensors="pt"
            )
            audio = F.normalize(model.get_audio_features(input_features=augmented(pool.mels[rows], rng)[:, None]).pooler_output, dim=-1)
            text = F.normalize(model.get_text_features(**tokens).pooler_output, dim=-1)
            true, cosine = truth(pool, rows, caption), audio @ text.T
            loss = contrastive(model.logit_scale_a.exp() * cosine, true) + contrastive(model.logit_scale_t.exp() * cosine.T, true.T)
            warm, progress = min(1.0, step / 100), step / total
            if progress < 0.5:
                loss = loss + (1 - 2 * progress) * anchored(audio, text, anchors, pool.labels[rows], pool.claimed_label[rows, caption])
            for group in optimiser.param_groups:
                group["lr"] = args.lr * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            with torch.no_grad():
                model.logit_scale_a.clamp_(max=math.log(100))
                model.logit_scale_t.clamp_(max=math.log(100))
            losses.append(loss.item())
            step += 1
        row = {"epoch": epoch + 1, "loss": round(float(np.mean(losses[-50:])), 4), "minutes": round((time.time() - began) / 60, 1)}
        row |= {f"zero_shot_{task}": round(zero_shot(model, tokenizer, check, task), 4) for task, check in checks.items()}
        row["logit_scale"] = round(model.logit_scale_a.exp().item(), 2)
        log["epochs"].append(row)
        print(row, flush=True)
        save(model, args.out)
        (args.out / "training.json").write_text(json.dumps(log, indent=1) + "\n")
        write_card(args.out)


if __name__ == "__main__":
    main()
