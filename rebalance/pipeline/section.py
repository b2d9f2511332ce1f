"""What all sections of a pipeline file have in common."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """Knows its knobs, refuses others, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _of_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse values of another kind: TOML has types, and what pydantic makes of true or "8" for a number is not what was said."""
        kinds = _kinds(cls.model_fields[info.field_name or ""].annotation)
        for one in value if isinstance(value, list | tuple) else (value,):
            wanted = _mismatch(one, kinds)
            if wanted:
                raise PydanticCustomError("kind", "{wanted}", {"wanted": wanted})
        return value


def _kinds(annotation: Any) -> set[Any]:
    """The plain types that a knob takes."""
    if get_origin(annotation) is Literal:
        return {str}
    inner = [kind for kind in get_args(annotation) if kind not in (type(None), Ellipsis)]
    return set().union(*map(_kinds, inner)) if inner else {annotation}


def _mismatch(value: Any, kinds: set[Any]) -> str:
    """What is wrong with a value for a knob of these types; nothing if pydantic can judge it."""
    numbers, times = kinds & {int, float}, kinds & {timedelta, datetime}
    if isinstance(value, str) and "\x00" in value:
        return "it holds a NUL character. Remove it."
    if Any in kinds or not (numbers or times or bool in kinds):
        return ""
    if isinstance(value, bool) and bool not in kinds:
        return "it is neither true nor false. Write a value."
    if isinstance(value, str) and not (times or str in kinds):
        return "it takes no text. Leave the quotes out."
    if isinstance(value, int | float) and not (numbers or isinstance(value, bool)):
        return "it takes no number." + (" Write it with its unit, for example '1 h', or as a date." if times else "")
    return ""
