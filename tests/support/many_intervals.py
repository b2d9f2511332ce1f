"""A pipeline's tables after many intervals, written by hand in a few commits: nothing is run, and it is quick.

Every interval is counted, checked, planned and processed, as the steps would leave it: loads come from the keys' costs and the function of
the interval, moves are the difference of two functions. Two of three plans move something and are carried out. Keys, moves and
functions are there for the newest intervals only, as after maintenance.
"""

from __future__ import annotations

from datetime import timedelta
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from rebalance.partition import PartitionFunction, consistent_ring, slots_of
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planning.model import Ints
from rebalance.storage import control
from rebalance.storage.schemas import SCHEMAS, schema_of

Rows = list[dict[str, Any]]
#: Bytes of state that a tuple leaves.
BYTES = 80
#: How many of the heaviest keys a plan places one by one; at most a fourth of all.
PLACED = 500


def write_history(
    folder: Path, intervals: int, channels: int, *, keys: int = 2000, counted: int = 24, pending: bool = False
) -> Pipeline:
    """The pipeline `many` after so many intervals of an hour; its newest `counted` ones have their keys.

    With `pending`, it is in mode approve, and the newest interval's plan waits for an answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "many.toml"
    file.write_text(
        'tables = "tables"\n[source]\npath = "events"\nkey = "user"\ntime = "ts"\n[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n'
        f'[operator]\nname = "windowed_sum"\nwindow = 2\n[channels]\ncount = {channels}\n[planning]\nplanner = "mixed"\n'
        f'mode = "{"approve" if pending else "auto"}"\n'
    )
    pipeline = load_pipeline(file)
    _History(pipeline, intervals, keys, counted, pending).write()
    return pipeline


class _History:
    def __init__(self, pipeline: Pipeline, intervals: int, keys: int, counted: int, pending: bool) -> None:
        self.pipeline, self.intervals, self.counted, self.pending = pipeline, intervals, counted, pending
        self.channels = pipeline.channels.count
        self.keys = [f"user-{number:07}" for number in range(keys)]
        self.slots = slots_of(self.keys, "string")
        self.ring = consistent_ring(self.channels)
        self.home: Ints = self.ring[self.slots]
        self.random = np.random.default_rng(11)
        self.weight = np.sort(self.random.pareto(1.2, keys) + 1.0)[::-1]
        for _ in range(9):
            # No key is more than a channel's fair load: a plan can always balance.
            self.weight = np.minimum(self.weight, 0.7 * self.weight.sum() / self.channels)
        self.tables: dict[str, Rows] = {name: [] for name in SCHEMAS}
        self.key_tables: list[pa.Table] = []

    def write(self) -> None:
        """All of it: one commit a table."""
        self._epoch("start", "", 0)
        active, version = self.home, 0
        self._function(PartitionFunction(0, self.channels, self.ring), "")
        for number in range(self.intervals):
            active, version = self._interval(number, active, version)
        root = self.pipeline.tables
        for name, rows in self.tables.items():
            if rows:
                control.append(root, name, rows)
        path = control.table_path(root, "key_stats")
        write_deltalake(path, pa.concat_tables(self.key_tables), mode="append", partition_by=["interval_id"])

    def _interval(self, number: int, active: Ints, version: int) -> tuple[Ints, int]:
        interval = self.pipeline.interval_at(self.pipeline.interval.first).shifted(number).id
        newest = number == self.intervals - 1
        # Every interval other keys are hot.
        tuples = (
            np.roll(self.random.permuted(np.ceil(self.weight * 3)), number)
            if number % 2
            else np.roll(np.ceil(self.weight * 3), number * 37)
        )
        before = np.bincount(active, tuples, self.channels)
        has_keys = number >= self.intervals - self.counted
        self._counted(interval, version, tuples, active, before, keys=has_keys)
        moves = number % 3 != 2 or newest
        placed = self._placed(tuples) if moves else active
        after = np.bincount(placed, tuples, self.channels)
        if moves and has_keys:
            moved = np.flatnonzero(placed != self.home).tolist()
            routes = {self.keys[k]: int(placed[k]) for k in moved}
            self._function(PartitionFunction(version + 1, self.channels, self.ring, routes=routes), interval)
        self._plan(interval, version, tuples, active, placed, before, after)
        if has_keys:
            self._moves(f"{interval}-f{version}", interval, tuples, active, placed)
        if moves and not (newest and self.pending):
            self._epoch("migrate", self._id(number - 1), version + 1, f"{interval}-f{version}")
            active, version, before = placed, version + 1, after
        seconds = 0.5 + before / before.mean()
        self.tables["batches"].append(
            {
                "interval_id": interval,
                "function_version": version,
                "rows": int(tuples.sum()),
                "events": int(tuples.sum()),
                "seconds": float(seconds.max() + 3.0),
                "tuples": before.astype(np.int64).tolist(),
                "task_seconds": seconds.tolist(),
                "loads": before.tolist(),
                "spilled_bytes": 0,
                "consistency": "move",
                "folded": False,
            }
        )
        self._epoch("process", interval, version)
        return active, version

    def _placed(self, tuples: Any) -> Ints:
        """The heaviest keys one by one on the channel with the least load, all others where the ring has them."""
        heavy = np.argsort(-tuples, kind="stable")[: min(PLACED, len(self.keys) // 4)].tolist()
        placed, rest = self.home.copy(), tuples.copy()
        rest[heavy] = 0.0
        loads = [(load, channel) for channel, load in enumerate(np.bincount(placed, rest, self.channels).tolist())]
        heapify(loads)
        for key in heavy:
            load, placed[key] = loads[0]
            heapreplace(loads, (load + float(tuples[key]), int(placed[key])))
        return placed

    def _counted(self, interval: str, version: int, tuples: Any, active: Ints, cost: Any, *, keys: bool) -> None:
        total, by_hash = int(tuples.sum()), np.bincount(self.home, tuples, self.channels)
        self.tables["interval_stats"].append(
            {
                "interval_id": interval,
                "rows": total,
                "keys": len(self.keys),
                "function_version": version,
                "state_newest": "",
                "window": 2,
                "seconds": 1.5,
                "statistics": "exact",
            }
        )
        counts = np.bincount(active, minlength=self.channels).tolist()
        self.tables["channel_stats"] += [
            {
                "interval_id": interval,
                "channel": channel,
                "keys": counts[channel],
                "tuples": load,
                "cost": load,
                "hash_cost": hashed,
                "held_bytes": int(load) * BYTES,
            }
            for channel, (load, hashed) in enumerate(zip(cost.tolist(), by_hash.tolist(), strict=True))
        ]
        self.tables["quality_runs"] += [
            {
                "interval_id": interval,
                "suite": "key_stats",
                "expectation": expectation,
                "column": column,
                "severity": severity,
                "success": severity == "stop" or interval != self._id(self.intervals - 1),
                "bad_rows": 0 if severity == "stop" else 3,
                "detail": "as many as usual",
            }
            for expectation, column, severity in (
                ("expect_column_values_to_not_be_null", "key", "stop"),
                ("expect_column_values_to_be_between", "cost", "warn"),
            )
        ]
        if keys:
            self.key_tables.append(self._key_stats(interval, tuples, active))

    def _key_stats(self, interval: str, tuples: Any, active: Ints) -> pa.Table:
        whole = tuples.astype(np.int64)
        columns = {
            "interval_id": pa.repeat(interval, len(self.keys)),
            "key": self.keys,
            "slot": self.slots,
            "channel": active,
            "hash_channel": self.home,
            "tuples": whole,
            "cost": tuples,
            "rate": np.zeros(len(self.keys)),
            **dict.fromkeys(("held_rows", "added_rows"), whole),
            **dict.fromkeys(("state_bytes", "held_bytes", "added_bytes"), whole * BYTES),
        }
        return pa.table(columns).select(SCHEMAS["key_stats"].names).cast(schema_of("key_stats", "string"))

    def _plan(self, interval: str, base: int, tuples: Any, active: Ints, placed: Ints, before: Any, after: Any) -> None:
        moved = np.flatnonzero(placed != active)
        plan_id, state = f"{interval}-f{base}", tuples[moved] * BYTES
        skewness = [float(loads.max() / loads.mean()) for loads in (before, after)]
        theta = [float(abs(loads / loads.mean() - 1).max()) for loads in (before, after)]
        self.tables["plans"].append(
            {
                "plan_id": plan_id,
                "interval_id": interval,
                "base_function": base,
                "planner": "mixed",
                "decision": "apply" if len(moved) else "keep",
                "reason": f"max/fair load {skewness[0]:.3f} → {skewness[1]:.3f} by moving {len(moved):,} keys",
                "notes": "",
                "function_version": base + bool(len(moved)),
                "theta_max": 0.08,
                "theta_before": theta[0],
                "theta_after": theta[1],
                "skewness_before": skewness[0],
                "skewness_after": skewness[1],
                "routes": int(np.count_nonzero(placed != self.home)),
                "splits": 0,
                "moved_keys": len(moved),
                "moved_bytes": float(state.sum()),
                "moved_share": float(state.sum() / (tuples.sum() * BYTES)),
                "bound_bytes": float(state.sum()) * 0.9,
                "bound_theta": theta[1] * 0.9,
                "loads_before": before.tolist(),
                "loads_after": after.tolist(),
                "seconds": 0.25,
            }
        )

    def _moves(self, plan_id: str, interval: str, tuples: Any, active: Ints, placed: Ints) -> None:
        self.tables["plan_moves"] += [
            {
                "plan_id": plan_id,
                "interval_id": interval,
                "key": self.keys[key],
                "from_channel": int(active[key]),
                "to_channel": int(placed[key]),
                "state_bytes": float(tuples[key] * BYTES),
                "cost": float(tuples[key]),
            }
            for key in np.flatnonzero(placed != active).tolist()
        ]

    def _function(self, function: PartitionFunction, interval: str) -> None:
        self.tables["functions"].append({**function.to_record(), "interval_id": interval})

    def _epoch(self, kind: str, interval: str, function: int, plan_id: str = "") -> None:
        number = len(self.tables["epochs"])
        self.tables["epochs"].append(
            {
                "epoch": number,
                "kind": kind,
                "interval_id": interval,
                "function_version": function,
                # There is no table of the state.
                "state_version": -1,
                "plan_id": plan_id,
                "rewound_to": -1,
                "skipped_from": "",
                "meaning": "{}",
                "published_at": self.pipeline.interval.first + timedelta(seconds=number),
            }
        )

    def _id(self, number: int) -> str:
        return self.pipeline.interval_at(self.pipeline.interval.first).shifted(number).id if number >= 0 else ""
