"""migrate_state: carry out a plan before the interval it serves is processed. One commit moves the rows, one epoch makes it visible.

    lock → preflight (is the plan's base function still active?) → one DML, checked before and after → publish the epoch → unlock

A crash anywhere leaves the old epoch or the new one. Run again, the leftovers are rolled back and the move is made anew, or, with
the epoch published, nothing is done. Rows of keys that do not move are neither read into nor written by the commit.

A plan is the difference of two functions, so an approved one stays good while intervals go by: which keys it moves is asked of the
newest statistics, which know every key that holds state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rebalance.errors import OrderError, StalePlanError
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import AS_USUAL, Insist
from rebalance.steps.faults import checkpoint
from rebalance.steps.logs import note
from rebalance.steps.moves import moves_between
from rebalance.steps.turn import its_turn
from rebalance.storage import control
from rebalance.storage.approvals import ever_approved, is_approved
from rebalance.storage.epochs import Epoch, current_epoch, load_function, publish
from rebalance.storage.foreign import adopted
from rebalance.storage.held import rows_processed
from rebalance.storage.plans import applicable_plans, carried_out_for, plans_of
from rebalance.storage.statistics import channels_of, read_key_stats

_KNOWN = ("key", "slot", "tuples", "state_bytes", "held_rows", "held_bytes")


def migrate_state(pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Carry out one interval's plan, or one that was approved since; returns what was done in a sentence."""
    root = pipeline.tables
    with its_turn(pipeline, interval, insist):
        done = carried_out_for(root, interval.id)
        if done:
            return f"the plan of interval {interval.id} was carried out already (epoch {done.epoch}); nothing changed"
        epoch, plans = current_epoch(root), plans_of(root, interval.id)
        if epoch is None or not plans:
            raise OrderError(f"interval {interval.id} has no plan yet. Run make_plan first.")
        # After a rewind there may be one that was made on a function that counts no more.
        newest = next((plan for plan in plans if plan["base_function"] == epoch.function_version), plans[-1])
        if pipeline.planning.mode == "approve":
            return _migrate_approved(pipeline, interval, epoch, newest)
        if newest["decision"] != "apply":
            return f"nothing moved: {newest['reason']}"
        if pipeline.planning.mode == "shadow":
            return f"nothing moved (mode is shadow), would have: {newest['reason']}"
        return Migration(pipeline, interval, epoch, newest).carry_out()


def _migrate_approved(pipeline: Pipeline, interval: Interval, epoch: Epoch, newest: dict[str, Any]) -> str:
    """Carry out the newest plan that somebody has approved, whichever interval it was made for."""
    root = pipeline.tables
    for plan in applicable_plans(root, epoch.function_version, ever_approved(root)):
        if is_approved(root, plan["plan_id"], load_function(root, plan["function_version"]).digest()):
            return Migration(pipeline, interval, epoch, plan).carry_out()
    if newest["decision"] != "apply":
        return f"nothing moved: {newest['reason']}"
    return (
        f"nothing moved: plan {newest['plan_id']} waits for approval (rebalance approve {pipeline.name}). "
        f"Once approved it is carried out by the next interval. {newest['reason']}"
    )


@dataclass(frozen=True)
class Migration:
    """A plan on its way: a row of `plans`, and the interval whose statistics tell which keys it moves."""

    pipeline: Pipeline
    interval: Interval
    epoch: Epoch
    plan: dict[str, Any]

    def carry_out(self) -> str:
        """Move the rows, verified, and publish the new function with the state it goes with."""
        root, epoch, plan = self.pipeline.tables, self.epoch, self.plan
        if plan["base_function"] != epoch.function_version:
            raise StalePlanError(
                f"plan {plan['plan_id']} changes function v{plan['base_function']}, but v{epoch.function_version} is active. "
                "Nothing was moved. The next interval plans again."
            )
        moves = self._moves(load_function(root, epoch.function_version), load_function(root, plan["function_version"]))
        version, what = epoch.state_version, "no key with state changes its channel"
        if moves.num_rows:
            epoch = adopted(root, epoch)
            version, what = self._move(epoch, moves)
        checkpoint("migrate_state: verified")
        published = publish(
            root,
            epoch,
            kind="migrate",
            interval_id=epoch.interval_id,
            function_version=plan["function_version"],
            state_version=version,
            plan_id=plan["plan_id"],
        )
        checkpoint("migrate_state: epoch published")
        note(plan_id=plan["plan_id"], function_version=plan["function_version"], epoch=published.epoch)
        return f"{what}; function v{plan['function_version']} is active, epoch {published.epoch}"

    def _moves(self, active: PartitionFunction, planned: PartitionFunction) -> pa.Table:
        """Every key with state whose channel differs between the two functions."""
        if self.pipeline.planning.consistency == "merge" or self.epoch.state_version < 0:
            return pa.table({"key": [], "from_channel": [], "to_channel": [], "held_bytes": []})
        if self._counted()["statistics"] != "exact":
            return moves_between(self.pipeline, self.interval.id, self.epoch, active, planned)
        stats = read_key_stats(self.pipeline.tables, self.interval.id, _KNOWN)
        before, after = channels_of(active, stats), channels_of(planned, stats)
        holds, held_bytes = stats["held_rows"].to_numpy() > 0, stats["held_bytes"].to_numpy()
        if self._is_processed():
            holds |= stats["tuples"].to_numpy() > 0
            held_bytes = held_bytes + stats["state_bytes"].to_numpy()
        moved = np.flatnonzero((before != after) & holds)
        return pa.table(
            {
                "key": stats["key"].take(moved),
                "from_channel": before[moved],
                "to_channel": after[moved],
                "held_bytes": held_bytes[moved],
            }
        )

    def _counted(self) -> dict[str, Any]:
        (counted,) = control.rows(self.pipeline.tables, "interval_stats", interval_id=self.interval.id)
        return counted

    def _is_processed(self) -> bool:
        """Whether the state has the interval's rows by now; refuses statistics that do not know every key of the state."""
        root, newest, counted = self.pipeline.tables, self.epoch.interval_id, self._counted()
        if counted["state_newest"] == newest:
            return False
        if newest == self.interval.id and rows_processed(root, self.interval) == counted["rows"]:
            return True
        raise StalePlanError(
            f"interval {self.interval.id} was counted when the state ended with interval {counted['state_newest'] or 'none'}; "
            f"now it ends with {newest}. Nothing was moved. The next interval plans again."
        )

    def _move(self, epoch: Epoch, moves: pa.Table) -> tuple[int, str]:
        """Move the rows of an epoch's state in one verified commit; returns the new version and what was done."""
        # Imported here: a plan that moves nothing must not start Spark.
        from rebalance.spark.move import move_rows
        from rebalance.spark.session import spark_session
        from rebalance.storage.state import head_version, roll_back

        root, spark = self.pipeline.tables, spark_session(self.pipeline)
        roll_back(root, epoch)
        checkpoint("migrate_state: rolled back")
        moved = move_rows(
            spark,
            root,
            moves,
            key_type=load_function(root, epoch.function_version).key_type,
            # Not the epoch's: rolling back makes a version of its own.
            version=head_version(root),
            held_bytes=int(np.sum(moves["held_bytes"].to_numpy())),
            metadata=json.dumps({"verb": "migrate_state", "plan": self.plan["plan_id"]}),
            moment=lambda name: checkpoint(f"migrate_state: {name}"),
        )
        note(rows=moved.rows, keys=moves.num_rows)
        return moved.version, f"{moved.rows:,} rows of {moves.num_rows:,} keys moved to other channels"
