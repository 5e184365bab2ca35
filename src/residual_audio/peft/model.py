"""The tuner: which layers are wrapped, and how an adapter goes to disk and comes back, in the one format of the package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from peft.tuners.tuners_utils import BaseTuner, check_target_module_exists
from torch import Tensor, nn

from ..adaptation.gain import TENSORS, Shape
from ..adaptation.modules import in_text_tower, same_layer
from ..adaptation.validate import AdapterError, check_tensors, tensor_problem
from .layer import ResiDualLayer, attribute

# Attention output projections of audio towers, by the model_type of a config; "custom" is a model without one (Microsoft's CLAP).
HTSAT = r"(.*\.)?attention\.output\.dense"
TARGETS = {"clap": HTSAT, "custom": HTSAT, "whisper": r"(.*\.)?layers\.\d+\.self_attn\.out_proj"}
HEAD_WIDTH = ("attention_head_size", "head_dim")


class ResiDualModel(BaseTuner):
    """Put around a model by ``get_peft_model``."""

    prefix = "residual_"
    tuner_layer_cls = ResiDualLayer
    target_module_mapping = TARGETS  # type: ignore[assignment]

    @staticmethod
    def _check_target_module_exists(peft_config: Any, key: str) -> Any:
        """As PEFT does, but never in the text tower."""
        return not in_text_tower(key) and check_target_module_exists(peft_config, key)

    def _prepare_adapter_config(self, peft_config: Any, model_config: dict[str, Any]) -> Any:
        if peft_config.places is None and peft_config.target_modules is None and peft_config.write_modules is None:
            return super()._prepare_adapter_config(peft_config, model_config)
        return peft_config

    def _prepare_model(self, peft_config: Any, model: nn.Module) -> None:
        """Find the places of a config, once; the layers of a config that has them already are looked up in this model."""
        names = [name for name, part in model.named_modules() if is_layer(name, part) and not in_text_tower(name)]
        if peft_config.places is None:
            peft_config.places = list(self._places(peft_config, model, names))
        else:
            peft_config.places = [{**place, "modules": found(place["modules"], names)} for place in peft_config.places]
        if not peft_config.places:
            wanted = [str(given) for given in (peft_config.target_modules, peft_config.write_modules) if given]
            raise AdapterError(f"{' and '.join(wanted)}: no linear layer outside of the text tower has such a name")
        peft_config.target_modules = {name for place in peft_config.places for name in place["modules"]}

    def _places(self, config: Any, model: nn.Module, names: list[str]) -> Iterator[dict[str, Any]]:
        common = {"truncated": config.truncated, "tau": config.tau}
        for side, wanted in (("heads", config.target_modules), ("writes", config.write_modules)):
            for name in names if wanted is not None else ():
                if not matches(wanted, name) or matches(config.exclude_modules, name):
                    continue
                layer: Any = model.get_submodule(name)
                layer = layer.get_base_layer() if isinstance(layer, ResiDualLayer) else layer
                if side == "writes":
                    yield {"side": side, "modules": [name], "heads": [], "d_head": None, "form": config.form, **common}
                    continue
                width = config.d_head or head_width(model, name)
                if layer.in_features % width:
                    raise AdapterError(f"{name} takes {layer.in_features} channels, which are no heads of d_head = {width}")
                heads = list(range(layer.in_features // width))
                yield {"side": side, "modules": [name], "heads": heads, "d_head": width, "form": config.form, **common}

    def _create_and_replace(
        self,
        peft_config: Any,
        adapter_name: str,
        target: nn.Module,
        target_name: str,
        parent: nn.Module,
        current_key: str,
        parameter_name: str | None = None,
    ) -> None:
        layer = target if isinstance(target, ResiDualLayer) else ResiDualLayer(target)
        if layer is not target:
            self._replace_module(parent, target_name, layer, target)
        for place in peft_config.places or ():
            if current_key in place["modules"]:
                # What a truncated write does not keep is dropped: without a number, all of it is kept.
                base: Any = layer.get_base_layer()
                wide = base.out_features if peft_config.truncated and peft_config.kept is None else None
                layer.add(adapter_name, place, Shape(place["form"], kept=peft_config.kept, wide_kept=wide), peft_config.mean)
        layer.set_adapter(self.active_adapters, inference_mode=peft_config.inference_mode)

    @classmethod
    def _get_adapter_state_dict(
        cls, model: nn.Module, config: Any, adapter_name: str, state_dict: dict[str, Tensor], unwanted_adapter_names: list[str]
    ) -> dict[str, Tensor]:
        """The tensors by the names of our adapters: number of the place, then what it is."""
        return {
            f"{i}.{tensor}": state_dict[f"{below(model, place['modules'][0])}.{attribute(place['side'], tensor)}.{adapter_name}"]
            for i, place in enumerate(config.places or ())
            for tensor in TENSORS
        }

    @classmethod
    def _remove_adapter_name_from_key(cls, key: str, adapter_name: str) -> str:
        return key  # there is none in ours

    @classmethod
    def _remap_adapter_state_dict_for_load(
        cls, model: nn.Module, config: Any, adapter_name: str, state_dict: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """Check an adapter's tensors, make room for them, and name them as the layers do. Blocks of one place learn the same numbers."""
        places, where = config.places or [], f"adapter {adapter_name}"
        check_tensors(state_dict, len(places), where)
        named: dict[str, Tensor] = {}
        for i, place in enumerate(places):
            tensors = {t: state_dict[f"{i}.{t}"] for t in TENSORS}
            shared: nn.Parameter | None = None
            for module in place["modules"]:
                layer: Any = model.get_submodule(below(model, module))
                own = layer.put(adapter_name, place["side"], tensors)
                if problem := tensor_problem(layer.gains(adapter_name, place["side"], own.dtype).sets[0]):
                    raise AdapterError(f"{where}: {module}: {problem}")
                width = layer.get_base_layer().out_features if place["side"] == "writes" else place["d_head"]
                if tensors["axes"].shape[-1] != width:
                    raise AdapterError(f"{where}: {module}: its axes have {tensors['axes'].shape[-1]} channels, and the layer {width}")
                if shared is not None:
                    getattr(layer, attribute(place["side"], "values"))[adapter_name] = shared
                shared = own if shared is None else shared
                named |= {f"{below(model, module)}.{attribute(place['side'], t)}.{adapter_name}": v for t, v in tensors.items()}
        return named


