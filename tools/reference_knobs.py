"""The reference page of the pipeline file, from the models that check it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from rebalance.pipeline.file import Pipeline
from reference_parts import MADE, table

_KINDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    timedelta: "length of time",
    datetime: "date and time",
    SecretStr: "text, a secret",
    Any: "any value",
}


def knobs_page() -> str:
    """Every knob of the pipeline file, from the models that check it."""
    page = f"""{MADE}# The pipeline file

Every knob, with its default, its limits and its meaning.
Unknown knobs are refused, and the message names the nearest known one.
`rebalance init` writes a file for your own data, and `dags/pipelines/demo.toml` shows most knobs with a comment.
Lengths of time are texts: `'15 min'`, `'1 h'`, `'1 d'`.
Paths may use environment variables and are relative to the file.
"""
    for heading, model in _sections(Pipeline, ""):
        said = (inspect.getdoc(model) or "").splitlines()[0] if heading else "Before the first section."
        knobs = [(name, info) for name, info in model.model_fields.items() if not _model(info) and name != "file"]
        rows = [
            (f"`{name}`", kind(info.annotation), default(info), limits(info), info.description or "")
            for name, info in knobs
        ]
        title = f"`{heading}`" if heading else "The whole pipeline"
        page += f"\n## {title}\n\n{said}\n\n{table(('knob', 'kind', 'default', 'limits', 'meaning'), rows)}"
    return page


def _sections(model: type[BaseModel], path: str, many: bool = False) -> Iterator[tuple[str, type[BaseModel]]]:
    yield (f"[[{path}]]" if many else f"[{path}]") if path else "", model
    for name, info in model.model_fields.items():
        inner = _model(info)
        if inner:
            yield from _sections(inner, f"{path}.{name}".lstrip("."), get_origin(info.annotation) is tuple)


def _model(info: FieldInfo) -> type[BaseModel] | None:
    kinds = [info.annotation, *get_args(info.annotation)]
    return next((kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, BaseModel)), None)


def kind(annotation: Any) -> str:
    """What a knob takes, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (UnionType, Union):
        return " or ".join(dict.fromkeys(kind(part) for part in inner if part is not NoneType))
    if origin is tuple:
        return f"list of {kind(inner[0])}"
    if origin is dict:
        return "table"
    if hasattr(annotation, "__metadata__"):
        return kind(inner[0])
    return _KINDS[annotation]


def default(info: FieldInfo) -> str:
    """A knob's default, in words."""
    if info.is_required():
        return "needed"
    value = info.get_default(call_default_factory=True)
    if value is None or value in ("", (), {}):
        return "unset" if value in (None, "") else "empty"
    if isinstance(value, timedelta):
        return f"`'{span(value)}'`"
    return (
        f"`{str(value).lower()}`"
        if isinstance(value, bool)
        else f"`{value!r}`"
        if isinstance(value, str)
        else f"`{value}`"
    )


def span(value: timedelta) -> str:
    """A length of time as the pipeline file writes it."""
    minutes = int(value.total_seconds() // 60)
    for size, unit in ((1440, "d"), (60, "h")):
        if minutes and minutes % size == 0:
            return f"{minutes // size} {unit}"
    return f"{minutes} min"


def limits(info: FieldInfo) -> str:
    """What a knob's value may be, as far as one knob alone decides it."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "so many at least:"}
    said = []
    for rule in info.metadata:
        for name, word in words.items():
            value = getattr(rule, name, None)
            if value is not None:
                said.append(f"{word} {span(value) if isinstance(value, timedelta) else value}")
        # A table's cells have no place for bars; the meaning says what such a pattern allows.
        if "|" not in (getattr(rule, "pattern", None) or "|"):
            said.append(f"`{rule.pattern}`")
    return ", ".join(said)
