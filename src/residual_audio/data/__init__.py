"""Datasets as rows of clips: one function opens all of them, by name or by path."""

from .clip import Clip, DataError, Dataset, DataWarning, clean_label, in_folds, make_dataset
from .load import load_dataset
from .prompts import TEMPLATES, fill, templates
from .registry import DATASETS, Generated, Own, Published, Shipped, default_root
from .splits import grouped_folds, grouped_parts, stratified_folds

__all__ = [
    "DATASETS",
    "TEMPLATES",
    "Clip",
    "DataError",
    "DataWarning",
    "Dataset",
    "Generated",
    "Own",
    "Published",
    "Shipped",
    "clean_label",
    "default_root",
    "fill",
    "grouped_folds",
    "grouped_parts",
    "in_folds",
    "load_dataset",
    "make_dataset",
    "stratified_folds",
    "templates",
]
