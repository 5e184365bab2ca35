"""Principal axes for a PEFT model, from the passes that a user runs anyway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from ..adaptation.validate import AdapterError
from ..spectra import Moments, principal_axes
from .layer import ResiDualLayer


@contextmanager
def fit_axes(model: Any, adapter_name: str | None = None) -> Iterator[None]:
    """Inside, the model runs as it was, and what passes through the adapter's layers is measured; at the end, their axes are its
    principal ones and their numbers are at the start.

    Moments are exact and take constant memory, so that any number of batches will do. Fit before an optimiser is made: the parameters are
    new ones.
    """
    adapter = adapter_name or model.active_adapter
    layers = [part for part in model.modules() if isinstance(part, ResiDualLayer) and adapter in part.residual_settings]
    if not layers:
        raise AdapterError(f"no layer has an adapter named {adapter!r}")
    seen: dict[tuple[int, str], Moments] = {}
    with ExitStack() as stack:
        stack.enter_context(model.disable_adapter())
        for number, layer in enumerate(layers):

            def measure(module: nn.Module, args: Any, out: Tensor, number: int = number, layer: ResiDualLayer = layer) -> None:
                for side, known in layer.residual_settings[adapter].items():
                    rows = out[..., None, :] if side == "writes" else args[0].unflatten(-1, (-1, known["d_head"]))[..., known["heads"], :]
                    moments = Moments.of(rows.detach().flatten(0, -3))
                    seen[number, side] = seen[number, side] + moments if (number, side) in seen else moments

            stack.callback(layer.get_base_layer().register_forward_hook(measure).remove)
        yield
    if len(seen) < sum(len(layer.residual_settings[adapter]) for layer in layers):
        raise AdapterError("nothing passed through some of the adapter's layers; run the audio side of the model inside fit_axes")
    for (number, side), moments in seen.items():
        layers[number].fit(adapter, side, principal_axes(moments))
