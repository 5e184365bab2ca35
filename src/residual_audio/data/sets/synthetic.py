"""Synthetic tasks as datasets: clips are addresses, so a dataset of any size is made in no time and takes no disk."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..clip import Clip, DataError, Dataset, make_dataset
from ..registry import DATASETS, Generated
from ..synthesis import TASKS, take
from ..synthetic import FIRST_TAKE, PER_CLASS, PREFIX, SyntheticSound

FOLDS = 5
# Every take has to be rendered to know its captions: 200 in all take about three seconds.
CAPTIONED_PER_CLASS = 5
# How many takes per class lie between two draws, and the names of the draws.
DRAW = 1_000_000
DRAWS = ("", "more", "spare")


def load(task: str, per_class: int | None = None, captions: bool = False, draw: int = 0) -> Dataset:
    """``per_class`` takes of every class, in five folds that each hold every class. Takes are drawn independently: none has a group.
    Datasets of different ``draw`` have no take in common.

    A caption states what was drawn for its take, so it is known only after rendering (about 12 ms per clip):
    ``captions=True`` does that, otherwise clips have none.
    """
    if task not in TASKS:
        raise DataError(f"no synthetic task {task!r}; one of {', '.join(TASKS)}")
    count = PER_CLASS[task] if per_class is None else per_class
    if count < 1:
        raise DataError(f"synthetic {task}: per_class is {count}; at least one take of each class is needed")
    if count > DRAW:
        raise DataError(f"synthetic {task}: per_class is {count}; a draw has {DRAW:,} takes of each class")
    first = FIRST_TAKE + draw * DRAW
    sounds = [SyntheticSound(task, index, first + i) for index in range(len(TASKS[task])) for i in range(count)]
    clips = [
        Clip(
            id=str(sound).removeprefix(PREFIX),
            path=str(sound),
            label=TASKS[task][sound.index].label,
            fold=sound.take % FOLDS + 1,
            captions=(take(task, sound.index, sound.take).caption.text,) if captions else (),
        )
        for sound in sounds
    ]
    name = "-".join(("synthetic", *(() if task == "source" else (task,)), *((DRAWS[draw],) if draw else ())))
    labels = {kind.label: kind.label for kind in TASKS[task]}
    return make_dataset(name, clips, folds="stratified", names=labels, per_class=count, first_take=first)


def load_captioned(task: str = "source", per_class: int = CAPTIONED_PER_CLASS) -> Dataset:
    """Clips with every caption of the set that is true of them, their own first: no pair that is true counts as wrong in retrieval.

    "A low sound" was drawn for one clip but holds for many. A text that can be read in two ways is true if one of them is.
    """
    data = load(task, per_class)
    sounds = [SyntheticSound.parse(c.path) for c in data.clips]
    rendered = [take(sound.task, sound.index, sound.take) for sound in sounds]
    captions = list({t.caption: None for t in rendered})
    clips = [
        replace(clip, captions=tuple(dict.fromkeys([t.caption.text, *(c.text for c in captions if c.true_of(t.label, t.words))])))
        for clip, t in zip(data.clips, rendered, strict=True)
    ]
    return replace(data, name="synthetic-captions" if task == "source" else f"{data.name}-captions", clips=tuple(clips))


ON_THE_FLY = "synthesised on the fly"
for _name, _help, _load in (
    ("synthetic", "the classes that `tiny` was trained on, in new takes", partial(load, "source")),
    ("synthetic-more", "further takes of the same classes, such as for `--keep-clips`", partial(load, "source", draw=1)),
    ("synthetic-spare", "yet other takes, to choose settings by", partial(load, "source", draw=2)),
    ("synthetic-timbre", "instruments by colour and attack, unknown to `tiny`", partial(load, "timbre")),
    ("synthetic-voice", "ways to use a voice, unknown to `tiny`", partial(load, "voice")),
    ("synthetic-captions", "200 sounds with every caption that is true of them, for retrieval", load_captioned),
):
    DATASETS.add(Generated(_name, f"{ON_THE_FLY}: {_help}", _load))
