"""process_batch: an interval's events, placed by the active function, and the window's state where it lies, through the operator.

Leaves `results`, `state` and `batches`, and publishes an epoch. Only the events are exchanged, once: results and the interval's state rows
come from that exchange. Every table is replaced for this interval alone, so a killed run is simply run again; an interval that has its
epoch is done and is left alone.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.operators import AnyOperator, KeyedFunction
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.events import events_of, explained
from rebalance.spark.in_place import InternalsMissingError
from rebalance.spark.keyed import KeyedWork, function_error, state_columns
from rebalance.spark.late import counted_for_later, late_events
from rebalance.spark.per_key import Frames, PerKey, check_splittable
from rebalance.spark.placement import Placing, placing_session
from rebalance.spark.quarantine import put_aside
from rebalance.spark.routing import SALT, key_type_of
from rebalance.spark.rows import rows_of
from rebalance.spark.session import spark_session
from rebalance.spark.source import read_source
from rebalance.spark.task_times import ChannelWork, channel_work, job_group
from rebalance.steps import AS_USUAL, Insist
from rebalance.steps.faults import checkpoint
from rebalance.steps.logs import note
from rebalance.steps.start import active_epoch, check_consistency, done_already
from rebalance.steps.turn import insisted_on, its_turn, missing_before
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, load_function, processed, publish, require_active
from rebalance.storage.foreign import adopted
from rebalance.storage.late import forget_late
from rebalance.storage.meaning import meaning_of
from rebalance.storage.quarantine import in_words
from rebalance.storage.rest import read_rest
from rebalance.storage.results import drop_left_out, write_results
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.state import (
    check_channels,
    check_columns,
    fold_due,
    head_version,
    oldest_needed,
    prepare_state,
    read_state,
    roll_back,
    write_state,
)
from rebalance.storage.statistics import loads_under, read_key_stats

log = logging.getLogger("rebalance")


def process_batch(pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Process one interval; returns what was done in a sentence."""
    with its_turn(pipeline, interval, insist):
        drop_left_out(pipeline.tables)
        # Before anything is looked at: whatever another process commits from here on is noticed.
        results_version = control.version(pipeline.tables, "results")
        done = processed(pipeline.tables, interval.id)
        if done:
            return done_already(pipeline, interval, done)
        started = time.perf_counter()
        spark = placing_session(spark_session(pipeline))
        quarantines, watches = pipeline.source.on_bad_rows == "quarantine", bool(pipeline.interval.watch_late)
        source = read_source(spark, pipeline, interval, pinned=quarantines or watches)
        events = events_of(source, pipeline, interval)
        epoch = active_epoch(pipeline, interval, key_type_of(events, pipeline.source.key))
        if epoch.interval_id == interval.id:
            # Published by another process since it was asked for: this very epoch would be built on.
            return done_already(pipeline, interval, epoch)
        epoch = adopted(pipeline.tables, epoch)
        roll_back(pipeline.tables, epoch)
        check_consistency(pipeline, epoch)
        function = load_function(pipeline.tables, epoch.function_version)
        batch = Batch(pipeline, interval, epoch, function, spark, results_version)
        batch.events = counted_for_later(source, pipeline, interval) if watches else None
        if quarantines:
            batch.bad_rows = put_aside(source, pipeline, interval, confirm=batch.still_active)
        try:
            batch.run(events)
        except PySparkException as error:
            raise function_error(error) or explained(error, source, pipeline, interval) from None
        said = batch.publish(time.perf_counter() - started)
        return said + late_events(spark, pipeline, interval)


