"""Datasets as rows of clips: one function opens all of them, by name or by path."""

from .clip import Clip, DataError, Dataset, clean_label, grouped_folds, make_dataset, stratified_folds
from .load import load_dataset
from .prompts import TEMPLATES, fill, templates
from .registry import DATASETS, Generated, Own, Published, default_root

__all__ = [
    "DATASETS",
    "TEMPLATES",
    "Clip",
    "DataError",
    "Dataset",
    "Generated",
    "Own",
    "Published",
    "clean_label",
    "default_root",
    "fill",
    "grouped_folds",
    "load_dataset",
    "make_dataset",
    "stratified_folds",
    "templates",
]
