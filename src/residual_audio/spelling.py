"""Words that others wrote (names of files, classes, models): as text that can be stored and shown anywhere."""

from __future__ import annotations

import re
import unicodedata


def printable(text: str) -> str:
    """The text with everything shown that would otherwise act: control characters, line breaks, bytes that are no UTF-8.

    A file name may hold any byte; a terminal obeys escape codes, and a right-to-left mark turns an ending round.
    """
    if text.isprintable():
        return text
    return "".join(c if visible(c) else c.encode("unicode_escape").decode() for c in text)


def visible(character: str) -> bool:
    """Whether it is drawn as it stands; joiners inside words and emoji are."""
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") and character not in BIDI


# Marks that change the direction of what follows.
BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def harmless(cell: object) -> object:
    """A cell of a CSV that no spreadsheet takes for a formula: text that begins like one gets an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) and not AMOUNT.fullmatch(cell) else cell


FORMULA = ("=", "+", "-", "@", "\t", "\r")
AMOUNT = re.compile(r"[-+][\d.,e±%\[\]– +-]*")


def one_spelling(text: str) -> str:
    """Unicode's composed form: macOS and Linux write the same é differently."""
    return unicodedata.normalize("NFC", text)
