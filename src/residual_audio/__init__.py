"""ResiDual Audio: look inside audio–text transformers and retune them, head by head.

import residual_audio as ra

encoder = ra.load_encoder("tiny")
data = ra.load_dataset("notes")
print(ra.zero_shot(encoder, data).summary())
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from .lazy import lazily

if TYPE_CHECKING:
    from .ablation import ablate
    from .adaptation.adapt import adapt
    from .adaptation.adapter import load_adapter, save_adapter
    from .adaptation.attach import attached
    from .adaptation.fold import fold
    from .adaptation.hub import pull, push
    from .adaptation.recipe import Recipe
    from .adaptation.train import Training
    from .analysis import analyze
    from .comparison.compare import compare
    from .comparison.few_shot import few_shot
    from .comparison.protocol import Protocol
    from .comparison.search import search
    from .data import load_dataset
    from .evaluation import zero_shot
    from .evaluation.over_time import over_time
    from .evaluation.retrieval import retrieve
    from .exporting.export import export
    from .extraction import Run, extract
    from .meaning import ask, describe, explain, listen, steer
    from .models import load_encoder
    from .mteb import to_mteb
    from .report.figures import draw
    from .report.page import report
    from .serve import serve

try:
    __version__ = version("residual-audio")
except PackageNotFoundError:
    __version__ = "0+unknown"

__all__ = [
    "Protocol",
    "Recipe",
    "Run",
    "Training",
    "__version__",
    "ablate",
    "adapt",
    "analyze",
    "ask",
    "attached",
    "compare",
    "describe",
    "draw",
    "explain",
    "export",
    "extract",
    "few_shot",
    "fold",
    "listen",
    "load_adapter",
    "load_dataset",
    "load_encoder",
    "over_time",
    "pull",
    "push",
    "report",
    "retrieve",
    "save_adapter",
    "search",
    "serve",
    "steer",
    "to_mteb",
    "zero_shot",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "load_encoder": ".models",
        "load_dataset": ".data",
        "zero_shot": ".evaluation",
        "over_time": ".evaluation.over_time",
        "retrieve": ".evaluation.retrieval",
        "export": ".exporting.export",
        "extract": ".extraction",
        "Run": ".extraction",
        "analyze": ".analysis",
        "ablate": ".ablation",
        "describe": ".meaning",
        "ask": ".meaning",
        "listen": ".meaning",
        "steer": ".meaning",
        "explain": ".meaning",
        "Recipe": ".adaptation.recipe",
        "Training": ".adaptation.train",
        "adapt": ".adaptation.adapt",
        "attached": ".adaptation.attach",
        "fold": ".adaptation.fold",
        "load_adapter": ".adaptation.adapter",
        "save_adapter": ".adaptation.adapter",
        "push": ".adaptation.hub",
        "pull": ".adaptation.hub",
        "Protocol": ".comparison.protocol",
        "compare": ".comparison.compare",
        "few_shot": ".comparison.few_shot",
        "search": ".comparison.search",
        "draw": ".report.figures",
        "report": ".report",
        "serve": ".serve",
        "to_mteb": ".mteb",
    },
)
