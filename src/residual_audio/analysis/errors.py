"""What goes wrong in an analysis, in words that say what to do next."""

from __future__ import annotations


class AnalysisError(ValueError):
    """A question that a run cannot answer; the message says what to do next."""
