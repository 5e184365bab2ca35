"""Methods against each other: comparisons, few-shot curves, searches; all resumable."""

from .compare import Comparison, compare
from .few_shot import FewShot, few_shot
from .search import Search, search

__all__ = ["Comparison", "FewShot", "Search", "compare", "few_shot", "search"]
