"""Train ``tiny``, the small CLAP that the package ships, from scratch, on synthesised sounds and real ones that may be trained on.

    apt-get install fluidsynth fluid-soundfont-gm musescore-general-soundfont csound-soundfont timgm6mb-soundfont \
        tuxpaint-stamps-default sonic-pi-samples sound-theme-freedesktop
    pip install pyfluidsynth
    python scripts/train_tiny.py --out src/residual_audio/models/tiny --work runs/tiny

Real sounds: instruments, drums and effects rendered from Debian's soundfonts, and recordings from other Debian packages,
each heard in many rooms and through many microphones. It has the topology of the real HTS-AT (depths 2-2-6-2, heads
4-8-16-32, patch merging, shifted windows) at eight channels per head on a 32 × 32 grid. The loss is CLAP's symmetric
cross-entropy, but since it is known which captions are true of which sounds, every true pair in the batch is a positive.
At first both towers are also drawn towards one learned anchor per class (discarded afterwards): without it they wait for
each other and nothing moves.

Seeded, one process per core, resumable: the same command goes on from the last saved step, and the weights are the same as without a stop.
Every setting is judged by a soundfont that is never trained on; real recordings are looked at once, by ``scripts/hear_real_sounds.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from rich.progress import Progress
from tiny.augment import augmented
from tiny.card import write_card
from tiny.judge import judge, judged_pools
from tiny.network import make_model, make_tokenizer, save
from tiny.pool import Pool, make_pool, recording_jobs, soundfont_jobs, synthetic_jobs
from tiny.sounds import CAPTIONS
from torch import Tensor
from transformers import ClapModel, RobertaTokenizer

from residual_audio.models.precision import PRECISIONS, chosen_precision, cpu_name

GROUP = 2
SAVE_EVERY = 100
# The share of the steps during which anchors help, less and less.
ANCHORED = 0.6


@dataclass(frozen=True)
class Plan:
    out: Path
    work: Path
    per_class: int
    per_weight: int
    per_recording: int
    epochs: int
    batch_size: int
    judged: int
    rate: float
    seed: int
    processes: int
    bf16: bool

    @property
    def settings(self) -> dict[str, object]:
        return {k: v for k, v in vars(self).items() if k not in ("out", "work")}


def anchored(audio: Tensor, text: Tensor, anchors: Tensor, label: Tensor, named: Tensor) -> Tensor:
    """Cross-entropy of both towers against one learned direction per class; captions that do not name their class are skipped."""
    anchors = 14 * F.normalize(anchors, dim=-1)
    loss = F.cross_entropy(audio @ anchors.T, label)
    return loss + F.cross_entropy(text[named] @ anchors.T, label[named]) if named.any() else loss


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


def batch_loss(
    plan: Plan, model: ClapModel, tokenizer: RobertaTokenizer, anchors: Tensor, pool: Pool, rows: Tensor, key: list[int], progress: float
) -> Tensor:
    """The loss of one process's batch. Everything random is drawn from ``key``, so that a resumed training draws the same."""
    rng = np.random.default_rng(key)
    torch.manual_seed(int(rng.integers(2**62)))
    caption = torch.from_numpy(rng.integers(0, CAPTIONS, len(rows)))
    tokens = tokenizer([pool.texts[r][c] for r, c in zip(rows.tolist(), caption.tolist(), strict=True)], padding=True, return_tensors="pt")
    features = augmented(pool.mels[rows], rng)[:, None]
    with torch.autocast("cpu", torch.bfloat16, enabled=plan.bf16):
        heard = model.get_audio_features(input_features=features).pooler_output
        read = model.get_text_features(**tokens).pooler_output
    audio, text = F.normalize(heard.float(), dim=-1), F.normalize(read.float(), dim=-1)
    true, cosine = pool.truth(rows, caption), audio @ text.T
    loss = contrastive(model.logit_scale_a.exp() * cosine, true) + contrastive(model.logit_scale_t.exp() * cosine.T, true.T)
    if progress < ANCHORED:
        loss = loss + (1 - progress / ANCHORED) * anchored(audio, text, anchors, pool.labels[rows], pool.names_class[rows, caption])
    return loss


