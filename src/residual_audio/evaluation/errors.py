"""What the questions of this room can come to."""

from __future__ import annotations


class EvaluationError(ValueError):
    """A question that this encoder and this dataset cannot answer."""
