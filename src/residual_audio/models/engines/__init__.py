"""What runs an exported graph: ONNX Runtime and OpenVINO behind the same few methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

Arrays = Mapping[str, np.ndarray]
# A graph's constant outputs: weights that a run keeps, and mel filters. They are read, never computed.
KEPT = "kept."


class Graph(ABC):
    """A graph in memory. Nothing is prepared for outputs that nobody asks for."""

    @property
    @abstractmethod
    def inputs(self) -> dict[str, tuple[int | None, ...]]:
        """Names and shapes; None where a length is free."""

    @property
    @abstractmethod
    def outputs(self) -> dict[str, tuple[int | None, ...]]:
        """Names and shapes of what is computed."""

    @property
    @abstractmethod
    def kept(self) -> dict[str, np.ndarray]:
        """Constant outputs, by their names without the prefix."""

    @abstractmethod
    def run(self, feeds: Arrays, wanted: Sequence[str]) -> list[np.ndarray]:
        """The wanted outputs, in that order."""