def is_layer(name: str, part: nn.Module) -> bool:
    """A linear layer, or one that an adapter is around already."""
    return isinstance(part, ResiDualLayer) or (isinstance(part, nn.Linear) and not name.endswith(".base_layer"))


def matches(wanted: Any, name: str) -> bool:
    """PEFT's rule: a string is a regular expression of the whole name, a list has ends of names."""
    if not wanted:
        return False
    return bool(re.fullmatch(wanted, name)) if isinstance(wanted, str) else any(name == end or name.endswith(f".{end}") for end in wanted)


def found(modules: list[str], names: list[str]) -> list[str]:
    """The names that layers of an adapter have in this model."""
    here = []
    for module in modules:
        match = [name for name in names if same_layer(name, module) or same_layer(module, name)]
        if len(match) != 1:
            raise AdapterError(f"the adapter changes {module}, which this model {'has several times' if match else 'does not have'}")
        here += match
    return here


def below(model: nn.Module, module: str) -> str:
    """A layer's name in a wrapped model: PEFT puts the model two levels down."""
    return f"base_model.model.{module}" if hasattr(model, "base_model") and hasattr(model, "peft_config") else module


def head_width(model: nn.Module, name: str) -> int:
    """Channels per head of the attention around an output projection."""
    path = name.split(".")
    for end in (len(path) - 1, len(path) - 2):
        for part in model.get_submodule(".".join(path[:end])).modules():
            for attribute_name in HEAD_WIDTH:
                if isinstance(width := getattr(part, attribute_name, None), int):
                    return width
    raise AdapterError(f"{name}: how wide are its heads? Give d_head=…")
