"""The Python work of `bench_gain`: some arithmetic a row that no library does at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

HOUR = 3_600_000_000


def spin(value: float, rounds: int) -> float:
    """So many rounds of arithmetic."""
    for _ in range(rounds):
        value = (value * 1.000001 + 0.5) % 1000.0
    return value


def total_of(prices: Iterable[float], rounds: int) -> float:
    """Every price worked on, in an order that is the same for everybody."""
    total = 0.0
    for price in sorted(prices):
        total += spin(price, rounds)
    return round(total, 6)


def worked(rounds: int) -> Callable[[pa.Table], pa.Table]:
    """For `applyInArrow`: all rows of a key's window, worked on."""

    def work(rows: pa.Table) -> pa.Table:
        return pa.table({"key": rows["key"][:1], "total": [total_of(rows["price"].to_pylist(), rounds)]})

    return work


def worked_by_hour(rounds: int, newest: int) -> Callable[[pa.Table], pa.Table]:
    """For `applyInArrow`: the sum of the hours' totals, of keys that have rows in the newest hour."""

    def work(rows: pa.Table) -> pa.Table:
        prices: dict[int, list[float]] = defaultdict(list)
        for hour, price in zip(rows["hour"].to_pylist(), rows["price"].to_pylist(), strict=True):
            prices[hour].append(price)
        totals = [total_of(prices[hour], rounds) for hour in sorted(prices)] if newest in prices else []
        found = [round(sum(totals), 6)] if totals else []
        return pa.table({"key": rows["key"][: len(found)], "total": pa.array(found, pa.float64())})

    return work


def process_hour(key: str, rows: pa.Table, state: pa.Table, rounds: int, window: int) -> tuple[Any, Any]:
    """The same as a function per key, which remembers the totals of the hours before."""
    hour = rows["time"][0].value // HOUR
    held = zip(state["hour"].to_pylist(), state["total"].to_pylist(), strict=True)
    kept = [(h, total) for h, total in held if h > hour - window]
    kept.append((hour, total_of(rows["price"].to_pylist(), rounds)))
    results = pa.table({"total": [round(sum(total for _, total in kept), 6)]})
    return results, pa.table({"hour": [h for h, _ in kept], "total": [total for _, total in kept]})
