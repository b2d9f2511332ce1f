"""make_plan: the next partitioning function from the interval's statistics. Starts no Spark.

Leaves `plan_moves`, `functions` and, last, the row of `plans` that names them. Made again for the same interval and function it gives the
same plan and changes nothing; nothing is moved here.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance.errors import OrderError
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, Plan, Request
from rebalance.quality.runs import require_passed
from rebalance.steps import AS_USUAL, Insist
from rebalance.steps.faults import checkpoint
from rebalance.steps.logs import note
from rebalance.steps.turn import its_turn
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch, load_function, store_function
from rebalance.storage.plans import carried_out_for, is_stored, plan_id_of, store_moves, store_plan
from rebalance.storage.statistics import make_request


def make_plan(pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Plan for one interval; returns the decision and its reason in a sentence."""
    root = pipeline.tables
    with its_turn(pipeline, interval, insist):
        done = carried_out_for(root, interval.id)
        if done:
            return f"interval {interval.id} was planned and carried out already (epoch {done.epoch}); nothing changed"
        epoch = current_epoch(root)
        if epoch is None or not control.has_rows(root, "interval_stats", interval.id):
            raise OrderError(f"interval {interval.id} has no statistics yet. Run collect_stats first.")
        if epoch.interval_id > interval.id:
            return f"nothing planned: interval {epoch.interval_id} is processed already, and plans use the newest statistics; nothing changed"
        require_passed(root, interval.id)
        active = load_function(root, epoch.function_version)
        request, plan = plan_for(pipeline, interval, active)
        if insist.asked:
            plan = replace(plan, notes=(*plan.notes, insist.asked))
        _store(pipeline, interval, active.version, request, plan)
        _note(plan)
        return f"{plan.decision}: {plan.reason}"


def _note(plan: Plan) -> None:
    """The figures that a reason may have, for the log."""
    note(
        decision=str(plan.decision),
        planner=plan.planner,
        skewness_before=plan.before.skewness,
        skewness_after=plan.after.skewness,
        error=plan.error,
        theta_before=plan.before.theta,
        theta_after=plan.after.theta,
        routes=plan.after.routes,
        moved_keys=len(plan.moved),
        moved_bytes=plan.moved_bytes,
        moved_share=plan.moved_share,
    )


def plan_for(pipeline: Pipeline, interval: Interval, active: PartitionFunction) -> tuple[Request, Plan]:
    """The plan for an interval's statistics, without writing anything."""
    request = make_request(pipeline, active, interval.id, mergeable=pipeline.states_merge())
    return request, decide(pipeline.make_planner(), request, active)


def _store(pipeline: Pipeline, interval: Interval, base: int, request: Request, plan: Plan) -> None:
    """Store moves and function first and the plan last: without its row the others mean nothing."""
    root, version = pipeline.tables, base
    if plan.decision is Decision.APPLY:
        plan_id = plan_id_of(interval.id, base)
        if is_stored(root, plan_id, plan):
            return
        store_moves(root, interval.id, plan_id, request=request, plan=plan)
        checkpoint("make_plan: moves stored")
        version = store_function(root, plan.function, interval.id).version
        checkpoint("make_plan: function stored")
    store_plan(root, interval.id, base, plan, function_version=version)
    checkpoint("make_plan: plan stored")
