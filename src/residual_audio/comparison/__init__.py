"""Methods against each other: comparisons, few-shot curves, searches; all resumable."""
