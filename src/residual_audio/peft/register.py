"""How PEFT learns of a method that it does not bring along. The one place that reaches into its enumeration of types."""

from __future__ import annotations

from enum import Enum
from typing import Any

NAME = "RESIDUAL"


def extended(kind: type[Enum], name: str) -> Any:
    """The member ``name`` of an enumeration of strings, added where it is not there. Twice is once.

    Python closes an enumeration when it is defined. A member is therefore made by hand, and entered where the enumeration looks: by
    name, by value, in order, and (from Python 3.12 on) as an attribute.
    """
    if name in kind.__members__:
        return kind[name]
    member: Any = str.__new__(kind, name)  # type: ignore[type-var]
    member._name_ = member._value_ = name
    member.__objclass__, member._sort_order_ = kind, len(kind.__members__)
    kind._member_names_.append(name)
    kind._member_map_[name] = member
    kind._value2member_map_[name] = member
    type.__setattr__(kind, name, member)  # the enumeration's own would refuse
    return member


def register(peft: Any, config: type, model: type) -> None:
    """Tell PEFT of our classes, once."""
    from peft.mapping import PEFT_TYPE_TO_TUNER_MAPPING
    from peft.utils import register_peft_method

    if extended(peft.PeftType, NAME) not in PEFT_TYPE_TO_TUNER_MAPPING:
        register_peft_method(name=NAME.lower(), config_cls=config, model_cls=model)
