"""All pipelines at a glance: one card each, and whether it needs a person. A pipeline that cannot be read hides no other one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rebalance.documents.plain import Document, document, interval_of
from rebalance.documents.words import several
from rebalance.pipeline.file import Pipeline
from rebalance.quality.runs import stopping, warnings
from rebalance.storage import control
from rebalance.storage.approvals import pending
from rebalance.storage.history import IntervalRecord, Past, read_past, records
from rebalance.storage.late import Late, advice, late_up_to
from rebalance.storage.quarantine import quarantined


def overview(pipelines: Sequence[Pipeline]) -> Document:
    """The cards of some pipelines, in their order."""
    return {"pipelines": [card(pipeline) for pipeline in pipelines]}


def card(pipeline: Pipeline) -> Document:
    """A pipeline at its newest interval: loads, seconds, what was moved, and what needs a person."""
    try:
        return _read(pipeline)
    except Exception as error:
        words = str(error).strip() or type(error).__name__
        return {**_nothing(pipeline), "health": "attention", "why": words}


def _nothing(pipeline: Pipeline) -> Document:
    """The card of a pipeline of which only the file is known."""
    planning = pipeline.planning
    unknown = (
        *(
            "interval",
            "start",
            "end",
            "hash",
            "predicted",
            "error",
            "reached",
            "seconds",
            "slowest",
            "mean",
            "saved_seconds",
        ),
        *("moved_keys", "moved_bytes", "failed_checks", "warned_checks", "late", "quarantined", "pending"),
    )
    return {
        "name": pipeline.name,
        "dag_id": pipeline.dag_id,
        "operator": pipeline.operator.label,
        "planner": planning.planner,
        "mode": planning.mode,
        "theta_max": planning.theta_max,
        "channels": pipeline.channels.count,
        "health": "empty",
        "why": f"No interval was processed yet. To process all that have data: rebalance run {pipeline.name}",
        **dict.fromkeys(unknown),
    }


@document
def _read(pipeline: Pipeline) -> Document:
    past, nothing = read_past(pipeline.tables, pipeline.alerts.imbalance_intervals), _nothing(pipeline)
    none = {"moved_keys": 0, "moved_bytes": 0.0, "failed_checks": 0, "warned_checks": 0, "late": 0, "quarantined": 0}
    if not past.intervals:
        return nothing | none
    newest = _Newest(pipeline, past)
    needed = list(newest.needs_a_person())
    more = f" And {several(len(needed) - 1, 'more thing')} to look at." if len(needed) > 1 else ""
    return {
        **nothing,
        **newest.figures(),
        "health": "attention" if needed else "good",
        "why": needed[0] + more if needed else newest.all_is_well(),
    }


class _Newest:
    """The newest processed interval, and what the tables know of it."""

    def __init__(self, pipeline: Pipeline, past: Past) -> None:
        root, self.pipeline, self.id = pipeline.tables, pipeline, past.intervals[-1]
        self.records = records(root, past, past.intervals)
        found = self.records[-1:]
        self.record: IntervalRecord | None = found[0] if found and found[0].interval_id == self.id else None
        columns = ["expectation", "success", "severity"]
        checks = control.rows(root, "quality_runs", columns=columns, interval_id=self.id)
        self.failed, self.warned = stopping(checks), warnings(checks)
        self.late: list[Late] = late_up_to(root, self.id)
        self.aside = sum(quarantined(root, [self.id]).get(self.id, {}).values())
        self.pending = pending(root) if pipeline.planning.mode == "approve" else None

    def figures(self) -> Document:
        """The numbers of the card."""
        interval = interval_of(self.pipeline, self.id)
        found = {
            "interval": self.id,
            "start": interval.start,
            "end": interval.end,
            "failed_checks": len(self.failed),
            "warned_checks": len(self.warned),
            "late": sum(abs(one.late) for one in self.late),
            "quarantined": self.aside,
            "pending": self.pending and _pending(self.pending),
            "moved_keys": 0,
            "moved_bytes": 0.0,
        }
        return found if self.record is None else found | measured(self.record)

    def needs_a_person(self) -> Iterator[str]:
        """What somebody has to look at, in sentences, the most urgent first."""
        name, planning, record = self.pipeline.name, self.pipeline.planning, self.record
        if self.failed:
            what = ", ".join(sorted({check["expectation"] for check in self.failed}))
            yield f"{several(len(self.failed), 'check')} failed on {self.id}, which was not planned for that: {what}."
        elif record is not None and not record.decision and planning.when == "before":
            yield f"{self.id} was processed without a plan: its results are complete, but a step that plans has failed or was left out."
        if self.late:
            yield f"{advice(self.late, name)[:1].upper()}{advice(self.late, name)[1:]}."
        if self.pending:
            yield f"Plan {self.pending['plan_id']} waits for an answer: rebalance approve {name}"
        if record is not None and record.decision == "reject":
            yield f"The plan for {self.id} was refused: {record.reason}."
        if planning.mode == "auto" and self._stays_uneven():
            yield (
                f"For {several(len(self.records), 'interval')} a channel had more than θ_max = {planning.theta_max:g} above its fair load. "
                f"rebalance explain {name} says why."
            )

    def _stays_uneven(self) -> bool:
        capacities, limit = self.pipeline.capacities(), self.pipeline.planning.theta_max
        long_enough = len(self.records) == self.pipeline.alerts.imbalance_intervals
        return long_enough and all(record.above_fair(capacities) > limit for record in self.records)

    def all_is_well(self) -> str:
        """What there is to say if nobody is needed."""
        record = self.record
        if record is None or not record.loads or not record.hash_loads:
            return f"{self.id} is processed."
        said = f"The fullest channel had {record.reached:.2f} times the mean load"
        if self.pipeline.planning.mode == "shadow" and record.predicted is not None:
            return f"{said}; planned it would have been {record.predicted:.2f}. Nothing is moved in mode shadow."
        return f"{said}; by the hash alone it would have been {record.without:.2f}."


def measured(record: IntervalRecord) -> Document:
    """What was measured of a processed interval; None where it was not."""
    seconds, known = record.task_seconds, bool(record.loads and record.hash_loads)
    slowest = max(seconds) if seconds else None
    saved = slowest * (record.without / record.reached - 1) if slowest is not None and known else None
    return {
        "hash": record.without if record.hash_loads else None,
        "predicted": record.predicted,
        "error": record.error,
        "reached": record.reached if record.loads else None,
        "seconds": record.seconds,
        "slowest": slowest,
        "mean": sum(seconds) / len(seconds) if seconds else None,
        # An estimate: seconds follow the load.
        "saved_seconds": saved,
        "moved_keys": record.moved_keys if record.applied else 0,
        "moved_bytes": record.moved_bytes if record.applied else 0.0,
    }


def _pending(plan: dict[str, Any]) -> Document:
    return {
        "plan_id": plan["plan_id"],
        # Of the function that is shown: an answer is bound to it.
        "digest": plan["digest"],
        "interval": plan["interval_id"],
        "planner": plan["planner"],
        "predicted": plan["skewness_after"],
        "error": plan["error"],
        "moved_keys": plan["moved_keys"],
        "moved_bytes": plan["moved_bytes"],
    }
