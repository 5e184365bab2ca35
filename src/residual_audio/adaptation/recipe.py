"""Options by name, for any number of methods: each method takes what it reads, and what nobody reads is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from ..options import OptionError, OptionSpec, option_specs
from .methods import METHODS
from .options import MethodOptions

if TYPE_CHECKING:
    import torch

    from ..units import UnitTable


@cache
def all_options() -> dict[str, dict[str, OptionSpec]]:
    """Every option by name: the methods that have it, each with its own default."""
    options: dict[str, dict[str, OptionSpec]] = {}
    for name, method in METHODS.items():
        for key, spec in option_specs(method.options).items():
            options.setdefault(key, {})[name] = spec
    return options


class Recipe(Mapping[str, Any]):
    """``Recipe(units="S3 heads", rate=0.1, lora_rank=8)``: what differs from the methods' own defaults."""

    def __init__(self, **given: Any) -> None:
        for name in given:
            if name not in all_options():
                near = get_close_matches(name, all_options(), n=2, cutoff=0.5)
                hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(all_options())}"
                raise OptionError(f"no method has an option {name!r}; {hint}")
        self._given = given

    def __getitem__(self, name: str) -> Any:
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __repr__(self) -> str:
        return f"Recipe({', '.join(f'{k}={v!r}' for k, v in self._given.items())})"

    def changed(self, **choices: Any) -> Recipe:
        """The same with some options given, or given otherwise."""
        return Recipe(**{**self._given, **choices})

    def on(self, device: torch.device) -> Recipe:
        """With the precision that ``auto`` is there: what is recorded, so that a resumed comparison does not mix two."""
        if self._given.get("precision") != "auto":
            return self
        from ..models.precision import chosen_precision

        return self.changed(precision=chosen_precision("auto", device))

    def read_by(self, method: str) -> dict[str, Any]:
        """The given options that a method reads."""
        specs = option_specs(METHODS[method].options)

        def read(spec: OptionSpec) -> bool:
            return spec.needs is None or self._given.get(spec.needs) is not None

        return {name: value for name, value in self._given.items() if name in specs and read(specs[name])}

    def options(self, method: str) -> MethodOptions:
        """A method's options: those that were given, and its defaults for the others."""
        return METHODS[method].options(**self.read_by(method))

    def check(self, methods: Sequence[str]) -> None:
        """Refuse an option that none of these methods reads; make sure that their values make sense."""
        read = {name for method in methods for name in self.read_by(method)}
        for name in self._given:
            if name not in read:
                owners = all_options()[name]
                flag = next(iter(owners.values())).flag
                needed = sorted({f"--{spec.needs}" for m, spec in owners.items() if spec.needs and m in methods})
                able = ", ".join(m for m, spec in owners.items() if m not in methods and not (needed and spec.needs))
                hint = f"it goes with {' or '.join(needed)}, or with {able}" if needed else f"it is read by {able}"
                raise OptionError(f"{flag} does nothing for {', '.join(methods)}: {hint}")
        for method in methods:
            self.options(method)

    def recorded(self, method: str, units: UnitTable) -> dict[str, Any]:
        """Every option that a method reads with the value that it has, as JSON keeps it."""
        values = asdict(self.options(method).settled(units))
        specs = option_specs(METHODS[method].options)

        def read(spec: OptionSpec) -> bool:
            return spec.needs is None or values[spec.needs] is not None

        return {name: value for name, value in values.items() if read(specs[name])}
