"""A run (or a model alone) with its encoder open, and everything that its page asks about."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..adaptation.adapter import load_adapter
from ..adaptation.gain import ResiDual
from ..adaptation.methods import adapters as adapter_methods
from ..adaptation.select import choose_places
from ..adaptation.streams import first_block
from ..data import Clip
from ..data.prompts import templates
from ..evaluation import prompt_directions
from ..extraction import Run
from ..meaning.shares import unit_embeddings
from ..models import Encoder
from ..models.pathways import Pathways
from ..report.page.clips import media_of, shown_clips
from ..report.page.effects import knobs, page_effects
from ..report.page.gather import class_titles
from ..report.page.live import model_data
from ..report.page.make import TEMPLATES
from ..report.page.model import Asked, best_heads, centroids, gains_by_head, model_part, prompts, slider_notes
from ..report.page.model_part import equaliser
from ..report.page.page import page_data, rendered
from .board import Bench, Board
from .limits import LABEL, TEXT, TEXTS, Limits
from .problems import Problem
from .setting import Moves, read_moves, residual_of

BOARDS, TEXTS_KEPT, LENT = 4, 512, 16


@dataclass(frozen=True)
class Setting:
    """A client's, as it came: an adapter by name, its strength, and sliders that were moved."""

    adapter: str | None = None
    strength: float = 1.0
    gains: dict[str, float] | None = None


