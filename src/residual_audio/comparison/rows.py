"""Lines of a comparison: a method, and the classifier that its test clips are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..adaptation.methods import METHODS
from ..evaluation import CLASSIFIERS, choose_classifier
from ..models import Encoder
from ..options import OptionError, words
from .protocol import JOINED

OWN = "own"


@dataclass(frozen=True)
class Row:
    """``name``: the method alone where the first classifier judges it, else METHOD+CLASSIFIER. ``classifier``: ``own`` of a method that
    leaves scores instead of an encoder."""

    name: str
    method: str
    classifier: str


def rows_of(methods: Sequence[str], classifiers: str, encoder: Encoder) -> list[Row]:
    """Every method with every classifier; one that is named with its own, as in ``plain+probe``, with that alone.

    Refused: a classifier that needs texts on an encoder that has none, and one on a method that leaves no encoder.
    """
    known = list(dict.fromkeys(choose_classifier(name, encoder).name for name in words(classifiers)))
    if not known:
        raise OptionError(f"--classifier: none is named; one or more of {', '.join(CLASSIFIERS)}")
    rows = []
    for text in methods:
        method, joined, own = text.partition(JOINED)
        if METHODS[method].own_scores:
            if joined:
                raise OptionError(f"{text}: {method} leaves no encoder that a classifier could be put on; name it alone")
            rows.append(Row(method, method, OWN))
        else:
            for name in [choose_classifier(own, encoder).name] if joined else known:
                rows.append(Row(method if name == known[0] else f"{method}{JOINED}{name}", method, name))
    return list(dict.fromkeys(rows))
