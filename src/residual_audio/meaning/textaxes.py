r"""Text-aligned axes: the direction of a unit's own output by which it writes a text into the embedding, and gains along it.

A unit's token z adds $\omega\langle w, z\rangle$ to the cosine with a text, where w is the text pulled back through the joint projection,
the norms and merges (held) and the unit's own output projection. A gain g along the unit vector of w, about the unit's mean μ,

.. math:: y = z + (g - 1)\,\hat w \hat w^\top (z - \mu) \quad\Rightarrow\quad \langle w, y - \mu\rangle = g\,\langle w, z - \mu\rangle,

scales the unit's share of the text, about its mean, by exactly g. Where w differs between clips or between positions of a merge group
(HTS-AT), $\hat w$ is the leading eigenvector of $\sum \omega^2 w w^\top$, and ``alignment`` says what part of it one axis has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..adaptation.gain import GainSet, ResiDual
from ..adaptation.select import choose_places
from ..decomposition.joint import Held
from ..models.pathways import Pathways
from ..units import Unit
from .listening import Listening, only_fit
from .tokens import pull_back

# Of each unit: axes of unit length, and by how much the gain along each differs from 1.
Changes = dict[Unit, list[tuple[Tensor, float]]]


@dataclass(frozen=True)
class TextAxis:
    """``axis [d]`` of unit length in the unit's own output, and the part of the text's squared weight that lies along it."""

    axis: Float[Tensor, " d"]
    alignment: float


def text_axes(listening: Listening, ways: Pathways, direction: Float[Tensor, " d"], units: Sequence[Unit]) -> list[TextAxis]:
    """One axis for each of some heads and MLPs, from the clips of ``fit``."""
    part, encoder = only_fit(listening), listening.encoder
    device, held = encoder.device, part.held
    there = None if held is None else Held(held.ratio.to(device), held.scale.to(device))
    back = pull_back(direction.to(device, encoder.dtype), ways.joint, there).float().cpu()
    pulled: dict[int, Float[Tensor, "token width"]] = {}
    found = []
    for unit in units:
        if unit.stage not in pulled:
            through = torch.einsum("pod,co->cpd", ways.maps[unit.stage].float().cpu(), back)
            pulled[unit.stage] = (through * part.weights[unit.stage][..., None]).flatten(0, 1)
        towards = pulled[unit.stage]
        if unit.kind == "head":
            site = ways.site((unit.stage, unit.block))
            weight = encoder.linear(site.projection).weight.detach().float().cpu().unflatten(-1, (site.heads, -1))[:, unit.head]
            towards = towards @ weight
        values, vectors = torch.linalg.eigh(towards.double().T @ towards.double())
        found.append(TextAxis(vectors[:, -1], float(values[-1] / values.sum().clamp_min(1e-300))))
    return found


def along(changes: Sequence[tuple[Float[Tensor, " d"], float]], most: float) -> tuple[Float[Tensor, "d d"], Float[Tensor, " d"]]:
    r"""Orthonormal axes and gains of $I + \sum_k a_k \hat w_k \hat w_k^\top$, the strongest first; no gain is further from 1 than ``most``.

    One axis has its gain, orthogonal ones have theirs; texts that share an axis do not add up beyond the strength.
    """
    change = sum(amount * torch.outer(axis, axis) for axis, amount in changes)
    values, vectors = torch.linalg.eigh(change)
    order = values.abs().argsort(descending=True, stable=True)
    return vectors.T[order], 1 + values[order].clamp(-most, most)


def steering(listening: Listening, changes: Changes, strength: float, notes: dict[str, object] | None = None) -> ResiDual:
    """An adapter of gains about each unit's mean over the clips of ``fit``; ``variance`` is that of the clips' means along the axes."""
    encoder, part = listening.encoder, only_fit(listening)
    sets = []
    for place in choose_places(encoder.units, " ".join(unit.label for unit in changes)):
        units = [Unit.parse(label) for label in place.labels]
        count = max(len(changes[unit]) for unit in units)
        made = [along(changes[unit], strength) for unit in units]
        axes, gains = (torch.stack([x[i][:count] for x in made]) for i in (0, 1))
        outputs = [part.outputs[unit].double() for unit in units]
        mean = torch.stack([x.mean(0) for x in outputs])
        variance = torch.stack([((x - x.mean(0)) @ a.T).var(0) for x, a in zip(outputs, axes, strict=True)])
        axes, mean, variance, gains = (x.to(encoder.device, encoder.dtype) for x in (axes, mean, variance, gains))
        sets.append(GainSet(place, axes, mean, variance, gains))
    return ResiDual(tuple(sets), "keep", notes or {})