class Entry:
    """One page of a server. Everything that touches the encoder runs in the server's one model thread."""

    def __init__(self, id: str, title: str, encoder: Encoder, run: Run | None, limits: Limits) -> None:
        self.id, self.title, self.encoder, self.run, self.limits = id, title, encoder, run, limits
        self.ways = Pathways(encoder)
        self.heads = [u.label for u in encoder.units.where("head")]
        self.place_of_head = {label: i for i, label in enumerate(self.heads)}
        self.start: str | None = None
        self.given: tuple[str, Path] | None = None
        self.boards: OrderedDict[str | None, Board] = OrderedDict()
        self.first: Board | None = None  # stays when its sliders are forgotten
        self.stale: set[str] = set()
        self.known: OrderedDict[str, Tensor] = OrderedDict()
        self.kept: dict[str, Any] = {}
        self.lent: OrderedDict[str, ResiDual] = OrderedDict()
        self.html = b""
        self.page_rows: list[int] = []
        self.find: Callable[[str], Path | None] = lambda name: None

    @property
    def media(self) -> str:
        return "image" if self.encoder.media == "images" else "sound"

    @cached_property
    def labels(self) -> list[str]:
        return [] if self.run is None else self.run.clips["label"].astype(str).tolist()

    @cached_property
    def classes(self) -> list[str]:
        return sorted(set(self.labels))

    @cached_property
    def targets(self) -> np.ndarray:
        number = {label: i for i, label in enumerate(self.classes)}
        return np.array([number[label] for label in self.labels], dtype=np.int64)

    @cached_property
    def ids(self) -> list[str]:
        return [] if self.run is None else self.run.clips["id"].astype(str).tolist()

    @cached_property
    def titles(self) -> list[str]:
        return [] if self.run is None else class_titles(self.run, self.classes)

    @cached_property
    def embeddings(self) -> Float[Tensor, "clip d"]:
        return torch.zeros(0, self.encoder.dim) if self.run is None else unit_embeddings(self.run)

    def clip(self, row: int) -> Clip:
        if self.run is None or not 0 <= row < len(self.labels):
            raise Problem(404, "no such clip")
        table = self.run.clips
        return Clip(self.ids[row], str(table["path"][row]), self.labels[row], group=str(table["group"][row]))

    def need_run(self) -> Run:
        if self.run is None:
            raise Problem(404, "there is a model here and no run: start the server with a run, or with --data")
        return self.run

    def open(
        self,
        adapter: tuple[str, Path] | None,
        clips: int,
        words: int,
        template: str | None,
        advance: Callable[[int], object] | None = None,
    ) -> None:
        """Everything that the page shows at first."""
        self.given = adapter
        name = None if adapter is None else adapter[0]
        self.asked: Asked | None = None
        if self.run is None:
            self.html = rendered({**model_data(self.encoder, self.title, media=self.media), "live": self.live(name)}).encode()
            return
        run, encoder, residual = self.run, self.encoder, self.residual(name)
        chosen = template or TEMPLATES[media_of(run)]
        self.asked = (
            prompts(run, encoder, self.classes, (), 0, chosen) if encoder.has_text else centroids(run, self.classes, self.embeddings)
        )
        part = model_part(run, encoder, residual, clips, None, words, chosen, advance)
        folder = run.store.local
        assert folder is not None, "remote runs are refused before"
        gains = gains_by_head(residual)
        data = page_data(run, folder / "live", (), part, gains, "embed", clips, (), "", advance)
        self.page_rows = [int(clip["row"]) for clip in data["clips"]]
        if part is not None and len(part.rows):
            self.first = self.boards[name] = Board(name, residual, knobs(run, residual, best_heads(run)), part, data["equaliser"])
            # The first move of a slider should not wait for the clips to be decoded and run.
            self.bench.streams(first_block(encoder, choose_places(encoder.units, " ".join(self.boards[name].knobs.heads))))
        data["live"] = self.live(name)
        self.html = rendered(data).encode()

    def live(self, adapter: str | None) -> dict[str, Any]:
        sizes = {"bytes": self.limits.bytes, "seconds": self.limits.seconds, "texts": TEXTS, "text": TEXT, "label": LABEL}
        return {
            "api": f"/api/{self.id}", "id": self.id, "title": self.title, "start": self.start, "adapter": adapter,
            "has_text": self.encoder.has_text, "media": self.media, "clips": self.page_rows, "limits": sizes, "methods": adapter_methods(),
            "units": [u.label for u in self.encoder.units], "run": self.run is not None,
        }  # fmt: skip

    @property
    def summary(self) -> dict[str, Any]:
        info = {"name": self.encoder.name} if self.run is None else self.run.info["model"]
        return {
            "id": self.id, "url": f"/r/{self.id}/", "title": self.title, "model": info["name"],
            "dataset": None if self.run is None else self.run.info["dataset"]["name"], "adapter": self.given[0] if self.given else None,
            "has_text": self.encoder.has_text, "media": self.media, "clips": len(self.labels), "heads": len(self.heads),
        }  # fmt: skip

    def adapter(self, name: str) -> Path:
        """By the name that the server knows it by; never a path of the client's."""
        if self.given is not None and name == self.given[0]:
            return self.given[1]
        path = self.find(name)
        if path is None:
            raise Problem(404, "no adapter of that name")
        return path

    def lend(self, name: str, residual: ResiDual) -> None:
        """A change under a name of its own, for as long as there is room; nothing is saved."""
        self.lent[name] = residual
        while len(self.lent) > LENT:
            self.forget(self.lent.popitem(last=False)[0])

    def residual(self, name: str | None) -> ResiDual | None:
        if name is None or name in self.lent:
            return None if name is None else self.lent[name]
        return load_adapter(self.adapter(name), self.encoder)

    @torch.inference_mode()
    def board(self, name: str | None) -> Board:
        """The sliders of an adapter; made when first asked for."""
        while self.stale:
            self.boards.pop(self.stale.pop(), None)
        if name is not None and name not in self.lent:
            self.adapter(name)  # gone, or never there
        if name not in self.boards:
            run, asked, residual = self.need_run(), self.asked, self.residual(name)
            first = self.first
            if asked is None or first is None:
                raise Problem(404, "the run has neither head outputs nor moments; extract with --granularity head,moments,direct")
            turned = knobs(run, residual, best_heads(run))
            effects, _ = page_effects(
                self.encoder, run, first.part.rows, asked.classes, turned, residual, {}, asked.directions, asked.offset, None
            )  # fmt: skip
            part = replace(
                first.part, rows=effects.rows, base=effects.base.numpy(), whole=effects.whole.numpy(), knobs=turned.heads,
                axis=[a.numpy() for a in effects.axis], gain=[g.numpy() for g in turned.gain], dropped=effects.dropped.numpy(),
                adapted=None if effects.adapted is None else effects.adapted.numpy(), notes=slider_notes(residual),
            )  # fmt: skip
            packed = equaliser(part, {row: i for i, row in enumerate(self.page_rows)}, bool(gains_by_head(residual)))
            self.boards[name] = Board(name, residual, turned, part, packed)
            while len(self.boards) > BOARDS:
                self.boards.pop(next(key for key in self.boards if key != name))
        self.boards.move_to_end(name)
        return self.boards[name]

    def forget(self, name: str) -> None:
        """An adapter that was replaced or deleted."""
        self.stale.add(name)  # the model thread may be looking at it

    @cached_property
    def bench(self) -> Bench:
        rows = self.board(self.given[0] if self.given else None).part.rows
        asked = self.asked
        assert asked is not None, "a board needs classes"
        return Bench(self.encoder, [self.clip(int(r)).source for r in rows], asked.classes, asked.offset)

    def change(self, setting: Setting) -> tuple[Board, Moves, ResiDual | None]:
        """A setting as what it does to the network: None where it does nothing."""
        board = self.board(setting.adapter)
        moves = read_moves(setting.gains or {}, self.place_of_head, board.knobs)
        return board, moves, residual_of(self.encoder, board.knobs, board.residual, setting.strength, moves)

    def changed(self, setting: Setting) -> ResiDual | None:
        """The same; where no slider was moved, without the sliders: a model alone has no run to take axes from."""
        if setting.gains:
            self.need_run()
            return self.change(setting)[2]
        found = self.residual(setting.adapter)
        return None if found is None or setting.strength == 0 else found if setting.strength == 1 else found.scaled(setting.strength)

    def texts(self, texts: Sequence[str]) -> Float[Tensor, "text d"]:
        """Directions of texts as they are typed; kept in memory only."""
        if not texts:
            return torch.zeros(0, self.encoder.dim)
        if not self.encoder.has_text:
            raise Problem(422, f"{self.encoder.name} has no text side: only classes can be asked for")
        for text in texts:
            if text in self.known:
                self.known.move_to_end(text)  # before anything is forgotten
        for text in texts:
            if text not in self.known:
                self.known[text] = prompt_directions(self.encoder, [text], templates("plain")).cpu().float()[0]
                while len(self.known) > TEXTS_KEPT + len(texts):
                    self.known.popitem(last=False)
        return torch.stack([self.known[text] for text in texts])

    def towards(self, text: str | None, number: int | None) -> tuple[Float[Tensor, " d"], float]:
        """The direction of a text or a class, and what is taken off its cosine."""
        if (text is None) == (number is None):
            raise Problem(422, "give either a text or a class")
        if text is not None:
            return self.texts([text])[0], 0.0
        if self.asked is None or number is None or not 0 <= number < len(self.classes):
            raise Problem(404, "no such class")
        return self.asked.classes[number], 0.0 if self.asked.offset is None else float(self.asked.offset[number])

    def record(self, row: int) -> dict[str, Any]:
        """A clip as the page has it."""
        self.clip(row)
        run = self.need_run()
        folder = run.store.local
        assert folder is not None
        return shown_clips(run.clips, [row], self.classes, media_of(run), "embed", folder / "live")[0]
