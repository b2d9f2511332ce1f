"""Stateful operators: the interface, the built-in ones, and how a user's own is found."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rebalance.errors import ConfigError
from rebalance.operators.base import PLACE, Operator
from rebalance.operators.distinct import Distinct
from rebalance.operators.latest_match import LatestMatch
from rebalance.operators.naive_bayes import NaiveBayes
from rebalance.operators.self_join import SelfJoin
from rebalance.operators.sessions import Sessions
from rebalance.operators.windowed_stats import WindowedStats
from rebalance.operators.windowed_sum import WindowedSum

__all__ = ["BUILT_IN", "PLACE", "Operator", "load_operator", "make_operator", "operator_of"]

#: Every built-in operator by its name in a pipeline file.
BUILT_IN: dict[str, type[Any]] = {
    operator.name: operator
    for operator in (
        # Mergeable: a planner may split their keys.
        WindowedSum,
        WindowedStats,
        Distinct,
        NaiveBayes,
        # Not mergeable: they depend on the order of a key's events.
        LatestMatch,
        SelfJoin,
        Sessions,
    )
}


def operator_of(name: str | None, file: str | None, parameters: Mapping[str, Any]) -> Operator:
    """A pipeline's operator: the built-in one of that name, or the user's own in that file."""
    return load_operator(file, parameters) if file else make_operator(name or "", parameters)


def make_operator(name: str, parameters: Mapping[str, Any] | None = None) -> Operator:
    """A built-in operator with these parameters.

    >>> make_operator("windowed_sum", {"value": "price"})
    WindowedSum(value='price')
    """
    if name not in BUILT_IN:
        close = get_close_matches(name, BUILT_IN, n=1)
        meant = f"Did you mean {close[0]!r}? " if close else ""
        raise ConfigError(
            f"there is no operator {name!r}. {meant}Known: {', '.join(sorted(BUILT_IN))}; or set operator.file to your own."
        )
    return _build(BUILT_IN[name], name, parameters or {})


def load_operator(file: str | Path, parameters: Mapping[str, Any] | None = None) -> Operator:
    """A user's own operator: the class that `OPERATOR` names in a Python file."""
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"operator.file = {str(path)!r} does not exist.")
    spec = importlib.util.spec_from_file_location(f"rebalance_operator_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"operator.file = {str(path)!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    # Known under its name while it runs: dataclasses look their module up where annotations are texts. Not longer: functions of a
    # module that is known are sent to Spark's workers by name, and no worker could import this one.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    operator = getattr(module, "OPERATOR", None)
    wanted = ("name", "mergeable", "rows", "results", "state", "cost")
    missing = [part for part in wanted if not hasattr(operator, part)]
    if operator is None or missing or not is_dataclass(operator):
        raise ConfigError(
            f"{path.name} must define OPERATOR, a frozen dataclass with {', '.join(wanted)}"
            + (f"; missing: {', '.join(missing)}." if operator is not None else ".")
        )
    return _build(operator, path.name, parameters or {})


def _build(operator: Any, label: str, parameters: Mapping[str, Any]) -> Operator:
    known = {f.name for f in fields(operator)}
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise ConfigError(
            f"operator {label!r} has no parameter {unknown[0]!r}. Known: {', '.join(sorted(known)) or 'none'}."
        )
    return operator(**parameters)  # type: ignore[no-any-return]
