"""One shard after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...data import Clip
from ..shard import ShardWriter

Jobs = Sequence[tuple[int, Sequence[Clip]]]


def run(writer: ShardWriter, jobs: Jobs, advance: Callable[[int], object] | None = None) -> None:
    for number, clips in jobs:
        writer.write(number, clips, advance)
