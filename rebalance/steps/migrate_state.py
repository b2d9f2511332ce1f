"""migrate_state: carry out an interval's plan. One commit moves the rows, one epoch makes it visible.

    lock → preflight (is the plan's epoch still active?) → check the moves → one DML → verify → publish the epoch → unlock

A crash anywhere leaves the old epoch or the new one. Run again, the leftovers are rolled back and the move is made anew, or, with
the epoch published, nothing is done. Rows of keys that do not move are neither read into nor written by the commit.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance.errors import MigrationError, OrderError, StalePlanError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps.faults import checkpoint
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, current_epoch, epoch_of, load_function, publish
from rebalance.storage.lock import writer_lock

#: Up to this many keys are moved by an UPDATE that names them (two scans of the touched channels), more by a MERGE (three).
LITERAL_KEYS = 2000


def migrate_state(pipeline: Pipeline, interval: Interval) -> str:
    """Carry out one interval's plan; returns what was done in a sentence."""
    root = pipeline.tables
    with writer_lock(root):
        done = epoch_of(root, interval.id, "migrate", "keep")
        if done:
            return f"the plan of interval {interval.id} was carried out already (epoch {done.epoch}); nothing changed"
        plan, epoch = _preflight(root, interval)
        if epoch.interval_id != interval.id:
            return f"nothing to do: {plan['reason']}"
        if plan["decision"] != "apply" or pipeline.planning.mode == "shadow":
            return _keep(root, interval, plan, epoch, pipeline.planning.mode)
        moves = control.read(root, "plan_moves", plan_id=plan["plan_id"])
        moves = moves.filter(pc.greater(moves["state_bytes"], 0))
        if moves.num_rows == 0:
            version, what = epoch.state_version, "no key with state changes its channel"
        else:
            version, what = _move(pipeline, epoch, plan, moves)
        checkpoint("migrate_state: verified")
        published = publish(
            root,
            epoch,
            kind="migrate",
            interval_id=interval.id,
            function_version=plan["function_version"],
            state_version=version,
            plan_id=plan["plan_id"],
        )
        checkpoint("migrate_state: epoch published")
        return f"{what}; function v{plan['function_version']} is active, epoch {published.epoch}"


def _preflight(root: str, interval: Interval) -> tuple[dict[str, Any], Epoch]:
    """The interval's newest plan and the active epoch, which must be the one it was made on."""
    plans = control.rows(root, "plans", interval_id=interval.id)
    epoch = current_epoch(root)
    if not plans or epoch is None:
        raise OrderError(f"interval {interval.id} has no plan yet. Run make_plan first.")
    plan = max(plans, key=lambda row: row["base_epoch"])
    if plan["base_epoch"] != epoch.epoch:
        raise StalePlanError(
            f"plan {plan['plan_id']} was made on epoch {plan['base_epoch']}, but epoch {epoch.epoch} is active. "
            "Nothing was moved. Run make_plan again."
        )
    return plan, epoch


def _keep(root: str, interval: Interval, plan: dict[str, Any], epoch: Epoch, mode: str) -> str:
    published = publish(
        root,
        epoch,
        kind="keep",
        interval_id=interval.id,
        function_version=epoch.function_version,
        state_version=epoch.state_version,
        plan_id=plan["plan_id"],
    )
    checkpoint("migrate_state: epoch published")
    why = f"mode is shadow, would have: {plan['reason']}" if plan["decision"] == "apply" else plan["reason"]
    return f"nothing moved ({mode}): {why}; epoch {published.epoch}"


def _move(pipeline: Pipeline, epoch: Epoch, plan: dict[str, Any], moves: pa.Table) -> tuple[int, str]:
    """Move the rows in one verified commit; returns the state's new version and what was done."""
    # Imported here: a plan that moves nothing must not start Spark.
    from rebalance.spark.fingerprint import check_counts, check_end, check_start, fingerprint
    from rebalance.spark.move import typed_moves, update_channels
    from rebalance.spark.session import spark_session
    from rebalance.storage.state import read_newest_state, roll_back

    root, spark = pipeline.tables, spark_session(pipeline)
    roll_back(spark, root, epoch)
    checkpoint("migrate_state: rolled back")
    key_type = load_function(root, epoch.function_version).key_type
    moves = typed_moves(moves, key_type)
    frame = spark.createDataFrame(moves)
    touched = sorted({*moves["from_channel"].to_pylist(), *moves["to_channel"].to_pylist()})
    planned = check_start(fingerprint(read_newest_state(spark, root, epoch.state_version), frame, touched), moves)
    checkpoint("migrate_state: moves checked")
    metadata = json.dumps({"verb": "migrate_state", "plan": plan["plan_id"]})
    version = update_channels(spark, root, moves, metadata=metadata, literal=moves.num_rows <= LITERAL_KEYS)
    checkpoint("migrate_state: rows moved")
    if version <= epoch.state_version:
        raise MigrationError(
            f"plan {plan['plan_id']} moved nothing: the state is still at version {version}. Run the step again."
        )
    check_end(planned, fingerprint(read_newest_state(spark, root, version), frame, touched))
    check_counts(spark, root, version, planned)
    return version, f"{pc.sum(planned['rows']).as_py():,} rows of {moves.num_rows:,} keys moved to other channels"
