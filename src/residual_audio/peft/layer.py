"""A linear layer with ResiDual around it: heads are changed on the way in, writes on the way out.

The maths is the package's own: :mod:`residual_audio.adaptation.attach` at work, :mod:`residual_audio.adaptation.fold` in the weights.
Several active adapters: merging them one after the other gives what running them gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from peft.tuners._buffer_dict import BufferDict
from peft.tuners.tuners_utils import BaseTunerLayer, check_adapters_to_merge
from torch import Tensor, nn

from ..adaptation.attach import head_change, vector_change
from ..adaptation.fold import fold_heads
from ..adaptation.gain import TENSORS, GainSet, ResiDual, Shape, gain_set
from ..adaptation.select import Place
from ..models.folding import fold_write
from ..spectra import Basis

SIDES = ("heads", "writes")


def attribute(side: str, tensor: str) -> str:
    return f"residual_{side}_{tensor}"


class ResiDualLayer(nn.Module, BaseTunerLayer):
    """``settings[adapter][side]``: the form, heads, strength and so on; the tensors lie in dictionaries by adapter, as PEFT wants them."""

    adapter_layer_names = tuple(attribute(side, "values") for side in SIDES)
    other_param_names = (*(attribute(side, t) for side in SIDES for t in TENSORS[:3]), "residual_settings")

    def __init__(self, base_layer: nn.Module) -> None:
        super().__init__()
        self.base_layer = base_layer
        for side in SIDES:
            for tensor in TENSORS:
                made: nn.Module = nn.ParameterDict() if tensor == "values" else BufferDict(persistent=True)
                setattr(self, attribute(side, tensor), made)
        self.residual_settings: dict[str, dict[str, dict[str, Any]]] = {}
        self.merged_adapters: list[str] = []
        self._disable_adapters = False
        self._plain: tuple[Tensor, Tensor | None] | None = None

    def add(self, adapter: str, place: Mapping[str, Any], shape: Shape, mean: str) -> None:
        """A place at its start, on the layer's own channels as axes, until principal ones are fitted or loaded."""
        layer: Any = self.get_base_layer()
        side = place["side"]
        width = place["d_head"] if side == "heads" else layer.out_features
        units = len(place["heads"]) if side == "heads" else 1
        like = dict(dtype=torch.promote_types(layer.weight.dtype, torch.float32), device=layer.weight.device)
        axes = torch.eye(width, **like).expand(units, width, width)
        self.residual_settings.setdefault(adapter, {})[side] = {**place, "mean": mean, "shape": shape}
        self.fit(adapter, side, Basis(axes, torch.ones(units, width, **like), torch.zeros(units, width, **like)))

    def fit(self, adapter: str, side: str, basis: Basis) -> None:
        """Put a side's numbers at their start on these axes."""
        known = self.residual_settings[adapter][side]
        weight: Any = self.get_base_layer().weight
        kind = torch.promote_types(weight.dtype, torch.float32)  # axes in half precision are not orthonormal enough to be loaded again
        exact = Basis(*(getattr(basis, name).to(weight.device, kind) for name in ("axes", "variance", "mean")))
        gains = gain_set(self.place(known), exact, known["shape"])
        self.put(adapter, side, {name: getattr(gains, name) for name in TENSORS})

    def put(self, adapter: str, side: str, tensors: Mapping[str, Tensor]) -> nn.Parameter:
        """Replace a side's tensors, of whatever number of axes and precision; returns the learned ones."""
        device = self.weight.device
        dictionary = getattr(self, attribute(side, "values"))
        asked = dictionary[adapter].requires_grad if adapter in dictionary else True
        values = nn.Parameter(tensors["values"].detach().clone().to(device), requires_grad=asked)
        dictionary[adapter] = values
        for name in TENSORS[:3]:
            getattr(self, attribute(side, name))[adapter] = tensors[name].detach().clone().contiguous().to(device)
        return values

    @staticmethod
    def place(known: Mapping[str, Any]) -> Place:
        return Place("heads", heads=tuple(known["heads"])) if known["side"] == "heads" else Place("mlps")

    def gains(self, adapter: str, side: str, dtype: torch.dtype) -> ResiDual | None:
        """One side of an adapter as the package knows it, in this precision; None where the adapter has none here."""
        known = self.residual_settings.get(adapter, {}).get(side)
        if known is None:
            return None
        tensors = {name: getattr(self, attribute(side, name))[adapter] for name in TENSORS}
        one = GainSet(self.place(known), **tensors, form=known["form"], truncated=known["truncated"], tau=known["tau"])
        return ResiDual((one,), known["mean"]).to(tensors["values"].device, dtype)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.disable_adapters and self.merged:
            self.unmerge()
        if self.disable_adapters or self.merged:
            plain: Tensor = self.base_layer(x, *args, **kwargs)
            return plain
        for adapter in reversed(self.active_adapters):  # so that merging in order gives the same
            if (change := self.gains(adapter, "heads", x.dtype)) is not None:
                one = change.sets[0]
                x = head_change(one, x.shape[-1] // one.axes.shape[-1], change.mean, one.values)(x)
        out: Tensor = self.base_layer(x, *args, **kwargs)
        for adapter in self.active_adapters:
            if (change := self.gains(adapter, "writes", out.dtype)) is not None:
                out = vector_change(change.sets[0], change.mean, change.sets[0].values)(out)
        return out

    @torch.no_grad()
    def merge(self, safe_merge: bool = False, adapter_names: list[str] | None = None) -> None:
        """Fold the adapters into the layer. What it was is kept, so that taking them out again is exact."""
        layer: Any = self.get_base_layer()
        for adapter in check_adapters_to_merge(self, adapter_names):
            if adapter not in self.residual_settings:
                continue
            before = (layer.weight.clone(), None if layer.bias is None else layer.bias.clone())
            for side in SIDES:
                if (change := self.gains(adapter, side, torch.float64)) is not None:
                    one = change.sets[0]
                    matrix = one.matrix()
                    offset = one.offset(matrix, change.mean)
                    fold_heads(layer, one, matrix, offset) if side == "heads" else fold_write(layer, matrix[0], offset[0])
            if safe_merge and not all(bool(torch.isfinite(t).all()) for t in (layer.weight, layer.bias) if t is not None):
                self._restore(before)
                raise ValueError(f"the adapter {adapter} holds numbers that are not finite; nothing was merged")
            self._plain = before if self._plain is None else self._plain
            self.merged_adapters.append(adapter)

    @torch.no_grad()
    def unmerge(self) -> None:
        """The layer as it was before anything was merged, to the last bit."""
        if self._plain is not None:
            self._restore(self._plain)
        self._plain = None
        self.merged_adapters.clear()

    def _restore(self, plain: tuple[Tensor, Tensor | None]) -> None:
        layer: Any = self.get_base_layer()
        layer.weight.copy_(plain[0])
        if plain[1] is not None:
            layer.bias.copy_(plain[1])
