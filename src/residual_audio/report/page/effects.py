r"""What the page needs of a model: direct effects of gains, and maps of clips; all as plain arrays.

With norms held, a head output z enters a clip's score for a class only through $\sum_p \langle q_p, \sum_m \omega_{m,p}\, z_{m,p} \rangle$,
so gains g on axes φ about a mean μ change the score by exactly $\sum_a (g_a - 1)\, v_a$ as a *direct effect*, where $v_a$ is the score
of $\varphi_a \varphi_a^\top (z - \mu)$; of a full matrix, $w_a \varphi_a^\top (z - \mu)$ (``directions.py``). The page keeps the v of
some clips and adds them up in the browser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ...adaptation.attach import attached
from ...adaptation.directions import directions
from ...adaptation.gain import ResiDual
from ...data import Clip
from ...decomposition.direct import weighted_positions
from ...decomposition.joint import Held, joint_shares
from ...extraction import Run
from ...meaning.tokens import pull_back, spread
from ...media import MediaError
from ...models import Encoder
from ...models.batching import as_batch, batches
from ...models.pathways import Pathways
from ...models.readings import DIRECT
from ...models.recording import Recording, recorded
from ...spectra import Moments, principal_axes

BATCH = 8
WITHOUT_ADAPTER = 32  # heads that get a slider per axis where nothing was learned


@dataclass(frozen=True)
class Knobs:
    """Axes with a slider each: of ``heads`` (labels), ``axes [head, axis, d_head]``, ``mean [every head, d_head]`` and learned ``gain``.

    Gains of one change nothing; ``written``: where what lies along an axis is added. ``dropped``: how much of the mean the adapter does not
    write back (the papers' way: all of it).
    """

    heads: tuple[str, ...]
    axes: list[Float[Tensor, "_ _"]]
    gain: list[Float[Tensor, " _"]]
    mean: list[Float[Tensor, " _"]]
    written: list[Float[Tensor, "_ _"]]
    dropped: float = 0.0


@dataclass(frozen=True)
class Effects:
    """Scores of some clips, and what every knob adds to them: ``after = base + Σ (g − 1) axis + …`` (direct effect).

    ``whole``: of each head, its output about the mean; ``axis``: of each head with knobs, along its first axes, each about the mean;
    ``dropped``: what dropping the means of the knobs' heads does. ``adapted``: scores of the whole adapted model, nothing held.
    """

    rows: np.ndarray
    base: Float[Tensor, "clip class"]
    whole: Float[Tensor, "clip head class"]
    axis: list[Float[Tensor, "clip _ class"]]
    dropped: Float[Tensor, "clip class"]
    adapted: Float[Tensor, "clip class"] | None


def knobs(run: Run, residual: ResiDual | None, best: Sequence[str] = ()) -> Knobs:
    """Of an adapter's heads, with what it learned; else of ``best`` heads (none: of the last stage), with gains of one."""
    heads = run.units.where("head")
    moments = run.moments("tokens") if run.store.exists("moments.safetensors") else Moments.of(run.heads[:].double())
    basis = principal_axes(moments)
    place = {u.label: i for i, u in enumerate(heads)}
    mean = list(basis.mean)
    labels: list[str] = []
    axes, gains, written = [], [], []
    for one in residual.sets if residual else ():
        if one.place.kind != "heads":
            continue
        for i, label in enumerate(one.place.labels):
            labels.append(label)
            found = directions(one, i)
            axes.append(found.read)
            gains.append(found.gain)
            written.append(found.written)
            mean[place[label]] = one.mean[i].to(mean[0])
    if not labels:
        last = max(u.stage for u in heads)
        labels = list(best[:WITHOUT_ADAPTER]) or [u.label for u in heads if u.stage == last][:WITHOUT_ADAPTER]
        axes = written = [basis.axes[place[label]] for label in labels]
        gains = [torch.ones(len(a)) for a in axes]
    plain = [a.float() for a in axes], [g.detach().float() for g in gains], [m.float() for m in mean], [w.float() for w in written]
    strength = residual.sets[0].tau if residual is not None and residual.mean == "drop" else 0.0
    return Knobs(tuple(labels), *plain, dropped=strength)


@dataclass(frozen=True)
class Scoring:
    """From shares of the pooled output to shares of the cosine with texts: through the held projection and the held length."""

    recording: Recording
    ways: Pathways
    weights: list[Float[Tensor, "clip _ _"]]
    held: Held | None

    @classmethod
    def of(cls, recording: Recording, ways: Pathways) -> Scoring:
        return cls(recording, ways, ways.weights(recording), ways.encoder.readout.hold(recording.pooled))

    def scores(self, shares: Float[Tensor, "clip part d"], texts: Float[Tensor, "text joint"]) -> Float[Tensor, "clip part text"]:
        if self.ways.joint is not None and self.held is not None:
            shares = joint_shares(shares, self.ways.joint, self.held)
        length = self.recording.embedding.norm(dim=-1)
        return (shares @ texts.to(shares).T / length[:, None, None]).float().cpu()

    def pulled_back(self, clip: int, texts: Float[Tensor, "text joint"]) -> Float[Tensor, "text d"]:
        """Each text's direction in the pooled space of one clip."""
        held = None if self.held is None else Held(self.held.ratio[clip : clip + 1], self.held.scale[clip : clip + 1])
        length = self.recording.embedding[clip].norm()
        return torch.cat([pull_back(t, self.ways.joint, held) for t in texts.to(length) / length])


@dataclass(frozen=True)
class Turned:
    """Shares of the pooled output: ``whole`` of every head about its mean; ``axis`` and ``mean`` of the knobs' heads."""

    whole: Float[Tensor, "clip head d"]
    axis: list[Float[Tensor, "clip _ d"]]
    mean: list[Float[Tensor, "clip d"]]


def turned_shares(scoring: Scoring, turned: Knobs) -> Turned:
    """What every head writes about its mean, and the knobs' heads along their axes, as shares of the pooled output."""
    recording, ways, weights = scoring.recording, scoring.ways, scoring.weights
    whole: list[Tensor] = []
    axis: dict[str, Tensor] = {}
    means: dict[str, Tensor] = {}
    for site in ways.encoder.sites:
        held = weights[site.stage]
        summed = weighted_positions(recording.heads[site.key], ways.picks[site.key], held).unflatten(-1, (site.heads, -1))
        through = ways.head_maps[site.key].unflatten(1, (summed.shape[1], -1))
        for h in range(site.heads):
            mean = turned.mean[len(whole)].to(summed)
            about = summed[:, :, h] - held.sum(1)[..., None] * mean
            whole.append(torch.einsum("cpk,pko->co", about, through[h]))
            label = f"S{site.stage}B{site.block}H{h}"
            if label in turned.heads:
                axes = turned.axes[turned.heads.index(label)].to(summed)
                along = torch.einsum("pko,ak->pao", through[h], turned.written[turned.heads.index(label)].to(summed))
                axis[label] = torch.einsum("cpa,pao->cao", about @ axes.T, along)
                means[label] = torch.einsum("cp,pko,k->co", held.sum(1), through[h], mean)
    return Turned(torch.stack(whole, 1), [axis[label] for label in turned.heads], [means[label] for label in turned.heads])


def written_tokens(recording: Recording, ways: Pathways, stage: int) -> Float[Tensor, "clip token width"]:
    """All that the units of one stage write, token by token in group layout."""
    order = ways.orders[stage]
    total = recording.first_stream[:, order].clone() if stage == 0 else None
    for site in (s for s in ways.encoder.sites if s.stage == stage):
        attention = ways.encoder.linear(site.projection)(recording.heads[site.key])[:, ways.picks[site.key]]
        total = attention if total is None else total + attention
        total = total + recording.mlps[site.key][:, order]
    assert total is not None, "a stage has at least one block"
    return total


def written_maps(
    scoring: Scoring,
    clip: int,
    written: list[Float[Tensor, "clip _ _"]],
    texts: Float[Tensor, "text joint"],
    cells: tuple[int, int] = (16, 64),
) -> Float[Tensor, "text frequency time"]:
    """Where, in one clip of a batch, units write towards each text; a text's map sums to all units' shares of the cosine."""
    ways, weights, back = scoring.ways, scoring.weights, scoring.pulled_back(clip, texts)
    total: Tensor | None = None
    for s in range(len(ways.encoder.stages)):
        pulled = torch.einsum("pod,to->tpd", ways.maps[s], back)
        own = written[s][clip].unflatten(0, weights[s][clip].shape)
        grouped = (weights[s][clip] * torch.einsum("gpd,tpd->tgp", own, pulled)).flatten(1)
        tokens = torch.empty_like(grouped)
        tokens[:, ways.orders[s]] = grouped
        plane = tokens[:, ways.spectrogram(s)]
        total = plane if total is None else total + torch.stack([spread(p, total.shape[1:]) for p in plane])
    assert total is not None
    shape = min(total.shape[1], cells[0]), min(total.shape[2], cells[1])
    # Sums of whole cells: the map still adds up, at a size that a page can carry.
    return F.adaptive_avg_pool2d(total[None], shape)[0].cpu() * (total[0].numel() / (shape[0] * shape[1]))


@torch.inference_mode()
def page_effects(
    encoder: Encoder,
    run: Run,
    rows: np.ndarray,
    classes: Float[Tensor, "class joint"],
    turned: Knobs,
    residual: ResiDual | None,
    mapped: dict[int, list[int]],
    texts: Float[Tensor, "text joint"],
    offset: Float[Tensor, " class"] | None = None,
    advance: Callable[[int], object] | None = None,
) -> tuple[Effects, dict[tuple[int, int], np.ndarray]]:
    """Run ``rows`` of the run once more: what knobs do to their scores, and the maps of ``mapped[row]`` (numbers of texts).

    ``offset`` is taken off every score: class centroids are about the mean of the clips. A clip that cannot be read any more is left out.
    """
    ways, table = Pathways(encoder), run.clips
    sources = [Clip(str(table["id"][i]), str(table["path"][i]), str(table["label"][i])).source for i in rows]
    parts: list[Effects] = []
    maps: dict[tuple[int, int], np.ndarray] = {}

    def cosines(embedding: Tensor) -> Tensor:
        unit = F.normalize(embedding, dim=-1)
        return (unit @ classes.to(unit).T - (0 if offset is None else offset.to(unit))).float().cpu()

    for batch in batches(sources, encoder.prepare, BATCH):
        single = [(int(rows[r]), p) for r, p in zip(batch.rows, batch.clips, strict=True) if len(p.features) == 1]
        if single:
            features, longer, _ = as_batch(encoder, [p for _, p in single])
            scoring = Scoring.of(recorded(encoder, features, longer, DIRECT), ways)
            shares, base = turned_shares(scoring, turned), cosines(scoring.recording.embedding)
            whole, axis = scoring.scores(shares.whole, classes), [scoring.scores(a, classes) for a in shares.axis]
            means = torch.stack(shares.mean, 1).sum(1, keepdim=True)
            dropped = -turned.dropped * scoring.scores(means, classes)[:, 0] if turned.dropped else torch.zeros_like(base)
            adapted = None
            if residual is not None:
                with attached(encoder, residual.to(encoder.device, encoder.dtype)):
                    adapted = cosines(encoder.encode(features, longer))
            parts.append(Effects(np.array([row for row, _ in single]), base, whole, axis, dropped, adapted))
            maps |= asked_maps(scoring, [row for row, _ in single], mapped, texts)
        if advance is not None:
            advance(len(batch))
    if not parts:
        raise MediaError("none of the clips that the page would show can be read again in one window")
    return joined(parts), maps


def asked_maps(
    scoring: Scoring, rows: Sequence[int], mapped: dict[int, list[int]], texts: Float[Tensor, "text joint"]
) -> dict[tuple[int, int], np.ndarray]:
    """The maps of ``mapped[row]`` of those ``rows`` that are in the batch."""
    asked = {i: mapped[row] for i, row in enumerate(rows) if mapped.get(row)}
    written = [written_tokens(scoring.recording, scoring.ways, s) for s in range(len(scoring.weights))] if asked else []
    return {
        (rows[i], number): plane.numpy()
        for i, numbers in asked.items()
        for number, plane in zip(numbers, written_maps(scoring, i, written, texts[numbers]), strict=True)
    }


def joined(parts: Sequence[Effects]) -> Effects:
    """Of all clips together."""
    adapted = [p.adapted for p in parts if p.adapted is not None]
    return Effects(
        np.concatenate([p.rows for p in parts]),
        torch.cat([p.base for p in parts]),
        torch.cat([p.whole for p in parts]),
        [torch.cat(axis) for axis in zip(*(p.axis for p in parts), strict=True)],
        torch.cat([p.dropped for p in parts]),
        torch.cat(adapted) if adapted else None,
    )
