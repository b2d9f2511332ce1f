"""Generated trades: the papers' workload (Zipf, hot keys change hands every interval) as Parquet files, one per interval."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rebalance.pipeline.intervals import Interval
from rebalance.simulate.workload import Workload


def demo_workload(channels: int) -> Workload:
    """A skew that plain hashing cannot even out (Zipf with z = 1), drifting by a fifth of a mean load every interval."""
    return Workload(keys=20_000, channels=channels, z=1.0, f=0.2, seed=1)


def write_trades(folder: Path, first: Interval, workload: Workload, *, intervals: int, events: int) -> int:
    """Write `intervals` files of `events` trades each: ts, symbol, side (buy or sell), price. Returns the number of trades."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, frequencies in enumerate(workload.intervals(intervals)):
        interval = first.shifted(number)
        table = _trades(interval, workload.names[frequencies.draw(events)], seed=workload.seed + number)
        pq.write_table(table, folder / f"{interval.id}.parquet")
    return intervals * events


def _trades(interval: Interval, symbols: NDArray[Any], seed: int) -> pa.Table:
    """Trades at even distances over the interval; in twentieths of a unit of money, so that prices are exact."""
    random = np.random.default_rng(seed)
    length = (interval.end - interval.start) // timedelta(microseconds=1)
    start = int(interval.start.timestamp()) * 1_000_000
    times = start + np.arange(len(symbols), dtype=np.int64) * length // len(symbols)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "symbol": pa.array(symbols, pa.string()),
            "side": pa.array(np.where(random.random(len(symbols)) < 0.5, "buy", "sell")),
            "price": pa.array(random.integers(200, 20_000, len(symbols)) / 20.0),
        }
    )
