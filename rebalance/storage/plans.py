"""Plans as they are stored: the moves, and the row of `plans` that makes them count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rebalance.planning.model import Plan, Request
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, carried_out, load_function
from rebalance.storage.schemas import SCHEMAS


def plan_id_of(interval_id: str, base_function: int) -> str:
    """A plan's name: its interval and the function it was made on, so that a retry makes the same one."""
    return f"{interval_id}-f{base_function}"


def plans_of(root: str, interval_id: str) -> list[dict[str, Any]]:
    """The interval's rows of `plans`, the one made on the newest function last."""
    return sorted(control.rows(root, "plans", interval_id=interval_id), key=lambda row: row["base_function"])


def carried_out_for(root: str, interval_id: str) -> Epoch | None:
    """The epoch of the migration that carried out a plan of this interval, if one did."""
    found = carried_out(root, [plan["plan_id"] for plan in plans_of(root, interval_id)])
    return found[-1] if found else None


def is_stored(root: str, plan_id: str, plan: Plan) -> bool:
    """Whether the plan is there already, to be applied with this very function, and for the same reasons."""
    found = control.rows(root, "plans", plan_id=plan_id, decision="apply", planner=plan.planner)
    if not found or (found[-1]["notes"], found[-1]["theta_max"]) != (_notes(plan), plan.theta_max):
        return False
    return load_function(root, found[-1]["function_version"]).digest() == plan.function.digest()


def _notes(plan: Plan) -> str:
    return "; ".join(plan.notes)


def store_moves(root: str, interval_id: str, plan_id: str, *, request: Request, plan: Plan) -> None:
    """Store the keys that change their channel."""
    moves = pa.table(
        {
            "plan_id": [plan_id] * len(plan.moved),
            "interval_id": [interval_id] * len(plan.moved),
            "key": [str(key) for key in request.stats.keys[plan.moved]],
            "from_channel": plan.moved_from,
            "to_channel": plan.moved_to,
            "state_bytes": request.stats.state[plan.moved],
            "cost": request.stats.cost[plan.moved],
        },
        schema=SCHEMAS["plan_moves"],
    )
    control.replace(root, "plan_moves", moves, plan_id=plan_id)


def store_plan(root: str, interval_id: str, base_function: int, plan: Plan, *, function_version: int) -> None:
    """Store what was decided, and why."""
    measured = {
        f"{name}_{when}": getattr(measure, name)
        for when, measure in (("before", plan.before), ("after", plan.after))
        for name in ("theta", "skewness", "imbalance", "key_copies")
    }
    plan_id = plan_id_of(interval_id, base_function)
    row = {
        "plan_id": plan_id,
        "interval_id": interval_id,
        "base_function": base_function,
        "planner": plan.planner,
        "decision": str(plan.decision),
        "reason": plan.reason,
        "notes": _notes(plan),
        "function_version": function_version,
        "theta_max": plan.theta_max,
        **measured,
        "error": plan.error,
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
    control.replace(root, "plans", [row], plan_id=plan_id)


def applicable_plans(root: str, function_version: int, plan_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Those of some plans that would change this function, newest interval first."""
    if not plan_ids:
        return []
    found = control.rows(root, "plans", base_function=function_version, decision="apply", plan_id=list(plan_ids))
    return sorted(found, key=lambda row: str(row["interval_id"]), reverse=True)
