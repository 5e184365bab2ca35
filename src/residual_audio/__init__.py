"""ResiDual Audio: look inside audio–text transformers and retune them, head by head.

import residual_audio as ra

encoder = ra.load_encoder("tiny")
data = ra.load_dataset("synthetic-timbre")
print(ra.zero_shot(encoder, data).summary())
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ablation import ablate
    from .adaptation import attached, fold, load_adapter, save_adapter
    from .adaptation.adapt import adapt
    from .analysis import analyze
    from .comparison import compare
    from .comparison.few_shot import few_shot
    from .comparison.search import search
    from .data import load_dataset
    from .evaluation import zero_shot
    from .evaluation.retrieval import retrieve
    from .extraction import Run, extract
    from .meaning import ask, describe
    from .models import load_encoder

try:
    __version__ = version("residual-audio")
except PackageNotFoundError:
    __version__ = "0+unknown"

__all__ = [
    "Run",
    "__version__",
    "ablate",
    "adapt",
    "analyze",
    "ask",
    "attached",
    "compare",
    "describe",
    "extract",
    "few_shot",
    "fold",
    "load_adapter",
    "load_dataset",
    "load_encoder",
    "retrieve",
    "save_adapter",
    "search",
    "zero_shot",
]

_HOME = {
    "load_encoder": ".models",
    "load_dataset": ".data",
    "zero_shot": ".evaluation",
    "extract": ".extraction",
    "Run": ".extraction",
    "analyze": ".analysis",
    "describe": ".meaning",
    "ask": ".meaning",
    "ablate": ".ablation",
    "adapt": ".adaptation.adapt",
    "compare": ".comparison",
    "few_shot": ".comparison.few_shot",
    "search": ".comparison.search",
    "retrieve": ".evaluation.retrieval",
    "attached": ".adaptation",
    "fold": ".adaptation",
    "load_adapter": ".adaptation",
    "save_adapter": ".adaptation",
}


def __getattr__(name: str) -> object:
    """Import the heavy parts (torch, transformers) only when they are asked for."""
    if name in _HOME:
        return getattr(import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
