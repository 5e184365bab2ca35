"""Options are fields of frozen dataclasses: name, type, default, help and limits stand in one place.

The command line makes its options from them (``cli/options.py``), a search varies them (``comparison/space.py``), Python code passes them
as they are. Every dataclass of options derives from :class:`Options`, which checks choices and limits when it is made.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, Field, dataclass, field, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

SIMPLE = (int, float, str, bool)


def words(text: str) -> list[str]:
    """``"a, b"`` → ``["a", "b"]``."""
    return [word.strip() for word in text.split(",") if word.strip()]


class OptionError(ValueError):
    """An option that does not exist, that nobody reads here, or whose value makes no sense; the message says what to do."""


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    flag: str | None = None,
    needs: str | None = None,
    grid: tuple[float, ...] = (),
) -> Any:
    """A field of an options dataclass.

    ``flag``: its name on the command line where that is not its own. ``needs``: another option without which this one is not read.
    ``grid``: the values that tuning tries.
    """
    known = {"help": help, "choices": choices, "least": least, "flag": flag, "needs": needs, "grid": grid}
    return field(default=default, metadata=known)


@dataclass(frozen=True)
class OptionSpec:
    """What is known about one option, read off its field."""

    name: str
    hint: Any
    default: Any
    help: str
    choices: tuple[str, ...]
    least: float | None
    flag: str
    needs: str | None
    grid: tuple[float, ...]

    @property
    def kinds(self) -> tuple[list[type], bool]:
        """The simple types that it takes, and whether it may be None."""
        parts = get_args(self.hint) if get_origin(self.hint) in (Union, UnionType) else (self.hint,)
        words = [w for p in parts if get_origin(p) is Literal for w in get_args(p)]
        return [p for p in parts if p in SIMPLE] + ([str] if words else []), type(None) in parts

    def parse(self, text: str) -> Any:
        """A value from its text, by the field's own type; ``none`` where it may be left out."""
        kinds, optional = self.kinds
        if optional and text.lower() == "none":
            return None
        if bool in kinds and text.lower() in ("true", "false"):
            return text.lower() == "true"
        for kind in (int, float):
            if kind in kinds:
                try:
                    value = kind(text)
                except ValueError:
                    continue
                if math.isfinite(value):
                    return value
        if str in kinds:
            return text
        expected = " or ".join(k.__name__ for k in kinds)
        raise OptionError(f"{self.flag}: {text!r} is not a value of it ({expected} expected)")

    def check(self, value: Any) -> None:
        """Refuse what is outside the choices or below the least."""
        if value is None and self.kinds[1]:
            return
        if self.choices and value not in self.choices:
            raise OptionError(f"{self.flag}: unknown {self.name} {value!r}; one of {', '.join(self.choices)}")
        if self.least is not None and not value >= self.least:
            raise OptionError(f"{self.flag}: {value} is less than {self.least:g}")


def _spec(one: Field[Any], hint: Any) -> OptionSpec:
    known = one.metadata
    flag = "--" + (known.get("flag") or one.name.replace("_", "-"))
    default = None if one.default is MISSING else one.default
    return OptionSpec(one.name, hint, default, known["help"], known["choices"], known["least"], flag, known["needs"], known["grid"])


def option_specs(kind: type) -> dict[str, OptionSpec]:
    """The options of a dataclass by name; fields without help are not options."""
    hints = get_type_hints(kind)
    return {one.name: _spec(one, hints[one.name]) for one in fields(kind) if "help" in one.metadata}


@dataclass(frozen=True)
class Options:
    """Base of all dataclasses of options: what was given is checked at once."""

    def __post_init__(self) -> None:
        for name, spec in option_specs(type(self)).items():
            spec.check(getattr(self, name))
