"""What a training is judged by after every epoch: synthesised takes and a soundfont, none of which it is trained on."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import ClapModel, RobertaTokenizer

from residual_audio.data.synthesis import TASKS

from .instruments import FAMILIES, PROGRAMS
from .pool import Pool, make_pool, soundfont_jobs, synthetic_jobs
from .sounds import FONTS

# Evaluation takes are numbered from here, so that no training take is ever among them.
FIRST_TAKE = 10_000_000
ASKED = ("keyboard", "mallet", "organ", "guitar", "bass", "string", "brass", "reed", "flute", "vocal")
Check = tuple[Pool, list[str], Tensor]


def judged_pools(cache: Path, takes: int, soundfonts: bool) -> dict[str, Check]:
    """Name → clips, class names for prompts, class numbers. Instruments are asked for by their own names, families by their plainest."""
    checks: dict[str, Check] = {}
    for task, kinds in TASKS.items():
        pool, vocabulary = make_pool(synthetic_jobs(takes, FIRST_TAKE, task), cache, f"held-out {task}")
        names = [kind.label for kind in kinds]
        targets = torch.tensor([names.index(vocabulary["labels"][i]) for i in pool.labels.tolist()])
        checks[task] = (pool, names, targets)
    if soundfonts:
        jobs = [j for j in soundfont_jobs(6, FIRST_TAKE, [len(FONTS) - 1]) if j.kind == "program"]
        pool, vocabulary = make_pool(jobs, cache, "held-out soundfont")
        families = {p.label: p.families for p in PROGRAMS.values()}
        family = [next((f for f in families.get(vocabulary["labels"][i], ()) if f in ASKED), None) for i in pool.labels.tolist()]
        keep = [i for i, f in enumerate(family) if f]
        checks["family"] = (only(pool, keep), [FAMILIES[f][0] for f in ASKED], torch.tensor([ASKED.index(family[i]) for i in keep]))
        checks["instrument"] = (pool, vocabulary["labels"], pool.labels)
    return checks


def only(pool: Pool, rows: list[int]) -> Pool:
    return Pool(
        pool.mels[rows], pool.labels[rows], [pool.texts[i] for i in rows], pool.names_class[rows], pool.has[rows], pool.claims[rows]
    )


@torch.inference_mode()
def judge(model: ClapModel, tokenizer: RobertaTokenizer, checks: dict[str, Check]) -> dict[str, float]:
    """Zero-shot accuracy of every check."""
    was, norm = model.training, model.audio_model.audio_encoder.batch_norm
    model.eval()
    found = {}
    for name, (pool, classes, targets) in checks.items():
        prompts = [f"this is the sound of {label}" for label in classes]
        text = F.normalize(model.get_text_features(**tokenizer(prompts, padding=True, return_tensors="pt")).pooler_output, dim=-1)
        audio = torch.cat([model.get_audio_features(input_features=part.float()[:, None]).pooler_output for part in pool.mels.split(128)])
        found[f"zero_shot_{name}"] = round((F.normalize(audio, dim=-1) @ text.T).argmax(1).eq(targets).float().mean().item(), 4)
    model.train(was)
    norm.train(False)
    return found
