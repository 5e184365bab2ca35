"""Retuning: gains on principal axes, attached to a running model, learned, saved, and folded into its weights."""

from ..units import SelectionError
from .adapter import AdapterError, load_adapter, push_adapter, save_adapter
from .attach import attached
from .fold import FoldError, fold
from .gain import GainSet, ResiDual, gain_set, random_basis
from .select import Place, choose_places

__all__ = [
    "AdapterError",
    "FoldError",
    "GainSet",
    "Place",
    "ResiDual",
    "SelectionError",
    "attached",
    "choose_places",
    "fold",
    "gain_set",
    "load_adapter",
    "push_adapter",
    "random_basis",
    "save_adapter",
]
