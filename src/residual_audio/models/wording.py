"""How texts become the tokens of a text side; the same whether that runs in torch or from an exported file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class Wording:
    """``suffix`` is put behind every text; ``length``: tokens at most (None: the tokenizer's own); ``padded``: always that many."""

    suffix: str = ""
    length: int | None = None
    padded: bool = False

    def tokens(self, tokenizer: Any, texts: Sequence[str]) -> tuple[Int[Tensor, "text token"], Int[Tensor, "text token"]]:
        """Token numbers, and where they are no padding."""
        made = tokenizer(
            [f"{text}{self.suffix}" for text in texts],
            padding="max_length" if self.padded else True,
            truncation=True,
            max_length=self.length,
            return_tensors="pt",
        )
        return made["input_ids"], made["attention_mask"]