def average(parameters: list[Tensor], processes: int) -> None:
    """Gradients of all processes, averaged: every process then takes the same step."""
    if processes == 1:
        return
    flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in parameters])
    dist.all_reduce(flat)
    for p, part in zip(parameters, (flat / processes).split([p.numel() for p in parameters]), strict=True):
        p.grad = part.view_as(p)


class Trainer:
    """The whole state of a training: what is saved every hundred steps, and what a resumed one begins with."""

    def __init__(self, plan: Plan, pool: Pool, classes: int, tokenizer: RobertaTokenizer) -> None:
        torch.manual_seed(plan.seed)
        self.plan, self.pool, self.tokenizer = plan, pool, tokenizer
        self.model = make_model(len(tokenizer), pool.mels)
        self.anchors = torch.nn.Parameter(torch.randn(classes, self.model.config.projection_dim))
        named = list(self.model.named_parameters())
        decayed = [p for n, p in named if p.ndim > 1 and "relative_position" not in n]
        plain = [p for n, p in named if p.ndim <= 1 or "relative_position" in n]
        groups = [{"params": decayed, "weight_decay": 0.05}, {"params": [*plain, self.anchors], "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98))
        self.parameters = [*decayed, *plain, self.anchors]
        self.step, self.losses, self.rows, self.seconds = 0, list[float](), list[dict[str, object]](), 0.0

    @property
    def file(self) -> Path:
        return self.plan.work / "state.pt"

    def save(self) -> None:
        state = {"settings": json.dumps(self.plan.settings), "model": self.model.state_dict(), "anchors": self.anchors.data,
                 "optimiser": self.optimiser.state_dict(), "step": self.step, "losses": self.losses, "rows": json.dumps(self.rows),
                 "seconds": self.seconds}  # fmt: skip
        part = self.file.with_suffix(".part")
        torch.save(state, part)
        part.rename(self.file)

    def resume(self) -> None:
        if not self.file.exists():
            return
        state = torch.load(self.file, weights_only=True)
        if state["settings"] != json.dumps(self.plan.settings):
            raise SystemExit(f"{self.file} was begun with other settings; remove it or use another --work")
        self.model.load_state_dict(state["model"])
        self.anchors.data.copy_(state["anchors"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.losses, self.rows, self.seconds = state["step"], state["losses"], json.loads(state["rows"]), state["seconds"]

    def advance(self, rows: list[Tensor], rank: int, total: int) -> None:
        """One step from one batch per process."""
        plan, progress = self.plan, self.step / total
        loss = batch_loss(plan, self.model, self.tokenizer, self.anchors, self.pool, rows[rank], [plan.seed, 1, self.step, rank], progress)
        for group in self.optimiser.param_groups:
            group["lr"] = plan.rate * min(1.0, (self.step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        self.optimiser.zero_grad()
        loss.backward()
        average(self.parameters, plan.processes)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        with torch.no_grad():
            self.model.logit_scale_a.clamp_(max=math.log(100))
            self.model.logit_scale_t.clamp_(max=math.log(100))
        self.losses = [*self.losses[-49:], loss.item()]
        self.step += 1


def jobs_of(plan: Plan) -> dict[str, list]:
    first = plan.seed * 1_000_000
    return {
        "synthesised": synthetic_jobs(plan.per_class, first),
        "soundfonts": soundfont_jobs(plan.per_weight, first) if plan.per_weight else [],
        "recordings": recording_jobs(plan.per_recording, first) if plan.per_recording else [],
    }


def work(rank: int, plan: Plan, port: int) -> None:
    """One process of the training; the first one also judges and writes."""
    torch.set_num_threads(1)
    if plan.processes > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=plan.processes)
    jobs = jobs_of(plan)
    pool, vocabulary = make_pool([job for part in jobs.values() for job in part], plan.work / "cache", "training clips")
    tokenizer = make_tokenizer([t for texts in pool.texts for t in texts], plan.work / f"tokenizer-{rank}")
    trainer = Trainer(plan, pool, len(vocabulary["labels"]), tokenizer)
    trainer.resume()
    checks = judged_pools(plan.work / "cache", plan.judged, bool(plan.per_weight)) if rank == 0 else {}
    machine = f"{os.cpu_count()} cores of {cpu_name()}"
    facts = {"settings": plan.settings, "clips": {k: len(v) for k, v in jobs.items()}, "classes": len(vocabulary["labels"]),
             "concepts": len(vocabulary["concepts"]), "parameters": trainer.model.num_parameters(), "machine": machine}  # fmt: skip
    per_epoch = len(grouped_batches(pool.labels, plan.batch_size, np.random.default_rng(0))) // plan.processes
    total, began = per_epoch * plan.epochs, time.monotonic() - trainer.seconds
    with Progress(disable=rank > 0) as progress:
        bar = progress.add_task("training", total=total, completed=trainer.step)
        while trainer.step < total:
            epoch, first = divmod(trainer.step, per_epoch)
            batches = grouped_batches(pool.labels, plan.batch_size, np.random.default_rng([plan.seed, 0, epoch]))
            for k in range(first, per_epoch):
                trainer.advance(batches[k * plan.processes : (k + 1) * plan.processes], rank, total)
                progress.advance(bar)
                trainer.seconds = time.monotonic() - began
                if k + 1 == per_epoch and rank == 0:
                    row = {"epoch": epoch + 1, "loss": round(float(np.mean(trainer.losses)), 4), "minutes": round(trainer.seconds / 60, 1)}
                    row |= judge(trainer.model, tokenizer, checks)
                    row["logit_scale"] = round(trainer.model.logit_scale_a.exp().item(), 2)
                    trainer.rows.append(row)
                    print(row, flush=True)
                if rank == 0 and (trainer.step % SAVE_EVERY == 0 or k + 1 == per_epoch):
                    trainer.save()
    if rank == 0:
        tokenizer.save_pretrained(plan.out)
        save(trainer.model, plan.out)
        (plan.out / "training.json").write_text(json.dumps({**facts, "epochs": trainer.rows}, indent=1) + "\n")
        write_card(plan.out)
    if plan.processes > 1:
        dist.destroy_process_group()


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory of the checkpoint")
    parser.add_argument("--work", type=Path, required=True, help="directory for rendered clips and the state of the training (2 GB)")
    parser.add_argument(
        "--per-class", type=int, default=400, help="takes of each synthesised class (a multiple for classes of great variety)"
    )
    parser.add_argument("--per-weight", type=int, default=200, help="clips per soundfont instrument of weight one; 0: no soundfonts")
    parser.add_argument("--per-recording", type=int, default=20, help="variants of each recording; 0: none")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=64, help="clips per process and step")
    parser.add_argument("--judged", type=int, default=20, help="takes of each synthesised class that epochs are judged by")
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=0, choices=range(10), help="takes from seed × 1,000,000 on; held-out takes begin later")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--precision", choices=PRECISIONS, default="auto", help="auto: bf16 where the CPU is faster with it")
    args = parser.parse_args()
    bf16 = chosen_precision(args.precision, torch.device("cpu")) == "bf16"
    given = {k: v for k, v in vars(args).items() if k != "precision"}
    plan = Plan(**given, bf16=bf16)
    for folder in (plan.out, plan.work):
        folder.mkdir(parents=True, exist_ok=True)
    # Rendered once, before the processes of the training each open it.
    make_pool([job for part in jobs_of(plan).values() for job in part], plan.work / "cache", "training clips")
    if plan.processes == 1:
        work(0, plan, 0)
    else:
        torch.multiprocessing.spawn(work, (plan, free_port()), plan.processes)


if __name__ == "__main__":
    main()
