"""What the rows of each key will cost, by what a function per key took when it was last measured.

A call takes some time whatever it gets, and more for every row: seconds = call + rate x rows. The first is the same for all keys, the
second is the key's own. A key of few rows tells little about its own rate, so it is drawn towards the mean: otherwise a quiet key that
becomes hot would be taken for hundreds of times as costly as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance.pipeline.intervals import Interval
from rebalance.planning.model import Floats
from rebalance.storage import control

#: A key's own measurement weighs as much as the mean when it had this many rows.
_PRIOR_ROWS = 10.0


@dataclass(frozen=True)
class Rates:
    """What is known of the cost of some keys."""

    #: Seconds of a call, whatever it gets.
    call: float
    #: Seconds of each key's rows beyond that, per row; 0: never measured.
    rate: Floats

    def cost(self, rows: Floats) -> Floats:
        """Seconds the keys will take. Keys never measured have the mean rate; before anything was measured, a row costs one.

        >>> Rates(0.5, np.array([0.2, 0.0, 0.4])).cost(np.array([3.0, 10.0, 1.0])).round(3).tolist()
        [1.1, 3.0, 0.9]
        """
        known = self.rate > 0
        if not known.any():
            return rows
        weight = rows[known]
        mean = np.average(self.rate[known], weights=weight) if weight.any() else self.rate[known].mean()
        seconds: Floats = self.call * (rows > 0) + np.where(known, self.rate, mean) * rows
        return seconds


def known_rates(root: str, interval: Interval, newest: str, keys: pa.ChunkedArray) -> Rates:
    """By the newest processed interval; for keys that were quiet then, as known when the interval before was counted."""
    rate, call = np.zeros(len(keys)), 0.0
    before = control.largest(root, "interval_stats", "interval_id", below=interval.id)
    if before is not None:
        stats = control.read(root, "key_stats", columns=["key", "rate"], interval_id=before)
        _put(rate, keys, stats["key"], stats["rate"].to_numpy())
    costs = control.read(root, "key_costs", columns=["key", "rows", "seconds"], interval_id=newest).sort_by("key")
    costs = costs.filter(pc.and_(pc.is_valid(costs["seconds"]), pc.greater(costs["rows"], 0)))
    if costs.num_rows:
        call, measured = split_cost(costs["rows"].to_numpy().astype(np.float64), costs["seconds"].to_numpy())
        _put(rate, keys, costs["key"], measured)
    return Rates(call, rate)


def split_cost(rows: Floats, seconds: Floats) -> tuple[float, Floats]:
    """Seconds of a call, and seconds per row of each key, from what was measured.

    The call is the constant of a line through the measurements, each weighed by 1 / rows; no less than nothing, no more than the least.

    >>> call, rate = split_cost(np.array([1.0, 2.0, 100.0]), np.array([3.0, 4.0, 102.0]))
    >>> round(call, 6), rate.round(6).tolist()
    (2.0, [1.0, 1.0, 1.0])
    >>> split_cost(np.array([5.0, 5.0]), np.array([1.0, 1.0]))
    (0.0, array([0.2, 0.2]))
    """
    n, per_row, weight = float(len(rows)), float((seconds / rows).sum()), float((1.0 / rows).sum())
    spread = weight * rows.sum() - n * n
    call = 0.0
    if spread > 1e-9 * n * n:
        call = float(np.clip((rows.sum() * per_row - n * seconds.sum()) / spread, 0.0, seconds.min()))
    beyond = seconds - call
    mean = beyond.sum() / rows.sum()
    return call, (beyond + mean * _PRIOR_ROWS) / (rows + _PRIOR_ROWS)


def _put(found: Floats, keys: pa.ChunkedArray, known: pa.ChunkedArray, rates: Floats) -> None:
    """Set the rates of those keys that are known and above zero."""
    if not len(known):
        return
    at = pc.fill_null(pc.index_in(keys, value_set=known.combine_chunks()), -1).to_numpy()
    has = (at >= 0) & (rates[at] > 0)
    found[has] = rates[at[has]]