@dataclass
class Batch:
    """One interval on its way through."""

    pipeline: Pipeline
    interval: Interval
    epoch: Epoch
    function: PartitionFunction
    spark: SparkSession
    #: Of the table `results`, when the step began; -1 before it exists.
    results_version: int
    #: How many events there were, to tell those that come later; None: it is not watched.
    events: int | None = None
    #: How many rows were put aside, by reason.
    bad_rows: dict[str, int] = field(default_factory=dict)
    work: ChannelWork = field(init=False)
    state_version: int = field(init=False)

    def frames(self, events: DataFrame) -> Frames:
        """What the interval is to be turned into; all of it hangs on one exchange."""
        operator = self.pipeline.make_operator()
        rows = rows_of(events, self.pipeline, operator, self.function.key_type)
        check_splittable(rows, operator, self.pipeline.make_planner(), self.function)
        older = self._older_state(rows, operator)
        if self.pipeline.spark.state_in_place:
            try:
                return self._placed(operator, rows, older, in_place=True)
            except InternalsMissingError as missing:
                log.warning("state is exchanged with the rows: this Spark cannot read it in place (%s)", missing)
        return self._placed(operator, rows, older, in_place=False)

    def _placed(self, operator: AnyOperator, rows: DataFrame, older: DataFrame | None, *, in_place: bool) -> Frames:
        placing = Placing(self.function.channels, in_place)
        if isinstance(operator, KeyedFunction):
            return KeyedWork(operator, self.function, self.interval, placing).frames(rows, older, fold=self.folds)
        return PerKey(operator, self.function, self.interval.id, placing).frames(
            rows, older, state_stays=self._state_stays
        )

    @property
    def _state_stays(self) -> bool:
        return self.pipeline.planning.consistency == "merge"

    @property
    def _keeps_state(self) -> bool:
        return self.pipeline.operator.horizon != 1

    @cached_property
    def folds(self) -> bool:
        """Whether this interval writes the whole state anew."""
        has_log = self.pipeline.operator.horizon is None and self.epoch.state_version >= 0
        return has_log and fold_due(self.pipeline.tables, self.epoch.state_version)

    def _older_state(self, rows: DataFrame, operator: AnyOperator) -> DataFrame | None:
        """The window's state rows, unread; None if there are none."""
        root, version = self.pipeline.tables, self.epoch.state_version
        if version < 0 or not self._keeps_state:
            return None
        stored = read_state(self.spark, root, version)
        ours = rows.drop(SALT).schema
        if isinstance(operator, KeyedFunction):
            ours = state_columns(operator, ours["key"].dataType)
        check_columns(ours, stored.schema)
        if not self._state_stays:
            check_channels(root, version, self.function.channels)
        return stored.where(
            (F.col("interval_id") >= self._oldest(self.interval)) & (F.col("interval_id") < self.interval.id)
        )

    def _oldest(self, interval: Interval) -> str:
        """Id of the first interval whose state this one needs; every id comes after the empty one."""
        window = self.pipeline.operator.horizon
        return "" if window is None else oldest_needed(interval, window)

    def run(self, events: DataFrame) -> None:
        """Write results and state of the interval, and measure the channels' tasks."""
        frames = self.frames(events)
        if self._keeps_state:
            prepare_state(frames.state, self.pipeline.tables, deletion_vectors=self.pipeline.deletion_vectors)
        try:
            with job_group(self.spark, f"process_batch {self.interval.id}") as group:
                kept = self._write(frames)
                self.work = channel_work(self.spark, group, self.function.channels, state_in_place=frames.in_place)
            if frames.costs is not None:
                self._store_costs(frames.costs.toArrow())
        finally:
            frames.release()
        if self._keeps_state:
            self._check_kept(kept)
        checkpoint("process_batch: state written")

    def _write(self, frames: Frames) -> int:
        """Write results and state; returns how many rows of state there are."""
        root, kept = self.pipeline.tables, 0
        self.state_version = self.epoch.state_version
        before = head_version(root)
        write_results(frames.results, root, self.interval, before=self.results_version, confirm=self.still_active)
        checkpoint("process_batch: results written")
        if self._keeps_state:
            # Without a published state, all that the table holds was undone by a rewind.
            anew = self.folds or self.epoch.state_version < 0
            needed = self.interval.id if anew else self._oldest(self.interval.shifted(1))
            self.state_version, kept = write_state(frames.state, root, self.interval, needed=needed, before=before)
        return kept

    @cached_property
    def missing(self) -> int:
        """How many intervals are left out between the newest processed one and this one."""
        return missing_before(self.pipeline, self.interval, self.epoch)

    def still_active(self) -> None:
        """Asked before something is committed: a process that was asleep may have been overtaken."""
        require_active(self.pipeline.tables, self.epoch)

    def _store_costs(self, costs: pa.Table) -> None:
        """What the function took. It knows the channels' rows better than Spark, whose tasks may read them twice."""
        rows = np.bincount(costs["channel"].to_numpy(), costs["rows"].to_numpy(), self.function.channels)
        self.work.rows, self.work.measured = [int(count) for count in rows], True
        try:
            content = costs.drop_columns(["channel"]).append_column(
                "interval_id", pa.repeat(self.interval.id, costs.num_rows)
            )
            content = content.select(SCHEMAS["key_costs"].names).sort_by("key")
            control.replace(self.pipeline.tables, "key_costs", content, interval_id=self.interval.id)
        except Exception as error:
            log.warning("what keys cost in %s was not stored: %s", self.interval.id, error)

    def _check_kept(self, rows: int) -> None:
        """Refuse an operator that says it keeps its rows and does not: what is counted would not be what is held."""
        operator = self.pipeline.make_operator()
        if operator.keeps_rows and self.work.measured and rows != sum(self.work.rows):
            raise OperatorError(
                f"operator {operator.name!r} has keeps_rows = True, but of {sum(self.work.rows):,} rows it kept {rows:,}. "
                "Set it to False, or keep every row in `state`."
            )

    def publish(self, seconds: float) -> str:
        """Record the batch and make its state the active one."""
        root, rows = self.pipeline.tables, sum(self.work.rows)
        self.still_active()
        batch = {
            "interval_id": self.interval.id,
            "function_version": self.function.version,
            "rows": rows,
            "events": self.events,
            "seconds": seconds,
            "tuples": self.work.rows,
            "task_seconds": self.work.seconds,
            "loads": self._loads(),
            "spilled_bytes": self.work.spilled,
            "consistency": self.pipeline.planning.consistency,
            "folded": self.folds,
        }
        control.replace(root, "batches", [batch], interval_id=self.interval.id)
        forget_late(root, self.interval.id)
        checkpoint("process_batch: batch recorded")
        published = publish(
            root,
            self.epoch,
            kind="process",
            interval_id=self.interval.id,
            function_version=self.epoch.function_version,
            state_version=self.state_version,
            skipped_from=self.interval.shifted(-self.missing).id if self.missing else "",
            meaning=meaning_of(self.pipeline),
        )
        checkpoint("process_batch: epoch published")
        drop_left_out(root)
        note(
            rows=rows,
            channels=self.function.channels,
            function_version=self.function.version,
            epoch=published.epoch,
            batch_seconds=round(seconds, 3),
            left_out=self.missing,
            quarantined=sum(self.bad_rows.values()),
            spilled_bytes=self.work.spilled,
        )
        return (
            f"{rows:,} rows of {self.interval} processed on {self.function.channels} channels "
            f"under function v{self.function.version} in {seconds:.1f} s; epoch {published.epoch}"
            f"{insisted_on(self.pipeline, self.interval, self.missing)}{self._hint()}"
        )

    def _loads(self) -> list[float]:
        """Each channel's load under the function, by the interval's statistics; none if it was not counted."""
        if not control.has_rows(self.pipeline.tables, "interval_stats", self.interval.id):
            return []
        root = self.pipeline.tables
        stats, rest = read_key_stats(root, self.interval.id), read_rest(root, self.interval.id)
        return [float(load) for load in loads_under(self.function, stats, rest=rest)]

    def _hint(self) -> str:
        aside = f"; {in_words(self.bad_rows)}" if self.bad_rows else ""
        if not self.work.spilled:
            return aside
        return (
            f"{aside}. {self.work.spilled / 1e6:,.0f} MB did not fit into memory and went to disk: give Spark more "
            "(spark.driver.memory on one machine, spark.executor.memory on a cluster), or use more channels"
        )
