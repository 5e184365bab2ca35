r"""How the network is set by sliders, as a change that can be attached, saved and folded.

A head with volume s and gains g on its directions (read r, written w) about its mean μ writes
$\mu + s\,(I + \sum_a (g_a - 1)\, w_a r_a^\top)(z - \mu)$: the numbers of the page's sliders, through the whole network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..adaptation.gain import GainSet, ResiDual
from ..adaptation.select import Place
from ..models import Encoder
from ..report.page.effects import Knobs
from .limits import GAINS, LOUDEST
from .problems import Problem

KEY = re.compile(r"(S\d{1,3}B\d{1,3}H\d{1,3})(?:\.(\d{1,4}))?")


@dataclass(frozen=True)
class Moves:
    """Sliders that were moved: ``volume`` of heads by label, ``gain`` by label and number of the direction (from zero)."""

    volume: dict[str, float] = field(default_factory=dict)
    gain: dict[tuple[str, int], float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.volume or self.gain)

    @property
    def heads(self) -> set[str]:
        return {*self.volume, *(label for label, _ in self.gain)}


def read_moves(gains: Mapping[str, float], heads: Mapping[str, int], knobs: Knobs) -> Moves:
    """``{"S3B0H1": 0.5, "S3B0H1.2": 1.5}``: a head's volume, or the gain of its second direction."""
    if len(gains) > GAINS:
        raise Problem(422, f"more than {GAINS} gains")
    moves = Moves()
    for key, value in gains.items():
        found = KEY.fullmatch(key)
        if found is None or found[1] not in heads:
            raise Problem(422, "gains are of heads (S3B0H1) or of their axes (S3B0H1.2), counted from one")
        if not (math.isfinite(value) and -LOUDEST <= value <= LOUDEST):
            raise Problem(422, f"a gain lies between −{LOUDEST:g} and {LOUDEST:g}")
        if found[2] is None:
            moves.volume[found[1]] = float(value)
            continue
        axis = int(found[2]) - 1
        if found[1] not in knobs.heads or not 0 <= axis < len(knobs.gain[knobs.heads.index(found[1])]):
            raise Problem(422, f"{found[1]} has no slider for axis {axis + 1}")
        moves.gain[found[1], axis] = float(value)
    return moves


def gains_now(knobs: Knobs, number: int, strength: float, moves: Moves) -> Float[Tensor, " direction"]:
    """Of one head with sliders: what was learned, at this strength, with what was moved in its place."""
    gain = 1 + strength * (knobs.gain[number] - 1)
    for (label, axis), value in moves.gain.items():
        if label == knobs.heads[number]:
            gain[axis] = value
    return gain


def residual_of(encoder: Encoder, knobs: Knobs, learned: ResiDual | None, strength: float, moves: Moves) -> ResiDual | None:
    """The change that the sliders describe; None where they describe none. Without moves it is the adapter itself, at its strength."""
    base = None if learned is None or strength == 0 else learned if strength == 1 else learned.scaled(strength)
    if not moves:
        return base
    place = {label: i for i, label in enumerate(u.label for u in encoder.units.where("head"))}
    learned_sets = [one for one in (base.sets if base else ()) if one.place.kind == "heads"]
    own = {label: one for one in learned_sets for label in one.place.labels}
    mean = "keep" if base is None else base.mean
    if mean == "drop" and not moves.heads <= set(own):
        raise Problem(422, "this adapter drops means (as in the papers): only its own heads can be moved")
    sets = [one for one in (base.sets if base else ()) if not (one.place.kind == "heads" and moves.heads & set(one.place.labels))]
    # A place holds all changed heads of a block, so what was learned of its others comes along.
    along = {label for one in learned_sets if moves.heads & set(one.place.labels) for label in one.place.labels}
    blocks: dict[tuple[int, int], list[str]] = {}
    for unit in encoder.units.where("head"):
        if unit.label in moves.heads | along:
            blocks.setdefault((unit.stage, unit.block), []).append(unit.label)
    for block, labels in blocks.items():
        beside = next((one for one in sets if one.place.kind == "heads" and one.place.blocks == (block,)), None)
        if beside is not None:
            sets = [one for one in sets if one is not beside]
            labels = [label for label in place if label in {*labels, *beside.place.labels}]
        # What a dropped mean has lost of its strength is in the set's own τ.
        tau = next((own[label].tau for label in labels if label in own), 1.0) if mean == "drop" else 1.0
        sets.append(block_set(block, labels, [knobs.mean[place[label]] for label in labels], knobs, strength, moves, tau))
    return ResiDual(tuple(sets), mean, {"made": "moved by hand in `residual-audio serve`"})


def block_set(
    block: tuple[int, int],
    labels: list[str],
    means: list[Float[Tensor, " d"]],
    knobs: Knobs,
    strength: float,
    moves: Moves,
    tau: float,
) -> GainSet:
    """The heads of one block: gains of orthonormal axes where the directions read and write alike, else matrices."""
    heads = tuple(int(label.rpartition("H")[2]) for label in labels)
    d = len(means[0])
    axes, gains, matrices, alike = [], [], [], True
    for label in labels:
        s = moves.volume.get(label, 1.0)
        number = knobs.heads.index(label) if label in knobs.heads else None
        read = torch.zeros(0, d) if number is None else knobs.axes[number]
        written = read if number is None else knobs.written[number]
        gain = torch.ones(0) if number is None else gains_now(knobs, number, strength, moves)
        alike = alike and torch.equal(read, written)
        outside = torch.linalg.qr(read.mT.double(), mode="complete").Q.mT[len(read) :] if len(read) else torch.eye(d).double()
        axes.append(torch.cat([read.double(), outside]))
        gains.append(s * torch.cat([gain.double(), torch.ones(len(outside)).double()]))
        matrices.append(s * (torch.eye(d).double() + written.double().mT @ ((gain.double() - 1)[:, None] * read.double())))
    eye = torch.eye(d).double()
    where = Place("heads", (block,), heads)
    if alike:
        values, basis, form = 1 + (torch.stack(gains) - 1) / tau, torch.stack(axes), "gains"
    else:
        values, basis, form = ((torch.stack(matrices) - eye) / tau).flatten(1), eye.expand(len(labels), d, d), "mixing"
    plain = GainSet(where, basis.contiguous(), torch.stack(means).double(), torch.zeros(basis.shape[:2]).double(), values, form, tau=tau)
    return replace(plain, **{k: getattr(plain, k).float() for k in ("axes", "mean", "variance", "values")})
