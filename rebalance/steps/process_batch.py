"""process_batch: an interval's events and the window's state, placed by the active function, through the operator.

Leaves `results`, `key_counts`, `state` and `batches`, and publishes an epoch. Every table is replaced for this interval alone, so a
killed run is simply run again; an interval that has its epoch is done and is left alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import ConfigError, OrderError, SourceError
from rebalance.operators import Operator
from rebalance.partition import KeyType, PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.planning.interface import first_function
from rebalance.spark.per_key import Frames, PerKey, check_splittable
from rebalance.spark.placement import placing_session
from rebalance.spark.routing import NULL_KEY, SALT, key_column, key_type_of, route, salt_of
from rebalance.spark.session import spark_session
from rebalance.spark.source import count_null_keys, events_of, read_source
from rebalance.spark.task_times import job_group, task_seconds
from rebalance.steps.faults import checkpoint
from rebalance.storage import control
from rebalance.storage.epochs import Epoch, current_epoch, epoch_of, load_function, publish, store_function
from rebalance.storage.interval_tables import write_interval
from rebalance.storage.lock import writer_lock
from rebalance.storage.state import check_columns, oldest_needed, read_state, roll_back, write_state


def process_batch(pipeline: Pipeline, interval: Interval) -> str:
    """Process one interval; returns what was done in a sentence."""
    with writer_lock(pipeline.tables):
        done = epoch_of(pipeline.tables, interval.id, "process")
        if done:
            return f"interval {interval.id} was processed already (epoch {done.epoch}); nothing changed"
        started = time.perf_counter()
        spark = placing_session(spark_session(pipeline))
        events = events_of(read_source(spark, pipeline), pipeline, interval)
        epoch = _active_epoch(pipeline, interval, key_type_of(events, pipeline.source.key))
        roll_back(spark, pipeline.tables, epoch)
        _check_consistency(pipeline)
        batch = Batch(pipeline, interval, epoch, load_function(pipeline.tables, epoch.function_version), spark)
        try:
            seconds = batch.run(events)
        except PySparkException as error:
            if NULL_KEY in str(error):
                raise _null_keys(events, pipeline, interval) from None
            raise
        return batch.publish(seconds, time.perf_counter() - started)


def _active_epoch(pipeline: Pipeline, interval: Interval, key_type: KeyType) -> Epoch:
    """The epoch to build on; the first interval of a pipeline starts it with a ring alone."""
    epoch = current_epoch(pipeline.tables)
    if epoch is None:
        channels = pipeline.channels
        ring = consistent_ring(channels.count, replicas=channels.replicas, excluded=channels.excluded)
        plain = PartitionFunction(version=0, channels=channels.count, slots=ring, key_type=key_type)
        first = first_function(pipeline.make_planner(), plain, channels.excluded)
        stored = store_function(pipeline.tables, first, interval.id)
        return publish(pipeline.tables, None, kind="start", function_version=stored.version, state_version=-1)
    if epoch.interval_id > interval.id:
        raise OrderError(
            f"interval {interval.id} comes before {epoch.interval_id}, which is processed already: state is built in the order of time. "
            "Run intervals in order; to start over, use an empty table root."
        )
    return epoch


def _null_keys(events: DataFrame, pipeline: Pipeline, interval: Interval) -> SourceError:
    nulls = count_null_keys(events, pipeline)
    return SourceError(
        f"{nulls:,} events of interval {interval} have no key ({' + '.join(pipeline.source.key)} is null). Nothing was written. "
        "Filter or fill them in the source, or name another key column."
    )


@dataclass
class Batch:
    """One interval on its way through."""

    pipeline: Pipeline
    interval: Interval
    epoch: Epoch
    function: PartitionFunction
    spark: SparkSession

    def frames(self, events: DataFrame) -> Frames:
        """What the interval is to be turned into; all of it hangs on one placement."""
        operator = self.pipeline.make_operator()
        self.read, self.used = Observation("read"), Observation("used")
        stays = self.pipeline.planning.consistency == "merge"
        rows = self._rows(events, operator, stays)
        return PerKey(operator, self.function, self.interval.id).frames(rows, state_stays=stays)

    def run(self, events: DataFrame) -> list[float]:
        """Write all tables of the interval; returns the seconds each channel's task took."""
        root, frames = self.pipeline.tables, self.frames(events)
        try:
            with job_group(self.spark, f"process_batch {self.interval.id}") as group:
                write_interval(frames.results, root, "results", self.interval.id)
                seconds = task_seconds(self.spark, group, self.function.channels)
            checkpoint("process_batch: results written")
            write_interval(frames.counts, root, "key_counts", self.interval.id)
            checkpoint("process_batch: key_counts written")
            self.state_version = write_state(
                frames.state,
                root,
                self.interval,
                window=self.pipeline.operator.window,
                deletion_vectors=self.pipeline.deletion_vectors,
            )
            checkpoint("process_batch: state written")
        finally:
            frames.release()
        return seconds

    def publish(self, task_seconds: list[float], seconds: float) -> str:
        """Record the batch and make its state the active one."""
        root, read = self.pipeline.tables, int(self.read.get["n"])
        batch = {
            "interval_id": self.interval.id,
            "events": read,
            "rows": int(self.used.get["n"]),
            "seconds": seconds,
            "task_seconds": task_seconds,
            "consistency": self.pipeline.planning.consistency,
        }
        control.replace(root, "batches", [batch], interval_id=self.interval.id)
        checkpoint("process_batch: batch recorded")
        published = publish(
            root,
            self.epoch,
            kind="process",
            interval_id=self.interval.id,
            function_version=self.epoch.function_version,
            state_version=self.state_version,
        )
        checkpoint("process_batch: epoch published")
        return (
            f"{read:,} events of {self.interval} processed on {self.function.channels} channels "
            f"under function v{self.function.version} in {seconds:.1f} s; epoch {published.epoch}"
        )

    def _rows(self, events: DataFrame, operator: Operator, state_stays: bool) -> DataFrame:
        """The interval's rows by the function, and the window's state rows where they are."""
        keyed = events.observe(self.read, F.count(F.lit(1)).alias("n")).withColumns(
            {
                "key": key_column(events, self.pipeline.source.key, self.function.key_type),
                # Before the operator narrows the columns. Where nothing is split, Spark leaves it out again.
                SALT: salt_of(events),
            }
        )
        rows = operator.rows(keyed).observe(self.used, F.count(F.lit(1)).alias("n"))
        check_splittable(rows, operator, self.pipeline.make_planner(), self.function)
        new = route(rows, self.function).drop(SALT).withColumn("interval_id", F.lit(self.interval.id))
        if self.epoch.state_version < 0:
            return new
        oldest = oldest_needed(self.interval, self.pipeline.operator.window)
        stored = read_state(self.spark, self.pipeline.tables, self.epoch.state_version)
        check_columns(new, stored)
        window = stored.where((F.col("interval_id") >= oldest) & (F.col("interval_id") < self.interval.id))
        if state_stays:
            # Of channels that exist no more: any other will do, all partial states are placed anew.
            window = window.withColumn("channel", F.pmod("channel", F.lit(self.function.channels)))
        return new.unionByName(window)


def _check_consistency(pipeline: Pipeline) -> None:
    """State that was left where it was made is not where a function says: only merging finds all of it."""
    batches = control.rows(pipeline.tables, "batches", columns=["interval_id", "consistency"])
    last = max(batches, key=lambda row: str(row["interval_id"]), default=None)
    if last and last["consistency"] == "merge" != pipeline.planning.consistency:
        raise ConfigError(
            f"planning.consistency was 'merge' up to interval {last['interval_id']}, so keys may have state on several channels, "
            f"which '{pipeline.planning.consistency}' would not find. Keep 'merge', or start with an empty table root."
        )
