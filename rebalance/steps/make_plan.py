"""make_plan: the next partitioning function from the interval's statistics. Starts no Spark.

Leaves `plan_moves`, `functions` and, last, the row of `plans` that names them. Made again for the same interval and epoch it gives the
same plan and changes nothing; nothing is moved here.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rebalance.errors import OrderError, QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, Plan, Request
from rebalance.steps.faults import checkpoint
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, current_epoch, epoch_of, load_function, store_function
from rebalance.storage.lock import writer_lock
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.statistics import make_request


def make_plan(pipeline: Pipeline, interval: Interval) -> str:
    """Plan for one interval; returns the decision and its reason in a sentence."""
    root = pipeline.tables
    with writer_lock(root):
        carried_out = epoch_of(root, interval.id, "migrate", "keep")
        if carried_out:
            return f"interval {interval.id} was planned and carried out already (epoch {carried_out.epoch}); nothing changed"
        epoch = _planned_epoch(root, interval)
        if epoch.interval_id != interval.id:
            reason = (
                f"superseded: interval {epoch.interval_id} is processed already, and plans use the newest statistics"
            )
            _store(root, interval, epoch, _row(interval, epoch, decision="keep", reason=reason))
            return f"keep: {reason}"
        _require_quality(root, interval)
        request, plan = plan_for(pipeline, interval, epoch)
        _store_plan(root, interval, epoch, request, plan)
        return f"{plan.decision}: {plan.reason}"


def plan_for(pipeline: Pipeline, interval: Interval, epoch: Epoch) -> tuple[Request, Plan]:
    """The plan for an interval's statistics, without writing anything."""
    function = load_function(pipeline.tables, epoch.function_version)
    request = make_request(pipeline, function, interval.id, mergeable=pipeline.make_operator().mergeable)
    return request, decide(pipeline.make_planner(), request, function)


def _planned_epoch(root: str, interval: Interval) -> Epoch:
    epoch = current_epoch(root)
    if epoch is None or epoch_of(root, interval.id, "process") is None:
        raise OrderError(f"interval {interval.id} is not processed yet. Run process_batch first.")
    return epoch


def _require_quality(root: str, interval: Interval) -> None:
    checks = control.rows(root, "quality_runs", columns=["expectation", "success"], interval_id=interval.id)
    failed = [check["expectation"] for check in checks if not check["success"]]
    if not checks:
        raise QualityError(f"the statistics of interval {interval.id} were not checked. Run check_quality first.")
    if failed:
        raise QualityError(
            f"the statistics of interval {interval.id} failed {len(failed)} checks: {', '.join(failed)}. Nothing was planned."
        )


def _store_plan(root: str, interval: Interval, epoch: Epoch, request: Request, plan: Plan) -> None:
    """Store moves and function first and the plan last: without its row the others mean nothing."""
    row = _row(interval, epoch, decision=str(plan.decision), reason=plan.reason, **_metrics(plan))
    if plan.decision is Decision.APPLY:
        earlier = _stored(root, row["plan_id"])
        if earlier and load_function(root, earlier["function_version"]).digest() == plan.function.digest():
            return
        _store_moves(root, interval, row["plan_id"], request, plan)
        checkpoint("make_plan: moves stored")
        row["function_version"] = store_function(root, plan.function, interval.id).version
        checkpoint("make_plan: function stored")
    _store(root, interval, epoch, row)


def _store_moves(root: str, interval: Interval, plan_id: str, request: Request, plan: Plan) -> None:
    moves = pa.table(
        {
            "plan_id": [plan_id] * len(plan.moved),
            "interval_id": [interval.id] * len(plan.moved),
            "key": [str(key) for key in request.stats.keys[plan.moved]],
            "from_channel": plan.moved_from,
            "to_channel": plan.moved_to,
            "state_bytes": request.stats.state[plan.moved],
            "cost": request.stats.cost[plan.moved],
        },
        schema=SCHEMAS["plan_moves"],
    )
    control.replace(root, "plan_moves", moves, plan_id=plan_id)


def _store(root: str, interval: Interval, epoch: Epoch, row: dict[str, Any]) -> None:
    control.replace(root, "plans", [row], plan_id=row["plan_id"])
    checkpoint("make_plan: plan stored")


def _stored(root: str, plan_id: str) -> dict[str, Any] | None:
    found = control.rows(root, "plans", plan_id=plan_id)
    return found[-1] if found and found[-1]["decision"] == "apply" else None


def plan_id_of(interval: Interval, epoch: Epoch) -> str:
    """A plan's name: its interval and the epoch it was made on, so that a retry makes the same one."""
    return f"{interval.id}-e{epoch.epoch}"


def _row(interval: Interval, epoch: Epoch, **known: Any) -> dict[str, Any]:
    empty = {
        "planner": "",
        "notes": "",
        "routes": 0,
        "splits": 0,
        "moved_keys": 0,
        "loads_before": [],
        "loads_after": [],
    }
    numbers = (
        "theta_before",
        "theta_after",
        "skewness_before",
        "skewness_after",
        "moved_bytes",
        "moved_share",
        "seconds",
    )
    return {
        **empty,
        **dict.fromkeys(numbers, 0.0),
        "plan_id": plan_id_of(interval, epoch),
        "interval_id": interval.id,
        "base_epoch": epoch.epoch,
        "function_version": epoch.function_version,
        **known,
    }


def _metrics(plan: Plan) -> dict[str, Any]:
    return {
        "planner": plan.planner,
        "notes": "; ".join(plan.notes),
        "theta_before": plan.before.theta,
        "theta_after": plan.after.theta,
        "skewness_before": plan.before.skewness,
        "skewness_after": plan.after.skewness,
        "imbalance_before": plan.before.imbalance,
        "imbalance_after": plan.after.imbalance,
        "memory_before": plan.before.memory,
        "memory_after": plan.after.memory,
        "routes": plan.after.routes,
        "splits": plan.after.splits,
        "moved_keys": len(plan.moved),
        "moved_bytes": plan.moved_bytes,
        "moved_share": plan.moved_share,
        "bound_bytes": plan.bound,
        "bound_theta": plan.bound_theta,
        "loads_before": plan.before.loads.tolist(),
        "loads_after": plan.after.loads.tolist(),
        "seconds": plan.seconds,
    }
