"""A team's own expectations: functions in a Python file that return plain Great Expectations.

`key_stats()` is about the interval's statistics, `events()` about its events; each returns a list, and the file has one or both. An
expectation's own `severity` says what its failure does: "critical", the default, stops; "warning" and "info" warn.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rebalance.errors import ConfigError
from rebalance.operators.user_file import run_file

if TYPE_CHECKING:
    from great_expectations.expectations import Expectation

#: What a file may say something about.
SUITES = ("key_stats", "events")


def own_expectations(file: str | None) -> Mapping[str, list[Expectation]]:
    """The expectations in the file, by what they are about; empty without a file."""
    if file is None:
        return {}
    path = Path(file)
    module = _run(path)
    asked = {suite: getattr(module, suite) for suite in SUITES if hasattr(module, suite)}
    if not asked:
        raise ConfigError(
            f"quality.expectations: {path} defines neither key_stats() nor events(). Define one that returns a list of expectations, "
            "or unset the knob."
        )
    return {suite: _listed(path, suite, function) for suite, function in asked.items()}


def _run(path: Path) -> ModuleType:
    try:
        return run_file(path, "quality.expectations")
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"quality.expectations: {path} cannot be run: {_in_words(error, path)}. Correct it."
        ) from error


def _listed(path: Path, suite: str, function: Any) -> list[Expectation]:
    from great_expectations.expectations import Expectation

    where = f"quality.expectations: {suite} in {path}"
    if not callable(function):
        raise ConfigError(f"{where} is {type(function).__name__}, not a function. Write def {suite}(): return [...].")
    try:
        found = function()
    except Exception as error:
        raise ConfigError(f"{where} failed: {_in_words(error, path)}. Correct it.") from error
    if not isinstance(found, list | tuple):
        raise ConfigError(f"{where} returned {type(found).__name__}. Return a list of expectations, [] for none.")
    strange = [(place, one) for place, one in enumerate(found, 1) if not isinstance(one, Expectation)]
    if strange:
        place, one = strange[0]
        raise ConfigError(
            f"{where}: entry {place} of {len(found)} is {one!r}, not an expectation. "
            "Use objects of great_expectations.expectations, for example ExpectColumnMaxToBeBetween(column=..., max_value=...)."
        )
    return list(found)


def _in_words(error: Exception, path: Path) -> str:
    """The kind of the error, what it says in one line, and the line of the file it comes from."""
    said = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {said}"
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{type(error).__name__}: {said}" + (f" (line {lines[-1]})" if lines else "")
