"""What happened, interval by interval, from the control tables alone."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance.storage import control
from rebalance.storage.epochs import all_epochs


@dataclass(frozen=True)
class IntervalRecord:
    """One interval as a person wants to see it; loads are per channel, in channel order."""

    interval_id: str
    events: int
    #: Loads as the ring alone would have them, and as they were under the active function.
    hash_loads: list[float]
    loads: list[float]
    #: Seconds Spark measured for each channel's task.
    task_seconds: list[float]
    planner: str
    decision: str
    reason: str
    #: max/mean load the plan predicted on this interval's statistics.
    predicted: float
    #: max/mean load that the next interval then had; None while there is none.
    reached: float | None
    routes: int
    moved_keys: int
    moved_bytes: float
    moved_share: float
    #: What the interval's last step published: process, migrate or keep.
    kind: str

    @property
    def without(self) -> float:
        """max/mean load under the ring alone."""
        return max_over_mean(self.hash_loads)

    @property
    def before(self) -> float:
        """max/mean load under the function that was active."""
        return max_over_mean(self.loads)


def max_over_mean(values: list[float]) -> float:
    """1 is perfectly even.

    >>> max_over_mean([2.0, 4.0])
    1.3333333333333333
    """
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0


def read_history(root: str, last: int | None = None) -> list[IntervalRecord]:
    """The processed intervals whose statistics are in, oldest first; the newest `last` ones if given."""
    stats: dict[str, list[dict[str, float]]] = {}
    for row in control.rows(root, "channel_stats"):
        stats.setdefault(row["interval_id"], []).append(row)
    batches = {row["interval_id"]: row for row in control.rows(root, "batches")}
    plans: dict[str, dict[str, object]] = {}
    for row in sorted(control.rows(root, "plans"), key=lambda row: row["base_epoch"]):
        plans[row["interval_id"]] = row
    kinds = {epoch.interval_id: epoch.kind for epoch in all_epochs(root)}
    loads = {
        interval: [row["cost"] for row in sorted(rows, key=lambda row: row["channel"])]
        for interval, rows in stats.items()
    }
    chosen = sorted(stats)[-last:] if last else sorted(stats)
    following = dict(zip(sorted(stats), sorted(stats)[1:], strict=False))
    records = []
    for interval in chosen:
        rows = sorted(stats[interval], key=lambda row: row["channel"])
        plan = plans.get(interval, {})
        after = following.get(interval)
        records.append(
            IntervalRecord(
                interval_id=interval,
                events=batches[interval]["events"],
                hash_loads=[row["hash_cost"] for row in rows],
                loads=loads[interval],
                task_seconds=[row["task_seconds"] for row in rows],
                planner=str(plan.get("planner", "")),
                decision=str(plan.get("decision", "")),
                reason=str(plan.get("reason", "")),
                predicted=float(plan.get("skewness_after", 0.0)),  # type: ignore[arg-type]
                reached=max_over_mean(loads[after]) if after else None,
                routes=int(plan.get("routes", 0)),  # type: ignore[call-overload]
                moved_keys=int(plan.get("moved_keys", 0)),  # type: ignore[call-overload]
                moved_bytes=float(plan.get("moved_bytes", 0.0)),  # type: ignore[arg-type]
                moved_share=float(plan.get("moved_share", 0.0)),  # type: ignore[arg-type]
                kind=kinds.get(interval, ""),
            )
        )
    return records
