"""make_plan: the next partitioning function from the interval's statistics. Starts no Spark.

Leaves `plan_moves`, `functions` and, last, the row of `plans` that names them. Made again for the same interval and epoch it gives the
same plan and changes nothing; nothing is moved here.
"""

from __future__ import annotations

from rebalance.errors import OrderError, QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, Plan, Request
from rebalance.steps.faults import checkpoint
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, current_epoch, epoch_of, load_function, store_function
from rebalance.storage.lock import writer_lock
from rebalance.storage.plans import is_stored, plan_id_of, store_moves, store_no_plan, store_plan
from rebalance.storage.statistics import make_request


def make_plan(pipeline: Pipeline, interval: Interval) -> str:
    """Plan for one interval; returns the decision and its reason in a sentence."""
    root = pipeline.tables
    with writer_lock(root):
        carried_out = epoch_of(root, interval.id, "migrate", "keep")
        if carried_out:
            return f"interval {interval.id} was planned and carried out already (epoch {carried_out.epoch}); nothing changed"
        epoch = _active_epoch(root, interval)
        if epoch.interval_id != interval.id:
            reason = (
                f"superseded: interval {epoch.interval_id} is processed already, and plans use the newest statistics"
            )
            store_no_plan(root, interval.id, epoch, reason=reason)
            checkpoint("make_plan: plan stored")
            return f"keep: {reason}"
        _require_quality(root, interval)
        request, plan = plan_for(pipeline, interval, epoch)
        _store(pipeline, epoch, request, plan)
        return f"{plan.decision}: {plan.reason}"


def plan_for(pipeline: Pipeline, interval: Interval, epoch: Epoch) -> tuple[Request, Plan]:
    """The plan for an interval's statistics, without writing anything."""
    function = load_function(pipeline.tables, epoch.function_version)
    request = make_request(pipeline, function, interval.id, mergeable=pipeline.make_operator().mergeable)
    return request, decide(pipeline.make_planner(), request, function)


def _active_epoch(root: str, interval: Interval) -> Epoch:
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


def _store(pipeline: Pipeline, epoch: Epoch, request: Request, plan: Plan) -> None:
    """Store moves and function first and the plan last: without its row the others mean nothing."""
    root, interval_id, version = pipeline.tables, epoch.interval_id, epoch.function_version
    if plan.decision is Decision.APPLY:
        plan_id = plan_id_of(interval_id, epoch)
        if is_stored(root, plan_id, plan.function):
            return
        store_moves(root, interval_id, plan_id, request=request, plan=plan)
        checkpoint("make_plan: moves stored")
        version = store_function(root, plan.function, interval_id).version
        checkpoint("make_plan: function stored")
    store_plan(root, interval_id, epoch, plan, function_version=version)
    checkpoint("make_plan: plan stored")
