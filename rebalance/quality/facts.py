"""What an interval's checks have to know: what was counted, with which function, and how many rows are usual.

The usual number of rows is a median of earlier intervals: one odd day does not move it, and by taking the same time of day it follows
a daily rhythm. Of an even number of intervals it is the mean of the two in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

import numpy as np

from rebalance.errors import OrderError, RebalanceError
from rebalance.partition import KeyType
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.rest import read_rest

_DAY = timedelta(days=1)
#: Fewer days than this say nothing about what is usual at a time of day.
_ENOUGH_DAYS = 2


@dataclass(frozen=True)
class Usual:
    """A number of rows, and in words what it is the median of."""

    rows: float
    of: str


@dataclass(frozen=True)
class Facts:
    """An interval as it was counted."""

    interval: Interval
    rows: int
    #: How many of them are of keys that are counted without a name.
    nameless: int
    #: Of the function whose channels are in the statistics.
    channels: int
    key_type: KeyType
    #: None: nothing to compare with.
    usual: Usual | None


def read_facts(pipeline: Pipeline, interval: Interval) -> Facts:
    """An interval's facts; reads only the few earlier intervals that matter, however many there are."""
    root, history = pipeline.tables, pipeline.quality.volume_history
    earlier = [*_same_time(interval, history), *_just_before(interval, history)]
    wanted = ["interval_id", "rows", "function_version"]
    found = control.rows(root, "interval_stats", columns=wanted, interval_id=sorted({interval.id, *earlier}))
    counted = {row["interval_id"]: row for row in found}
    own = counted.get(interval.id)
    if own is None:
        raise OrderError(f"interval {interval.id} has no statistics yet. Run collect_stats first.")
    version = own["function_version"]
    functions = control.rows(root, "functions", columns=["channels", "key_type"], version=version)
    if not functions:
        raise RebalanceError(
            f"the statistics of interval {interval.id} name function v{version}, which is not in {root}/functions: "
            "the tables were damaged or belong to another pipeline."
        )
    usual = usual_rows({name: row["rows"] for name, row in counted.items()}, interval, history)
    nameless = int(np.sum(read_rest(root, interval.id)["tuples"].to_numpy()))
    return Facts(interval, rows=own["rows"], nameless=nameless, usual=usual, **functions[-1])


def usual_rows(rows: Mapping[str, int], interval: Interval, history: int) -> Usual | None:
    """What is usual at this time of day, or lately while too few days are known; None if nothing is."""
    days = [rows[name] for name in _same_time(interval, history) if name in rows]
    recent = [rows[name] for name in _just_before(interval, history) if name in rows]
    if len(days) >= _ENOUGH_DAYS:
        usual = Usual(median(days), f"at this time on {len(days)} earlier days")
    elif recent:
        usual = Usual(
            median(recent), f"in {len(recent)} intervals before" if len(recent) > 1 else "in the interval before"
        )
    else:
        return None
    return usual if usual.rows else None


def _same_time(interval: Interval, days: int) -> list[str]:
    return [Interval(interval.start - n * _DAY, interval.end - n * _DAY).id for n in range(1, days + 1)]


def _just_before(interval: Interval, intervals: int) -> list[str]:
    return [interval.shifted(-n).id for n in range(1, intervals + 1)]
