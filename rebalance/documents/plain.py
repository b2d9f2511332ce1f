"""What every document has in common: plain data only, and trouble with storage in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from math import isfinite
from typing import Any, Concatenate, ParamSpec, cast

import numpy as np

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.storage.trouble import storage_in_words

P = ParamSpec("P")
Document = dict[str, Any]
Build = Callable[Concatenate[Pipeline, P], Document]


def document(build: Build[P]) -> Build[P]:
    """Make what a function builds of a pipeline plain, and what can go wrong with its tables one of our errors."""

    @wraps(build)
    def built(pipeline: Pipeline, *args: P.args, **kwargs: P.kwargs) -> Document:
        with storage_in_words(pipeline.tables):
            found: Document = plain(build(pipeline, *args, **kwargs))
            return found

    return cast(Build[P], built)


def plain(value: Any) -> Any:
    """A value as JSON has it: numpy's numbers and arrays as Python's, times as text, and no number that is none.

    >>> plain({"θ": np.float64("inf"), "loads": np.array([1, 2]), "at": datetime(2026, 1, 1, 5, tzinfo=UTC)})
    {'θ': None, 'loads': [1, 2], 'at': '2026-01-01T05:00:00Z'}
    """
    if isinstance(value, float):
        # A float of numpy's is one of Python's, too.
        return float(value) if isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return [plain(inner) for inner in value]


def iso(moment: datetime) -> str:
    """A time in UTC.

    >>> iso(datetime(2026, 1, 31, 5, tzinfo=UTC))
    '2026-01-31T05:00:00Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def interval_of(pipeline: Pipeline, interval_id: str) -> Interval:
    """An interval by its name, also one that was cut before the file's `[interval]` was changed."""
    start = parse_start(interval_id)
    return Interval(start, start + pipeline.interval.length)
