"""Runs a suite with Great Expectations and puts what it found into rows of `quality_runs`.

Statistics are checked in pandas: the planner needs them in memory anyway, and no Spark has to be started. Events are checked on Spark.
The context lives only as long as the check: keeping Great Expectations' own files up to date took longer than the checks themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rebalance.pipeline.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.expectations import Expectation
    from pyspark.sql import DataFrame

_EXAMPLES = 3
#: Arguments of an expectation that say nothing about what is wanted.
_NOT_WANTED = ("batch_id", "column", "severity")


@dataclass(frozen=True)
class Checked:
    """One suite's run: as Great Expectations has it, and as rows of `quality_runs`."""

    suite: ExpectationSuite
    validation: ExpectationSuiteValidationResult
    rows: list[dict[str, Any]]


def keep_to_ourselves() -> None:
    """Great Expectations reports its use to its makers unless told not to before it is imported; a team's checks are its own business."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")


def check_pandas(interval: Interval, name: str, expectations: list[Expectation], data: pd.DataFrame) -> Checked:
    """Check a table in memory."""
    source = _context().data_sources.add_pandas(name)
    return _check(interval, name, expectations, source.add_dataframe_asset(name), data)


def check_spark(interval: Interval, name: str, expectations: list[Expectation], data: DataFrame) -> Checked:
    """Check a DataFrame; it is read once, however many expectations there are."""
    # Great Expectations would keep it in memory as well, and forget to let it go.
    source = _context().data_sources.add_spark(name, persist=False)
    data.persist()
    try:
        return _check(interval, name, expectations, source.add_dataframe_asset(name), data)
    finally:
        data.unpersist()


def _context() -> Any:
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}  # type: ignore[assignment]
    return context


def _check(interval: Interval, name: str, expectations: list[Expectation], asset: Any, data: Any) -> Checked:
    import great_expectations as gx

    batch = asset.add_batch_definition_whole_dataframe(interval.id).get_batch({"dataframe": data})
    suite = gx.ExpectationSuite(name, expectations=expectations)
    wanted = {"result_format": "SUMMARY", "partial_unexpected_count": _EXAMPLES}
    validation = batch.validate(suite, result_format=wanted)
    for result in validation.results:
        # Data Docs leave out an observed value that is a number of numpy's.
        if hasattr(observed := result.result.get("observed_value"), "item"):
            result.result["observed_value"] = observed.item()
    return Checked(suite, validation, [_row(interval, name, result) for result in validation.results])


def _row(interval: Interval, suite: str, result: Any) -> dict[str, Any]:
    """One expectation's outcome in words: which, on what, how many bad rows, examples."""
    config = result.expectation_config
    wanted = {k: v for k, v in config.kwargs.items() if k not in _NOT_WANTED}
    column = config.kwargs.get("column", "")
    where = (column or "the table") + (" of events" if suite == "events" else "")
    more = "; ".join(filter(None, [_asked(wanted), config.notes if isinstance(config.notes, str) else ""]))
    return {
        "interval_id": interval.id,
        "suite": suite,
        "expectation": config.type,
        "column": column,
        "severity": "stop" if config.severity == "critical" else "warn",
        "success": bool(result.success),
        "bad_rows": int(result.result.get("unexpected_count") or 0),
        "detail": f"{config.type} on {where}{f' ({more})' if more else ''}: {_found(result)}",
    }


def _asked(wanted: Mapping[str, Any]) -> str:
    """An expectation's arguments, as a person reads them.

    >>> _asked({"min_value": 0.0, "max_value": 60000.0, "or_equal": True})
    'min_value 0, max_value 60,000, or_equal True'
    >>> _asked({"max_value": sys.float_info.max})
    'max_value the largest number there is'
    """
    return ", ".join(f"{name} {_limit(value)}" for name, value in wanted.items())


def _limit(value: Any) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    return "the largest number there is" if value == sys.float_info.max else f"{value:,.15g}"


def _found(result: Any) -> str:
    trouble = _exception(result.exception_info)
    if trouble:
        return trouble
    if "observed_value" in result.result:
        return f"observed {result.result['observed_value']}"
    bad = int(result.result.get("unexpected_count") or 0)
    examples = result.result.get("partial_unexpected_list", [])[:_EXAMPLES]
    return f"{bad:,} bad rows" + (f", for example {', '.join(map(_plain, examples))}" if bad else "")


def _plain(value: Any) -> str:
    """A value without its numpy type; a pair of columns gives pairs."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value.item() if hasattr(value, "item") else value)


def _exception(info: Any) -> str:
    """Why an expectation could not be looked at at all, in one line; given for the whole of it, or for each figure it needs."""
    parts = [info] if "raised_exception" in info else list(info.values())
    said = [str(part.get("exception_message")) for part in parts if part.get("raised_exception")]
    return f"it could not be checked: {' '.join(said[0].split())}" if said else ""
