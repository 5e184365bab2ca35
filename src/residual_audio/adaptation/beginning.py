"""Learning goes on from an adapter: a form gets the numbers that do what the adapter does, and is learned from there."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..options import OptionError
from ..units import UnitTable
from .forms import FORMS
from .gain import GainSet, ResiDual
from .methods import METHODS
from .select import choose_places

BEGIN = "begin"  # of notes
KINDS = ("heads", "mlps", "embedding")
SEEN = "what it was made from, or moved by, is no longer unseen: figures of held clips may be too good"
Parts = tuple[Tensor, Tensor, Tensor, Tensor]  # axes, mean, variance and values of one unit


def check_begin(begin: ResiDual, method: str) -> None:
    """Refuse what a method cannot go on from."""
    if not METHODS[method].begins:
        able = ", ".join(name for name, known in METHODS.items() if known.begins)
        raise OptionError(f"--begin does nothing for {method}: it is read by {able}")
    if begin.mean == "drop":
        raise OptionError("--begin: the adapter drops means (as in the papers), and learning goes on only from one that keeps them")


def units_with(units: str, begin: ResiDual, table: UnitTable) -> str:
    """The selection, and the units that the adapter changes besides."""
    if other := sorted({one.place.kind for one in begin.sets} - set(KINDS)):
        raise OptionError(f"--begin: it changes {', '.join(other)}; learning goes on from {', '.join(KINDS)} only")
    known = {label for place in choose_places(table, units) for label in place.labels}
    return " ".join([units, *(label for one in begin.sets for label in one.place.labels if label not in known)])


def needs_matrix(begin: ResiDual) -> bool:
    """Whether gains cannot say what it does."""
    return any(gains_of(one) is None for one in begin.sets)


def has_wide_gains(begin: ResiDual) -> bool:
    """Whether it has gains where matrices would be learned inside the leading axes only."""
    return any(one.place.kind != "heads" and gains_of(one) is not None for one in begin.sets)


def gains_of(one: GainSet) -> Float[Tensor, "unit axis"] | None:
    """What it multiplies its axes by, where that is all that it does; its strength included."""
    if one.truncated or one.form not in ("gains", "scalar"):
        return None
    return (1 + one.tau * (one.values.double() - 1)).expand(one.axes.shape[:2])


def begun(start: ResiDual, begin: ResiDual) -> ResiDual:
    """``start``, where it does what ``begin`` does. Invariant: attached, the two give the same embeddings."""
    if start.mean == "drop":
        raise OptionError("--begin: means are kept there, so that they cannot be dropped here; leave out --mean drop")
    found = {label: (one, i) for one in begin.sets for i, label in enumerate(one.place.labels)}
    if absent := set(found) - {label for one in start.sets for label in one.place.labels}:
        raise OptionError(f"--begin: {', '.join(sorted(absent))} would be lost, which is not learned here; leave out --by")
    sets = []
    for one in start.sets:
        units = [unit(one, i, found.get(label), label) for i, label in enumerate(one.place.labels)]
        axes, mean, variance, values = (torch.stack(part) for part in zip(*units, strict=True))
        sets.append(replace(one, axes=axes, mean=mean, variance=variance, values=values))
    made = ", ".join(str(begin.notes[key]) for key in ("made", "method", "dataset") if key in begin.notes)
    told = f"an adapter of {begin.trained:,} numbers" + (f" ({made})" if made else "")
    return replace(start, sets=tuple(sets), notes={**start.notes, BEGIN: told})


def unit(fresh: GainSet, i: int, found: tuple[GainSet, int] | None, label: str) -> Parts:
    """One unit as it starts: neutral, or with the adapter's mean and either its axes and numbers, or its matrix along the fresh axes."""
    axes, mean, variance, values = fresh.axes[i], fresh.mean[i], fresh.variance[i], fresh.values[i]
    if found is None:
        return axes, mean, variance, values
    (begin, j), form, (k, d) = found, FORMS[fresh.form], axes.shape
    gain, mean = gains_of(begin), begin.mean[j].to(mean)
    own = begin.axes[j].double().to(axes.device)
    if len(own) <= k and not fresh.truncated and not begin.truncated:
        known = len(own)
        own = torch.cat([own, torch.linalg.qr(own.mT, mode="complete").Q.mT[known:k]])
        spread = ((own @ axes.double().mT).square() * variance.double()).sum(-1)
        if gain is not None and form.start is not None:
            every = torch.cat([gain[j].to(own), own.new_ones(k - known)])
            return own.to(axes), mean, spread.to(variance), form.start(every[None])[0].to(values)
        if form.name == "mixing":
            inside = own.new_zeros(k, k)
            inside[:known, :known] = begin.tau * begin.inside()[j].to(own)
            return own.to(axes), mean, spread.to(variance), inside.flatten().to(values)
    if form.name == "mixing" and k == d and not fresh.truncated:
        change = begin.matrix()[j].double().to(axes.device) - torch.eye(d, dtype=torch.float64, device=axes.device)
        return axes, mean, variance, (axes.double() @ change @ axes.double().mT).flatten().to(values)
    wide = "" if fresh.place.kind == "heads" else f" --wide-form mixing --wide-kept {d}"
    raise OptionError(f"--begin: what it does to {label} cannot be said by {fresh.form} on {k} of {d} axes; use --form mixing{wide}")
