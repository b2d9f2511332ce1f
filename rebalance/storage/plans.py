"""Plans as they are stored: the moves, and the row of `plans` that makes them count."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance.partition import PartitionFunction
from rebalance.planning.model import Plan, Request
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, epoch_of, load_function
from rebalance.storage.schemas import SCHEMAS


def plan_id_of(interval_id: str, epoch: Epoch) -> str:
    """A plan's name: its interval and the epoch it was made on, so that a retry makes the same one."""
    return f"{interval_id}-e{epoch.epoch}"


def newest_plan(root: str, interval_id: str) -> dict[str, Any] | None:
    """The interval's row of `plans`; if there are several, the one made on the newest epoch."""
    return max(control.rows(root, "plans", interval_id=interval_id), key=lambda row: row["base_epoch"], default=None)


def plan_awaiting_approval(root: str, interval_id: str) -> dict[str, Any] | None:
    """The interval's newest plan if it is to be applied and was not yet; None if there is nothing to decide."""
    if epoch_of(root, interval_id, "migrate", "keep"):
        return None
    newest = newest_plan(root, interval_id)
    return newest if newest and newest["decision"] == "apply" else None


def is_stored(root: str, plan_id: str, function: PartitionFunction) -> bool:
    """Whether the plan is there already, to be applied with this very function."""
    found = control.rows(root, "plans", plan_id=plan_id, decision="apply")
    return bool(found) and load_function(root, found[-1]["function_version"]).digest() == function.digest()


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


def moves_with_state(root: str, plan_id: str) -> pa.Table:
    """The moves of a plan that have rows to move."""
    moves = control.read(root, "plan_moves", plan_id=plan_id)
    return moves.filter(pc.greater(moves["state_bytes"], 0))


def store_plan(root: str, interval_id: str, epoch: Epoch, plan: Plan, *, function_version: int) -> None:
    """Store what was decided, and why."""
    measured = {
        f"{name}_{when}": getattr(measure, name)
        for when, measure in (("before", plan.before), ("after", plan.after))
        for name in ("theta", "skewness", "imbalance", "key_copies")
    }
    _store(
        root,
        interval_id,
        epoch,
        decision=str(plan.decision),
        reason=plan.reason,
        planner=plan.planner,
        notes="; ".join(plan.notes),
        function_version=function_version,
        **measured,
        routes=plan.after.routes,
        splits=plan.after.splits,
        moved_keys=len(plan.moved),
        moved_bytes=plan.moved_bytes,
        moved_share=plan.moved_share,
        bound_bytes=plan.bound,
        bound_theta=plan.bound_theta,
        loads_before=plan.before.loads.tolist(),
        loads_after=plan.after.loads.tolist(),
        seconds=plan.seconds,
    )


def store_no_plan(root: str, interval_id: str, epoch: Epoch, *, reason: str) -> None:
    """Store that nothing was planned, and why."""
    texts = dict.fromkeys(("planner", "notes"), "")
    counts = dict.fromkeys(("routes", "splits", "moved_keys"), 0)
    measured = ("theta_before", "theta_after", "skewness_before", "skewness_after")
    numbers = dict.fromkeys((*measured, "moved_bytes", "moved_share", "seconds"), 0.0)
    none: dict[str, Any] = {**texts, **counts, **numbers, "loads_before": [], "loads_after": []}
    _store(root, interval_id, epoch, decision="keep", reason=reason, function_version=epoch.function_version, **none)


def _store(root: str, interval_id: str, epoch: Epoch, **columns: Any) -> None:
    plan_id = plan_id_of(interval_id, epoch)
    row = {"plan_id": plan_id, "interval_id": interval_id, "base_epoch": epoch.epoch, **columns}
    control.replace(root, "plans", [row], plan_id=plan_id)
