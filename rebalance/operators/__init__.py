"""Stateful operators: the interface, the built-in ones, and how a user's own is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rebalance.errors import ConfigError
from rebalance.operators.base import PLACE, Operator
from rebalance.operators.distinct import Distinct
from rebalance.operators.function import KeyedFunction, load_process
from rebalance.operators.latest_match import LatestMatch
from rebalance.operators.naive_bayes import NaiveBayes
from rebalance.operators.self_join import SelfJoin
from rebalance.operators.sessions import Sessions
from rebalance.operators.sql import SqlOperator
from rebalance.operators.user_file import run_file
from rebalance.operators.windowed_stats import WindowedStats
from rebalance.operators.windowed_sum import WindowedSum

__all__ = [
    "BUILT_IN",
    "PLACE",
    "AnyOperator",
    "KeyedFunction",
    "Operator",
    "SqlOperator",
    "load_operator",
    "load_process",
    "make_operator",
]

#: What a pipeline can run: an operator on DataFrames, or a function per key.
AnyOperator = Operator | KeyedFunction

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
    module, path = run_file(file, "operator.file"), Path(file)
    operator: Any = getattr(module, "OPERATOR", None)
    wanted = ("name", "mergeable", "rows", "results", "state", "cost")
    missing = [part for part in wanted if not hasattr(operator, part)]
    if operator is None or missing or not is_dataclass(operator):
        raise ConfigError(
            f"{path.name} must define OPERATOR, a frozen dataclass with {', '.join(wanted)}"
            + (f"; missing: {', '.join(missing)}." if operator is not None else ".")
        )
    if not hasattr(operator, "keeps_rows"):
        # Nothing is promised of its state, so its state is looked at.
        setattr(operator, "keeps_rows", False)  # noqa: B010 - a class of the user's, not of ours
    return _build(operator, path.name, parameters or {})


def _build(operator: Any, label: str, parameters: Mapping[str, Any]) -> Operator:
    known = {f.name for f in fields(operator)}
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise ConfigError(
            f"operator {label!r} has no parameter {unknown[0]!r}. Known: {', '.join(sorted(known)) or 'none'}."
        )
    return operator(**parameters)  # type: ignore[no-any-return]
