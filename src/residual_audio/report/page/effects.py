r"""What the page needs of a model: direct effects of gains, and maps of clips; all as plain arrays.

With norms held, a head output z enters a clip's score for a class only through $\sum_p \langle q_p, \sum_m \omega_{m,p}\, z_{m,p} \rangle$,
so gains g on axes φ about a mean μ change the score by exactly $\sum_a (g_a - 1)\, v_a$ as a *direct effect*, where $v_a$ is the score
of $\varphi_a \varphi_a^\top (z - \mu)$. The page keeps the v of some clips and adds them up in the browser.
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
from ...adaptation.gain import ResiDual
from ...audio import Prepared
from ...data import Clip
from ...decomposition.direct import held_scale, token_weights, weighted_positions
from ...decomposition.joint import Held, joint_shares
from ...decomposition.layout import to_spectrogram
from ...extraction import Run
from ...extraction.capture import Capture
from ...meaning.tokens import pull_back, spread
from ...media import MediaError
from ...models import Encoder
from ...models.batching import prepared_ahead
from ...spectra import Moments, principal_axes

BATCH = 8
WITHOUT_ADAPTER = 32  # heads that get a slider per axis where nothing was learned


@dataclass(frozen=True)
class Knobs:
    """Axes with a slider each: of ``heads`` (labels), ``axes [head, axis, d_head]``, ``mean [every head, d_head]`` and learned ``gain``.

    Gains of one change nothing; ``dropped`` says that the adapter writes no mean back (the papers' way).
    """

    heads: tuple[str, ...]
    axes: list[Float[Tensor, "_ _"]]
    gain: list[Float[Tensor, " _"]]
    mean: list[Float[Tensor, " _"]]
    dropped: bool = False


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
    axes, gains = [], []
    for found in residual.sets if residual else ():
        if found.place.form != "heads":
            continue
        for i, label in enumerate(found.place.labels):
            labels.append(label)
            axes.append(found.axes[i])
            gains.append(found.gain[i].expand(len(found.axes[i])))
            mean[place[label]] = found.mean[i].to(mean[0])
    if not labels:
        last = max(u.stage for u in heads)
        labels = list(best[:WITHOUT_ADAPTER]) or [u.label for u in heads if u.stage == last][:WITHOUT_ADAPTER]
        axes = [basis.axes[place[label]] for label in labels]
        gains = [torch.ones(len(a)) for a in axes]
    plain = [a.float() for a in axes], [g.detach().float() for g in gains], [m.float() for m in mean]
    return Knobs(tuple(labels), *plain, dropped=residual is not None and residual.mean == "drop")


class PageCapture(Capture):
    """Also keeps, of every clip, the pooled share of each head about its mean and along its axes, and all that units write, by stage."""

    def __init__(self, encoder: Encoder, turned: Knobs | None) -> None:
        super().__init__(encoder, ("embedding", "direct"))
        self.turned = turned

    def _direct(self, kept: dict, streams: dict[str, Tensor], pooled: Tensor) -> dict[str, Tensor]:
        result = super()._direct(kept, streams, pooled)
        weights = self.weights(streams)
        for s, sites in enumerate(self.stage_sites):
            grouped = torch.zeros(*weights[s].shape, self.maps[s].shape[-1], dtype=pooled.dtype, device=pooled.device)
            if s == 0:
                grouped += streams["embedding"][:, self.orders[0]].view(grouped.shape)
            for site in sites:
                key = (site.stage, site.block)
                projection = self.encoder.module.get_submodule(site.projection)
                written = projection(kept[("heads", *key)])
                grouped += written[:, self.picks[key]].view(grouped.shape)
                grouped += kept[("mlp", *key)][:, self.orders[s]].view(grouped.shape)
            result[f"page.written.{s}"] = grouped
            result[f"page.weights.{s}"] = weights[s]
        return result | (self._turn(kept, weights) if self.turned is not None else {})

    def weights(self, streams: dict[str, Tensor]) -> list[Tensor]:
        """ω of every stage, as :meth:`Capture._direct` makes them."""
        scales = [held_scale(streams[f"end {i}"], merge.norm.eps) for i, merge in enumerate(self.merges)]
        last = held_scale(streams[f"end {len(self.encoder.stages) - 1}"], self.final.eps)
        return token_weights(scales, self.orders, last, self.pool)

    def _turn(self, kept: dict, weights: list[Tensor]) -> dict[str, Tensor]:
        assert self.turned is not None
        whole, result, number = [], {}, 0
        for site in self.encoder.sites:
            key, held = (site.stage, site.block), weights[site.stage]
            summed = weighted_positions(kept[("heads", *key)], self.picks[key], held).unflatten(-1, (site.heads, -1))
            through = self.head_maps[key].unflatten(1, (summed.shape[1], -1))
            for h in range(site.heads):
                mean = self.turned.mean[number].to(summed)
                about = summed[:, :, h] - held.sum(1)[..., None] * mean
                whole.append(torch.einsum("cpk,pko->co", about, through[h]))
                label = f"S{site.stage}B{site.block}H{h}"
                if label in self.turned.heads:
                    axes = self.turned.axes[self.turned.heads.index(label)].to(summed)
                    along = torch.einsum("pko,ak->pao", through[h], axes)
                    result[f"page.axis.{label}"] = torch.einsum("cpa,pao->cao", about @ axes.T, along)
                    result[f"page.mean.{label}"] = torch.einsum("cp,pko,k->co", held.sum(1), through[h], mean)
                number += 1
        return result | {"page.whole": torch.stack(whole, 1)}


def joint_scores(shares: Float[Tensor, "clip part d"], arrays: dict[str, Tensor], capture: Capture, texts: Float[Tensor, "text joint"]):
    """Shares of the pooled output → of the cosine with each text: through the held projection and the held length."""
    if capture.joint is not None:
        shares = joint_shares(shares, capture.joint, Held(arrays["direct.ratio"], arrays["direct.scale"]))
    length = arrays["embedding.joint"].norm(dim=-1)
    return (shares @ texts.to(shares).T / length[:, None, None]).float().cpu()


def written_maps(
    arrays: dict[str, Tensor], clip: int, capture: Capture, texts: Float[Tensor, "text joint"], cells: tuple[int, int] = (16, 64)
) -> Float[Tensor, "text frequency time"]:
    """Where, in one clip of a batch, units write towards each text; a text's map sums to all units' shares of the cosine."""
    encoder, held = capture.encoder, None
    if capture.joint is not None:
        held = Held(arrays["direct.ratio"][clip : clip + 1], arrays["direct.scale"][clip : clip + 1])
    length = arrays["embedding.joint"][clip].norm()
    back = torch.cat([pull_back(t, capture.joint, held) for t in texts.to(length) / length])
    total: Tensor | None = None
    for s, stage in enumerate(encoder.stages):
        written, weights = arrays[f"page.written.{s}"][clip], arrays[f"page.weights.{s}"][clip]
        pulled = torch.einsum("pod,to->tpd", capture.maps[s], back)
        grouped = (weights * torch.einsum("gpd,tpd->tgp", written, pulled)).flatten(1)
        tokens = torch.empty_like(grouped)
        tokens[:, capture.orders[s]] = grouped
        plane = tokens[:, to_spectrogram(stage.grid, encoder.strips)]
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
    capture = PageCapture(encoder, turned)
    table = run.clips
    sources = [Clip(str(table["id"][i]), str(table["path"][i]), str(table["label"][i])).source for i in rows]
    found: list[list[Tensor]] = []
    maps: dict[tuple[int, int], np.ndarray] = {}
    kept: list[int] = []
    axis: list[list[Tensor]] = [[] for _ in turned.heads]
    waiting: list[tuple[int, Prepared]] = []

    def flush() -> None:
        features = torch.cat([p.features for _, p in waiting]).to(encoder.device, encoder.dtype)
        longer = torch.tensor([p.longer for _, p in waiting], device=encoder.device)
        arrays = capture.run(features, longer).arrays
        embedding = F.normalize(arrays["embedding.joint"], dim=-1)
        base = embedding @ classes.to(embedding).T - (0 if offset is None else offset.to(embedding))
        means = torch.stack([arrays[f"page.mean.{label}"] for label in turned.heads], 1).sum(1, keepdim=True)
        gone = -joint_scores(means, arrays, capture, classes)[:, 0] if turned.dropped else torch.zeros_like(base)
        adapted = torch.zeros_like(base)
        if residual is not None:
            with attached(encoder, residual.to(encoder.device, encoder.dtype)):
                changed = F.normalize(encoder.encode(features, longer), dim=-1)
            adapted = changed @ classes.to(changed).T - (0 if offset is None else offset.to(changed))
        found.append([base.cpu(), joint_scores(arrays["page.whole"], arrays, capture, classes), gone.cpu(), adapted.cpu()])
        for i, label in enumerate(turned.heads):
            axis[i].append(joint_scores(arrays[f"page.axis.{label}"], arrays, capture, classes))
        for i, (row, _) in enumerate(waiting):
            wanted = mapped.get(row, [])
            if wanted:
                for number, plane in zip(wanted, written_maps(arrays, i, capture, texts[wanted]), strict=True):
                    maps[row, number] = plane.numpy()
        kept.extend(row for row, _ in waiting)
        waiting.clear()

    for row, outcome in zip(rows.tolist(), prepared_ahead(sources, encoder.prepare, None, ahead=2 * BATCH), strict=True):
        if not isinstance(outcome, MediaError) and len(outcome.features) == 1:
            waiting.append((row, outcome))
        if len(waiting) == BATCH:
            flush()
        if advance is not None:
            advance(1)
    if waiting:
        flush()
    if not kept:
        raise MediaError("none of the clips that the page would show can be read again in one window")
    base, whole, gone, adapted = (torch.cat([f[i] for f in found]) for i in range(4))
    after = adapted.float() if residual is not None else None
    return Effects(np.array(kept), base.float(), whole, [torch.cat(a) for a in axis], gone.float(), after), maps
