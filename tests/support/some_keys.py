"""Requests that name some keys only, made in memory from requests that name all, as compact counting does it in Spark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rebalance.partition import PartitionFunction
from rebalance.planning.model import Floats, Indices, Mask, Request
from rebalance.planning.records import Records, gamma, keys_to_name
from tests.support.strategies import active_function


def alike(values: Floats, r: int) -> Indices:
    """The same number for values in the same of 2^r parts of the same power of two."""
    fraction, exponent = np.frexp(values)
    return np.where(values > 0, exponent * 2**r + np.floor((2 * fraction - 1) * 2**r), -(2**20)).astype(np.int64)


def needed(request: Request, r: int = 3) -> Mask:
    """The keys that are named: those away from home or pinned, and those of the records' choice."""
    listed = request.current != request.home
    if request.pinned is not None:
        listed |= request.pinned
    listed[list(request.splits)] = True
    stats, others = request.stats, np.flatnonzero(~listed)
    columns = (
        request.current[others],
        request.home[others],
        alike(stats.cost[others], r),
        alike(stats.state[others], r),
    )
    _, first, record = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    size, record = len(first), record.reshape(-1)
    found = Records(
        code=np.arange(size),
        channel=request.current[others][first].astype(np.int64),
        count=np.bincount(record, minlength=size),
        cost=np.bincount(record, stats.cost[others], size),
        state=np.bincount(record, stats.state[others], size),
    )
    wanted = keys_to_name(found, request.limits.max_routes, float(stats.cost.sum()) / request.channels)
    order = others[np.lexsort((others, -gamma(stats.cost[others], stats.state[others]), record))]
    sorted_records = np.sort(record)
    place = np.arange(len(order)) - np.searchsorted(sorted_records, sorted_records)
    listed[order[place < wanted[sorted_records]]] = True
    return listed


def some_keys(request: Request, named: Mask) -> tuple[Request, PartitionFunction]:
    """The request that names these keys alone, with one entry for the others of each channel; and the function that is active in both."""
    active, stats = active_function(request), request.stats
    keys, others = np.flatnonzero(named), np.flatnonzero(~named)
    ways = request.current[others].astype(np.int64) << 32 | request.home[others]
    _, first, way = np.unique(ways, return_index=True, return_inverse=True)
    entries = np.append(keys, others[first])

    def joined(values: Floats) -> Floats:
        return np.append(values[keys], np.bincount(way, values[others], len(first)))

    nameless = np.full(len(first), np.iinfo(np.int64).max)
    return replace(
        request,
        stats=replace(
            stats,
            keys=np.append(stats.keys[keys], nameless),
            slots=stats.slots[entries],
            tuples=joined(stats.tuples),
            cost=joined(stats.cost),
            state=joined(stats.state),
        ),
        current=request.current[entries],
        pinned=None if request.pinned is None else request.pinned[entries],
        splits={},
        rest=len(first),
        unnamed=len(others),
    ), active
