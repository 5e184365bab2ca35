"""What ``steering_page.py`` measures, part by part: steering by words and explanations, each against controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import residual_audio as ra
from residual_audio.audio import Waveform
from residual_audio.audio.decode import read
from residual_audio.data import Dataset
from residual_audio.evaluation.significance import mean_interval
from residual_audio.meaning import Explanation
from residual_audio.meaning.concepts import concepts_for
from residual_audio.meaning.faithfulness import over_clips
from residual_audio.meaning.masks import largest_cells, masked
from residual_audio.meaning.sparse import sparse_code

CONTROLS, DRAWS, WORDS, MIXES = 3, 2, 8, 30
STEERED = ("rain", "bell", "siren", "bird", "organ", "footsteps")
NOTES = ("organ", "guitar", "flute")
ESC50 = ("rain", "dog", "siren", "crying baby", "church bells", "engine", "clapping", "footsteps")
STRENGTHS = (0.0, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Places:
    """Where recordings and checkpoints lie."""

    data: Path
    whisper: Path

    def esc50(self) -> Dataset:
        """Some classes, ten clips each."""
        data = ra.load_dataset("esc50", root=self.data / "esc50")
        return data.only(lambda c: data.names[c.label] in ESC50, "some classes").limited(10 * len(ESC50))


def steered_rows(encoder, listening, texts, **options) -> list[dict]:
    """One row per text, side and model: what ``steer_summary`` says."""
    rows = []
    for text in texts:
        for side in ("more", "less"):
            result = ra.steer(encoder, **{side: [text]}, listening=listening, **options)
            rows += [{"text": text, "side": side, **r} for r in result.tables["steer_summary"].to_dict("records")]
    return rows


def steer_tiny(places: Places) -> dict:
    encoder = ra.load_encoder("tiny")
    heard = ra.listen(encoder, ra.load_dataset("synthetic", per_class=2))
    somp = steered_rows(encoder, heard, STEERED, by="somp", controls=0)
    curve = []
    for strength in STRENGTHS:
        made = ra.steer(encoder, more=["rain"], less=["bell"], strength=strength, listening=heard, controls=0)
        table = made.tables["steer_concepts"].set_index("concept")
        curve.append({"strength": strength, "rain": table.gain["rain"], "bell": table.gain["bell"],
                      "others": made.tables["steer_summary"].others[0]})  # fmt: skip
    return {"shares": steered_rows(encoder, heard, STEERED, controls=CONTROLS), "somp": somp, "curve": curve,
            "measured": len(heard.test), "concepts": len(concepts_for(heard))}  # fmt: skip


def steer_notes(places: Places) -> dict:
    encoder = ra.load_encoder("tiny")
    heard = ra.listen(encoder, ra.load_dataset("notes").limited(100))
    return {"shares": steered_rows(encoder, heard, NOTES, controls=CONTROLS), "measured": len(heard.test)}


def steer_whisper(places: Places) -> dict:
    encoder = ra.load_encoder(str(places.whisper), seconds=5.0)
    heard = ra.listen(encoder, places.esc50())
    return {"shares": steered_rows(encoder, heard, ESC50[:3], controls=CONTROLS), "measured": len(heard.test)}


def explained(encoder, listening, clips, texts=None, count: int = 12, seen: Callable[[Explanation], object] = id) -> dict:
    """Faithfulness over some clips, each explained by its own first concept, or by its text; and how the sounds score."""
    by_clip, scores, groups = {}, [], []
    for clip, text in list(zip(clips, texts or [None] * len(clips), strict=True))[:count]:
        source = clip.path if hasattr(clip, "path") else clip
        made = ra.explain(encoder, source, [text] if text else (), listening=listening, draws=DRAWS, words=WORDS)
        seen(made)
        name = clip.id if hasattr(clip, "id") else f"clip {len(by_clip)}"
        by_clip[name] = made.tables["explain_faithfulness"]
        groups.append(clip.own_group if hasattr(clip, "own_group") else name)
        scores.append(heard_scores(encoder, listening, made))
    return {"faithfulness": over_clips(by_clip, groups).to_dict("records"), "scores": scores}


def heard_scores(encoder, listening, made) -> dict:
    """The score of the sounds themselves, run through the whole front end again: kept, removed, and as much of a random mask."""
    (text,) = made.sounds
    concepts = concepts_for(listening, [text])
    direction = concepts.directions[concepts.index(text)]
    mask, rate = made.masks[text], made.sample_rate
    rng = np.random.default_rng(0)
    random = mask.roll((int(rng.integers(mask.shape[0])), int(rng.integers(mask.shape[1]))), (0, 1))
    waves = {"original": made.original, "kept": made.sounds[text].kept, "removed": made.sounds[text].removed,
             "against": made.sounds[text].against, "shifted": masked(made.original, random, encoder.policy)}  # fmt: skip
    embedded = encoder.embed([Waveform(w, rate) for w in waves.values()])
    return dict(zip(waves, (embedded.float().cpu() @ direction).tolist(), strict=True))


def explain_tiny(places: Places) -> dict:
    encoder = ra.load_encoder("tiny")
    data = ra.load_dataset("synthetic", per_class=2)
    heard = ra.listen(encoder, data)
    rng = np.random.default_rng(0)
    some = [heard.dataset.clips[i] for i in rng.permutation(heard.test)]
    return {**explained(encoder, heard, some), "codes": codes(heard)}


def codes(heard) -> dict:
    """How often the class of a clip (any of its nouns) is in its code, and among as many nearest concepts; chance for as many at random."""
    from residual_audio.data.synthesis.catalogue import SOURCES

    concepts = concepts_for(heard)
    nouns = {kind.label: {concepts.index(noun) for noun in kind.nouns} for kind in SOURCES}
    centred = heard.embeddings - heard.mean
    found, nearest, chance, explained_part, used = [], [], [], [], []
    for i in heard.test:
        x = (centred[i] / centred[i].norm()).double().numpy()
        code, own = sparse_code(x, concepts.directions.numpy(), WORDS), nouns[heard.dataset.clips[i].label]
        found.append(bool(own & set(code.support.tolist())))
        first = np.argsort(-(concepts.directions.numpy() @ x))[: len(code.support)]
        nearest.append(bool(own & set(first.tolist())))
        chance.append(1 - np.prod([(len(concepts) - len(own) - k) / (len(concepts) - k) for k in range(len(code.support))]))
        explained_part.append(code.explained)
        used.append(len(code.support))
    return {"clips": len(found), "words": float(np.mean(used)), "explained": list(mean_interval(np.array(explained_part))),
            "in_code": list(mean_interval(np.array(found, float))), "nearest": list(mean_interval(np.array(nearest, float))),
            "chance": float(np.mean(chance)), "concepts": len(concepts)}  # fmt: skip


def explain_mixed(places: Places) -> dict:
    """Two synthetic sounds at equal power: explain one of them, and see which of the two the mask keeps."""
    encoder = ra.load_encoder("tiny")
    heard = ra.listen(encoder, ra.load_dataset("synthetic", per_class=2))
    data, policy, rng = heard.dataset, encoder.policy, np.random.default_rng(1)
    mixes, texts, sources = [], [], []
    while len(mixes) < MIXES:
        a, b = (data.clips[i] for i in rng.choice(heard.test, 2, replace=False))
        if a.label != b.label:
            waves = [policy.fit(read(c.source, policy.sample_rate, 0, policy.seconds)) for c in (a, b)]
            waves = [0.05 * w / np.sqrt((w**2).mean()) for w in waves]
            mixes.append(Waveform(waves[0] + waves[1], policy.sample_rate))
            texts.append(data.names[a.label])
            sources.append(waves)
    made: list[Explanation] = []
    result = explained(encoder, heard, mixes, texts, count=MIXES, seen=made.append)
    kept = []
    for mix, one, waves in zip(mixes, made, sources, strict=True):
        (mask,) = one.masks.values()
        loud = largest_cells(loud_cells(encoder, mix, mask.shape), float(mask.mean()))
        row = {}
        for name, cells in (("shares", mask), ("loudness", loud)):
            for who, wave in zip(("own", "other"), waves, strict=True):
                row[f"{name}_{who}"] = energy(masked(wave.astype(np.float32), cells, policy)) / energy(wave)
        kept.append(row)
    return {**result, "kept": kept}


def energy(wave: np.ndarray) -> float:
    return float((np.asarray(wave, dtype=np.float64) ** 2).sum())


def loud_cells(encoder, mix, shape):
    from residual_audio.meaning.faithfulness import pooled, silence_of

    return pooled((encoder.prepare(mix).features - silence_of(encoder))[0, 0], tuple(shape))


def explain_notes(places: Places) -> dict:
    encoder = ra.load_encoder("tiny")
    heard = ra.listen(encoder, ra.load_dataset("notes").limited(100))
    return explained(encoder, heard, [heard.dataset.clips[i] for i in np.random.default_rng(0).permutation(heard.test)], count=10)


def explain_human(places: Places) -> dict:
    encoder = ra.load_encoder("tiny")
    heard = ra.listen(encoder, ra.load_dataset(f"table:{places.data}/nonverbal/clips.csv").limited(64))
    return explained(encoder, heard, [heard.dataset.clips[i] for i in np.random.default_rng(0).permutation(heard.test)], count=10)


def explain_whisper(places: Places) -> dict:
    encoder = ra.load_encoder(str(places.whisper), seconds=5.0)
    heard = ra.listen(encoder, places.esc50())
    some = [heard.dataset.clips[i] for i in np.random.default_rng(0).permutation(heard.test)[:10]]
    return explained(encoder, heard, some, [heard.dataset.names[c.label] for c in some])


PARTS: dict[str, Callable[[Places], dict]] = {
    "steer-tiny": steer_tiny, "steer-notes": steer_notes, "steer-whisper": steer_whisper, "explain-tiny": explain_tiny,
    "explain-mixed": explain_mixed, "explain-notes": explain_notes, "explain-human": explain_human, "explain-whisper": explain_whisper,
}  # fmt: skip
