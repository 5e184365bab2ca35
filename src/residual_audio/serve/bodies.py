"""What clients send: every field with its type and its limit, and no others."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from .entry import Setting
from .limits import GAINS, LABEL, STRENGTH, TEXT, TEXTS


class Asking(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Name = Annotated[str, Field(max_length=48)]
Text = Annotated[str, Field(min_length=1, max_length=TEXT)]


class SettingBody(Asking):
    adapter: Name | None = None
    strength: float = Field(default=1.0, ge=0, le=1)
    gains: dict[Annotated[str, Field(max_length=24)], float] = Field(default_factory=dict, max_length=GAINS)

    def read(self) -> Setting:
        return Setting(self.adapter, self.strength, self.gains)


class ScoresBody(Asking):
    texts: list[Text] = Field(default_factory=list, max_length=TEXTS)
    setting: SettingBody = SettingBody()


class TowardsBody(Asking):
    text: Text | None = None
    number: int | None = Field(default=None, alias="class")
    units: str = Field(default="all", max_length=400)
    setting: SettingBody = SettingBody()


class TextBody(Asking):
    text: Text


class SteerBody(Asking):
    more: list[Text] = Field(default_factory=list, max_length=TEXTS)
    less: list[Text] = Field(default_factory=list, max_length=TEXTS)
    strength: float = Field(default=1.0, ge=0, le=STRENGTH)
    controls: int = Field(default=9, ge=0, le=99)


class ExplainBody(Asking):
    text: Text | None = None
    number: int | None = Field(default=None, alias="class")
    curves: bool = False


class SaveBody(Asking):
    name: Name
    setting: SettingBody
    replace: bool = False


class LabelBody(Asking):
    sound: str | None = Field(default=None, max_length=40)
    row: int | None = None
    label: Annotated[str, Field(max_length=4 * LABEL)] | None


class JobBody(Asking):
    name: Name
    dataset: Name | None = None
    method: str = Field(default="residual", max_length=40)
    units: str | None = Field(default=None, max_length=400)
    epochs: int | None = Field(default=None, ge=1, le=200)
    setting: SettingBody | None = None
    replace: bool = False
