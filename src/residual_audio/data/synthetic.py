"""Synthetic datasets: clips that are addresses, rendered when they are read.

``synthetic:timbre/3/17`` is take 17 of class 3 of the task ``timbre``; see :mod:`.synthesis` for the sounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..media import MediaError
from .synthesis import RATE, TASKS, take

if TYPE_CHECKING:
    from ..audio import Waveform

PREFIX = "synthetic:"
PER_CLASS = {"source": 20, "timbre": 60, "voice": 80}
# Datasets use takes from here on; training uses takes from 0 on, so they never meet.
FIRST_TAKE = 20_000_000


@dataclass(frozen=True)
class SyntheticSound:
    """The address of one synthetic clip; renders itself."""

    task: str
    index: int
    take: int

    def __str__(self) -> str:
        return f"{PREFIX}{self.task}/{self.index}/{self.take}"

    @classmethod
    def parse(cls, address: str) -> SyntheticSound:
        try:
            task, index, number = address.removeprefix(PREFIX).split("/")
            sound = cls(task, int(index), int(number))
            if not 0 <= sound.index < len(TASKS[sound.task]) or sound.take < 0:
                raise IndexError(address)
        except (ValueError, KeyError, IndexError) as error:
            raise MediaError(
                f"{address!r} is no synthetic sound; expected {PREFIX}TASK/CLASS/TAKE with a task of {', '.join(TASKS)}"
            ) from error
        return sound

    def waveform(self) -> Waveform:
        from ..audio import Waveform  # brings torch, which a list of clips does not need

        return Waveform(take(self.task, self.index, self.take).samples, RATE)


@dataclass(frozen=True)
class SyntheticAddress:
    """A clip's address as a dataset has it: parsed when it is read, so that a wrong one is that clip's error."""

    address: str

    def waveform(self) -> Waveform:
        return SyntheticSound.parse(self.address).waveform()
