"""The rest: the keys that `key_stats` does not name, as sums for each slot of the ring. They go where the ring says and no other place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rebalance.partition import PartitionFunction
from rebalance.planning.model import Floats, Indices, Ints
from rebalance.storage import control
from rebalance.storage.schemas import SCHEMAS

# Not `empty_table`, which imports pandas.
NOTHING = pa.Table.from_batches([], schema=SCHEMAS["slot_stats"])


def read_rest(root: str, interval_id: str) -> pa.Table:
    """An interval's sums by slot; none where all keys have a name."""
    columns = [name for name in SCHEMAS["slot_stats"].names if name != "interval_id"]
    return control.read(root, "slot_stats", columns=columns, interval_id=interval_id).sort_by("slot")


def rest_by_channel(function: PartitionFunction, rest: pa.Table, what: str) -> Floats:
    """What the rest brings to each channel if the function places it."""
    found: Floats = np.bincount(
        function.slots[rest["slot"].to_numpy()], rest[what].to_numpy().astype(np.float64), function.channels
    ).astype(np.float64)
    return found


@dataclass(frozen=True, eq=False)
class Bundles:
    """The rest, added up wherever the active function and the ring to build on agree on where it goes."""

    #: A slot of each bundle, for all of them.
    slots: Ints
    #: Where the active function has it.
    current: Ints
    tuples: Floats
    cost: Floats
    state: Floats
    #: How many keys there are in all.
    keys: int

    def __len__(self) -> int:
        return len(self.slots)


def bundled(rest: pa.Table, active: PartitionFunction, ring: Ints) -> Bundles:
    """The rest in as few parts as there are ways from a channel to a channel: one per channel while the ring is the same."""
    slots = rest["slot"].to_numpy().astype(np.int32)
    ways = active.slots[slots].astype(np.int64) << 32 | ring[slots]
    _, first, which = np.unique(ways, return_index=True, return_inverse=True)
    return Bundles(
        slots=slots[first],
        current=active.slots[slots[first]].astype(np.int32),
        tuples=_summed(rest, "tuples", which, len(first)),
        cost=_summed(rest, "cost", which, len(first)),
        state=_summed(rest, "held_bytes", which, len(first)),
        keys=int(np.sum(rest["keys"].to_numpy())),
    )


def _summed(rest: pa.Table, what: str, which: Indices, size: int) -> Floats:
    return np.bincount(which, rest[what].to_numpy().astype(np.float64), size).astype(np.float64)


def without(totals: pa.Table, named: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Sums over all keys of each slot, less those that have a name; slots of which nothing is left are left out."""
    slots, at = totals["slot"].to_numpy(), named["slot"].to_numpy()
    row = np.searchsorted(slots, at)
    left = {}
    for name in columns:
        sums = totals[name].to_numpy().copy()
        np.subtract.at(sums, row, named[name].to_numpy() if name != "keys" else 1)
        left[name] = sums
    return pa.table({"slot": slots, **left}).filter(pa.array(left["keys"] > 0))


def together(rest: pa.Table, others: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Sums by slot, and some more of the same columns in slots that may be new."""
    whole = pa.concat_tables([table.select(["slot", *columns]) for table in (rest, others)], promote_options="default")
    sums = whole.group_by("slot").aggregate([(name, "sum") for name in columns])
    return sums.rename_columns({f"{name}_sum": name for name in columns}).sort_by("slot")
