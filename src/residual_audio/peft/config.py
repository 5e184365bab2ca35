"""What PEFT is told of a ResiDual adapter. The file that it becomes is the ``adapter_config.json`` of our own adapters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from peft import PeftConfig

from ..adaptation.forms import FORMS
from ..adaptation.modules import side_of
from ..adaptation.validate import AdapterError
from .register import NAME

# In our adapters' configs, and of no use to PEFT: counts and digests are made anew when it saves.
OURS = ("trained_parameters", "weights_sha256")


@dataclass
class ResiDualConfig(PeftConfig):
    """How ResiDual is put around layers.

    - ``target_modules``: a regular expression, or ends of names, of attention output projections; their *inputs* are changed head by
      head. Default: all of the audio tower. The text tower is never touched, whatever matches there.
    - ``write_modules``: the same for layers whose *output* is changed as a whole: last layers of MLPs, or output projections again.
    - ``d_head``: channels per head; read off the model by default.
    - ``form``: scalar, gains, axes or mixing. ``kept``: leading axes that are changed (a number, a share of the variance, or all); the
      others pass, or are dropped with ``truncated``. ``mean``: kept or dropped. ``tau``: how much of the change is applied.
    - ``places``: filled in when layers are wrapped: one entry per place. ``base`` and ``notes``: as ``ra.save_adapter`` writes them.
    """

    target_modules: str | list[str] | None = None
    write_modules: str | list[str] | None = None
    exclude_modules: str | list[str] | None = None
    d_head: int | None = None
    form: str = "gains"
    kept: int | float | None = None
    truncated: bool = False
    mean: str = "keep"
    tau: float = 1.0
    places: list[dict[str, Any]] | None = None
    base: dict[str, Any] | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        import peft

        self.peft_type = peft.PeftType[NAME]
        FORMS[self.form]  # an unknown one is refused here
        if self.mean not in ("keep", "drop"):
            raise AdapterError(f"the mean is kept or dropped: mean is {self.mean!r}; one of keep, drop")
        if not 0 <= self.tau <= 1:
            raise AdapterError(f"a strength of {self.tau}; between 0 (nothing) and 1 (all)")
        if self.kept is not None and self.kept <= 0:
            raise AdapterError(f"kept is {self.kept}; a number of axes, or a share of the variance between 0 and 1")

    @classmethod
    def check_kwargs(cls, **given: Any) -> dict[str, Any]:
        """Read a config that ``ra.save_adapter`` wrote: its places get the side and width that PEFT needs to know."""
        read = {key: value for key, value in given.items() if key not in OURS}
        if isinstance(read.get("places"), list):
            read["places"] = [described(place, read.get("base")) for place in read["places"]]
        return read


def described(place: dict[str, Any], base: dict[str, Any] | None) -> dict[str, Any]:
    """A place with ``side`` and, of heads, ``d_head``."""
    if "side" in place:
        return place
    if not place.get("modules"):
        raise AdapterError(
            f"an adapter whose {place.get('kind', 'place')} names no layers: written by an earlier version (read it with "
            "ra.load_adapter and write it again with ra.save_adapter), or on an embedding that is no layer's output (use ra.fold)"
        )
    side = side_of(place["kind"])
    width = base["units"]["d_head"][place["blocks"][0][0]] if side == "heads" and base else None
    return {**place, "side": side, "d_head": width}
