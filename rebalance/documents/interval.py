"""One interval: where its load lies and why, what its plan moved, what was checked, and how long it took."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rebalance.documents.plain import Document, document, interval_of
from rebalance.documents.planned import moves_of, plan_of
from rebalance.errors import RebalanceError
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.planning.model import Floats
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch, load_function
from rebalance.storage.history import Past, max_over_mean, read_past
from rebalance.storage.late import late_up_to
from rebalance.storage.plans import plans_of
from rebalance.storage.quarantine import quarantined
from rebalance.storage.rest import read_rest, rest_by_channel
from rebalance.storage.statistics import channels_of, split_keys

#: The heaviest keys of a channel that are shown, and the least part of its fair load that each has.
_HEAVIEST, _LEAST = 5, 0.01
_CHECK = ("suite", "expectation", "column", "severity", "success", "bad_rows", "detail")

Row = dict[str, Any]


@document
def interval_document(pipeline: Pipeline, interval_id: str) -> Document:
    """Everything that is known of an interval that was counted or processed."""
    return _Interval(pipeline, interval_id).document()


@dataclass(frozen=True)
class _Channels:
    """What is known of the channels, in lists over them; None where it is not known."""

    fair: list[float]
    hash: list[float] | None
    before: list[float] | None
    planned: list[float] | None
    reached: list[float] | None
    tuples: list[int] | None
    task_seconds: list[float] | None
    held_bytes: list[int] | None
    keys: list[int] | None
    heavy: list[list[Document]]

    def rows(self) -> list[Document]:
        """One row per channel; a list that is shorter was made when there were fewer channels."""
        columns = {name: values for name, values in vars(self).items() if values is not None}
        return [
            {"channel": channel}
            | dict.fromkeys(vars(self))
            | {name: values[channel] for name, values in columns.items() if channel < len(values)}
            for channel in range(len(self.fair))
        ]


class _Interval:
    def __init__(self, pipeline: Pipeline, interval_id: str) -> None:
        self.pipeline, self.root, self.id = pipeline, pipeline.tables, interval_id
        self.past: Past = read_past(self.root)
        self.known = _known(self.root, self.past)
        at = bisect_left(self.known, interval_id)
        if self.known[at : at + 1] != [interval_id]:
            raise RebalanceError(_unknown(pipeline, interval_id, self.known))
        self.at = at
        self.processed = self.past.intervals[bisect_left(self.past.intervals, interval_id) :][:1] == [interval_id]
        self.batch: Row = self._only("batches") if self.processed else {}
        self.counted: Row = self._only("interval_stats")
        plans = plans_of(self.root, interval_id)
        self.plan: Row | None = plans[-1] if plans else None
        stats = control.rows(self.root, "channel_stats", interval_id=interval_id)
        self.stats = sorted(stats, key=lambda row: int(row["channel"]))

    def _only(self, table: str) -> Row:
        found = control.rows(self.root, table, interval_id=self.id)
        return found[-1] if found else {}

    def document(self) -> Document:
        """All of it."""
        interval, channels = interval_of(self.pipeline, self.id), self._channels()
        late = {one.interval_id: one.late for one in late_up_to(self.root, self.id)}
        return {
            "name": self.pipeline.name,
            "dag_id": self.pipeline.dag_id,
            "id": self.id,
            "start": interval.start,
            "end": interval.end,
            "previous": self.known[self.at - 1] if self.at else None,
            "next": self.known[self.at + 1] if self.at + 1 < len(self.known) else None,
            "rows": self.batch.get("rows", self.counted.get("rows")),
            "keys": self.counted.get("keys"),
            "processed": self.processed,
            "function_version": self.batch.get("function_version", self.counted.get("function_version")),
            "theta_max": self.plan["theta_max"] if self.plan else self.pipeline.planning.theta_max,
            "channels": channels.rows(),
            **{
                name: max_over_mean(loads) if loads else None
                for name in ("hash", "before", "planned", "reached")
                for loads in [getattr(channels, name)]
            },
            "plan": self.plan and plan_of(self.pipeline, self.plan),
            **moves_of(self.root, self.plan["plan_id"] if self.plan else None),
            "quality": self._quality(),
            "steps": self._steps(),
            "late": late.get(self.id, 0),
            "quarantined": quarantined(self.root, [self.id]).get(self.id, {}),
            "skipped_from": self.past.skipped.get(self.id),
        }

    def _quality(self) -> list[Document]:
        checks = control.rows(self.root, "quality_runs", columns=_CHECK, interval_id=self.id)
        # Hand-made rows may lack a name.
        return sorted(checks, key=lambda row: tuple(str(row[name]) for name in _CHECK[:3]))

    def _steps(self) -> list[Document]:
        took = {"collect_stats": self.counted, "make_plan": self.plan or {}, "process_batch": self.batch}
        return [{"step": step, "seconds": row["seconds"]} for step, row in took.items() if "seconds" in row]

    def _channels(self) -> _Channels:
        hashed = [row["hash_cost"] for row in self.stats] or None
        before = [row["cost"] for row in self.stats] or None
        planned = (self.plan["loads_after"] if self.plan else None) or None
        # Counted after it was processed, it was counted under the function it was processed with.
        reached = (self.batch["loads"] or before) if self.batch else None
        function = self._function()
        sizes = [len(loads) for loads in (hashed, before, planned, reached) if loads]
        count = max([self.pipeline.channels.count if function is None else function.channels, *sizes])
        load = sum(next((loads for loads in (reached, before, planned) if loads), []))
        fair = _fair(self.pipeline, count, load)
        stats = None if function is None else self._key_stats()
        keys, held = [row["keys"] for row in self.stats], [row["held_bytes"] for row in self.stats]
        heavy: list[list[Document]] = []
        if function is not None and stats is not None and stats.num_rows:
            keys, held, heavy = _by_key(function, stats, read_rest(self.root, self.id), np.asarray(fair))
        return _Channels(
            fair=fair,
            hash=hashed,
            before=before,
            planned=planned,
            reached=reached,
            tuples=self.batch.get("tuples") or None,
            task_seconds=self.batch.get("task_seconds") or None,
            held_bytes=held or None,
            keys=keys or None,
            heavy=[*heavy, *([] for _ in range(count - len(heavy)))],
        )

    def _key_stats(self) -> pa.Table:
        columns = ["key", "slot", "cost", "held_bytes"]
        return control.read(self.root, "key_stats", columns=columns, interval_id=self.id)

    def _function(self) -> PartitionFunction | None:
        """The function it was, or as things stand will be, processed with; None if maintenance has removed it."""
        version, active = self.batch.get("function_version"), current_epoch(self.root)
        if version is None and active is not None:
            version = active.function_version
            plan, planning = self.plan, self.pipeline.planning
            follows = plan is not None and plan["decision"] == "apply" and plan["base_function"] == version
            if plan is not None and follows and (planning.mode, planning.when) == ("auto", "before"):
                version = plan["function_version"]
        if version is None or not control.rows(self.root, "functions", columns=["version"], version=version):
            return None
        return load_function(self.root, version)


def _known(root: str, past: Past) -> list[str]:
    """The intervals that were counted or processed, oldest first."""
    counted = control.read(root, "interval_stats", columns=["interval_id"])["interval_id"].to_pylist()
    return sorted({*counted, *past.intervals})


def _unknown(pipeline: Pipeline, interval_id: str, known: Sequence[str]) -> str:
    there = f"there are {len(known):,}, {known[0]} to {known[-1]}" if known else "none was counted or processed yet"
    return f"pipeline {pipeline.name} has no interval {interval_id!r}: {there}."


def _fair(pipeline: Pipeline, count: int, load: float) -> list[float]:
    """The fair load of each channel; all alike where the file has other channels now than there were then."""
    capacity = np.ones(count)
    if pipeline.channels.count == count:
        capacity = np.asarray(pipeline.capacities(), dtype=np.float64)
        capacity[list(pipeline.channels.excluded)] = 0.0
    fair: list[float] = (capacity / capacity.sum() * load).tolist()
    return fair


def _by_key(
    function: PartitionFunction, stats: pa.Table, rest: pa.Table, fair: Floats
) -> tuple[list[int], list[int], list[list[Document]]]:
    """Keys, bytes held and heaviest keys of each channel under a function; a split key's cost is spread by its shares."""
    channel, cost = channels_of(function, stats), stats["cost"].to_numpy()
    keys = np.bincount(channel, minlength=function.channels) + rest_by_channel(function, rest, "keys").astype(np.int64)
    held = np.bincount(channel, stats["held_bytes"].to_numpy(), function.channels)
    held = (held + rest_by_channel(function, rest, "held_bytes")).astype(np.int64)
    least = np.where(fair > 0, fair, fair.mean()) * _LEAST
    chosen = (cost >= least[channel]) & (cost > 0)
    parts = split_keys(function, stats)
    chosen[list(parts)] = False
    at = np.flatnonzero(chosen)
    extra = [(k, share.channel, float(cost[k]) * share.share) for k, shares in parts.items() for share in shares]
    for shares in parts.values():
        keys[[share.channel for share in shares[1:]]] += 1
    candidates = pa.table(
        {
            "key": stats["key"].take(np.concatenate([at, [k for k, _, _ in extra]]).astype(np.int64)),
            "channel": np.concatenate([channel[at], [d for _, d, _ in extra]]).astype(np.int64),
            "cost": np.concatenate([cost[at], [c for _, _, c in extra]]),
        }
    ).sort_by([("channel", "ascending"), ("cost", "descending"), ("key", "ascending")])
    return keys.tolist(), held.tolist(), _first_of_each(candidates, len(fair))


def _first_of_each(candidates: pa.Table, channels: int) -> list[list[Document]]:
    """The first few rows of each channel, of a table that is sorted by channel."""
    where = candidates["channel"].to_numpy()
    starts = np.searchsorted(where, np.arange(channels), "left")
    stops = np.minimum(np.searchsorted(where, np.arange(channels), "right"), starts + _HEAVIEST)
    return [
        [{"key": str(row["key"]), "cost": row["cost"]} for row in candidates.slice(a, b - a).to_pylist()]
        for a, b in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
