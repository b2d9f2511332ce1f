"""migrate_state: carry out an interval's plan. One commit moves the rows, one epoch makes it visible.

    lock → preflight (is the plan's epoch still active?) → check the moves → one DML → verify → publish the epoch → unlock

A crash anywhere leaves the old epoch or the new one. Run again, the leftovers are rolled back and the move is made anew, or, with
the epoch published, nothing is done. Rows of keys that do not move are neither read into nor written by the commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance.errors import MigrationError, OrderError, StalePlanError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps.faults import checkpoint
from rebalance.storage.epochs import Epoch, Kind, current_epoch, epoch_of, load_function, publish
from rebalance.storage.lock import writer_lock
from rebalance.storage.plans import moves_with_state, newest_plan

#: Up to this many keys are moved by an UPDATE that names them (two scans of the touched channels), more by a MERGE (three).
LITERAL_KEYS = 2000


def migrate_state(pipeline: Pipeline, interval: Interval) -> str:
    """Carry out one interval's plan; returns what was done in a sentence."""
    root = pipeline.tables
    with writer_lock(root):
        done = epoch_of(root, interval.id, "migrate", "keep")
        if done:
            return f"the plan of interval {interval.id} was carried out already (epoch {done.epoch}); nothing changed"
        migration = _preflight(pipeline, interval)
        if migration.epoch.interval_id != interval.id:
            return f"nothing to do: {migration.plan['reason']}"
        if migration.plan["decision"] != "apply" or pipeline.planning.mode == "shadow":
            return migration.keep()
        return migration.apply()


def _preflight(pipeline: Pipeline, interval: Interval) -> Migration:
    """The interval's newest plan on the active epoch, which must be the one it was made on."""
    plan, epoch = newest_plan(pipeline.tables, interval.id), current_epoch(pipeline.tables)
    if plan is None or epoch is None:
        raise OrderError(f"interval {interval.id} has no plan yet. Run make_plan first.")
    if plan["base_epoch"] != epoch.epoch:
        raise StalePlanError(
            f"plan {plan['plan_id']} was made on epoch {plan['base_epoch']}, but epoch {epoch.epoch} is active. "
            "Nothing was moved. Run make_plan again."
        )
    return Migration(pipeline, epoch, plan)


@dataclass(frozen=True)
class Migration:
    """A plan on its way: a row of `plans`, and the epoch it was made on."""

    pipeline: Pipeline
    epoch: Epoch
    plan: dict[str, Any]

    def keep(self) -> str:
        """Publish that nothing changes."""
        published = self._publish("keep", self.epoch.function_version, self.epoch.state_version)
        reason = self.plan["reason"]
        why = f"mode is shadow, would have: {reason}" if self.plan["decision"] == "apply" else reason
        return f"nothing moved ({self.pipeline.planning.mode}): {why}; epoch {published}"

    def apply(self) -> str:
        """Move the rows, verify, and publish the new function with the state it goes with."""
        moves = moves_with_state(self.pipeline.tables, self.plan["plan_id"])
        if moves.num_rows == 0:
            version, what = self.epoch.state_version, "no key with state changes its channel"
        else:
            version, what = self._move(moves)
        checkpoint("migrate_state: verified")
        published = self._publish("migrate", self.plan["function_version"], version)
        return f"{what}; function v{self.plan['function_version']} is active, epoch {published}"

    def _publish(self, kind: Kind, function_version: int, state_version: int) -> int:
        published = publish(
            self.pipeline.tables,
            self.epoch,
            kind=kind,
            interval_id=self.epoch.interval_id,
            function_version=function_version,
            state_version=state_version,
            plan_id=self.plan["plan_id"],
        )
        checkpoint("migrate_state: epoch published")
        return published.epoch

    def _move(self, moves: pa.Table) -> tuple[int, str]:
        """Move the rows in one verified commit; returns the state's new version and what was done."""
        # Imported here: a plan that moves nothing must not start Spark.
        from rebalance.spark.fingerprint import check_counts, check_end, check_start, fingerprint
        from rebalance.spark.move import typed_moves, update_channels
        from rebalance.spark.session import spark_session
        from rebalance.storage.state import read_newest_state, roll_back

        root, epoch, spark = self.pipeline.tables, self.epoch, spark_session(self.pipeline)
        roll_back(spark, root, epoch)
        checkpoint("migrate_state: rolled back")
        key_type = load_function(root, epoch.function_version).key_type
        moves = typed_moves(moves, key_type)
        frame = spark.createDataFrame(moves)
        touched = sorted({*moves["from_channel"].to_pylist(), *moves["to_channel"].to_pylist()})
        planned = check_start(fingerprint(read_newest_state(spark, root, epoch.state_version), frame, touched), moves)
        checkpoint("migrate_state: moves checked")
        metadata = json.dumps({"verb": "migrate_state", "plan": self.plan["plan_id"]})
        version = update_channels(spark, root, moves, metadata=metadata, literal=moves.num_rows <= LITERAL_KEYS)
        checkpoint("migrate_state: rows moved")
        if version <= epoch.state_version:
            raise MigrationError(
                f"plan {self.plan['plan_id']} moved nothing: the state is still at version {version}. Run the step again."
            )
        check_end(planned, fingerprint(read_newest_state(spark, root, version), frame, touched))
        check_counts(spark, root, version, planned)
        return version, f"{pc.sum(planned['rows']).as_py():,} rows of {moves.num_rows:,} keys moved to other channels"
