"""Spark's own measurements of the channels' tasks: how many rows each got, how long it ran, what did not fit its memory.

They are for people to look at, and nothing that is computed needs them: what cannot be measured is unknown, never an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

log = logging.getLogger("rebalance")

_WAIT_MS = 10_000


@contextmanager
def job_group(spark: SparkSession, description: str) -> Iterator[str]:
    """Jobs started inside belong to one group, whose id is given; their description shows in Spark's UI."""
    group = f"rebalance-{uuid4()}"
    spark.sparkContext.setJobGroup(group, description)
    try:
        yield group
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


@dataclass
class ChannelWork:
    """What the tasks of each channel did, in the order of the channels."""

    #: Rows that came by the exchange.
    rows: list[int]
    seconds: list[float]
    #: Bytes that were written to disk because they did not fit into memory, all tasks together.
    spilled: int = 0
    measured: bool = False


def channel_work(spark: SparkSession, group: str, channels: int, *, state_in_place: bool = True) -> ChannelWork:
    """What each channel's tasks did in the group's jobs; partition = channel. Not `measured` where Spark cannot tell.

    Stages that work on placed rows read an exchange, with one task a channel, or two, where whole and split keys stand side by side.
    The first such stage of the first job, which writes results, reads the interval's rows alone; where the state is exchanged along
    with them, that of the last job does, which writes the interval's state.
    """
    try:
        return _measured(spark, group, channels, state_in_place)
    except Exception as error:
        # A listener bus that is behind, for one.
        log.warning("the channels' tasks were not measured: %s", str(error).partition("\n")[0])
        return ChannelWork([0] * channels, [0.0] * channels)


def _measured(spark: SparkSession, group: str, channels: int, state_in_place: bool) -> ChannelWork:
    jsc = spark.sparkContext._jsc.sc()
    jsc.listenerBus().waitUntilEmpty(_WAIT_MS)
    store = jsc.statusStore()
    tracker = spark.sparkContext.statusTracker()
    work = ChannelWork([0] * channels, [0.0] * channels)
    for job in sorted(tracker.getJobIdsForGroup(group)):
        info, rows = tracker.getJobInfo(job), None
        for stage in known_stages(store, sorted(info.stageIds) if info else []):
            work.spilled += stage.diskBytesSpilled()
            if stage.numTasks() in (channels, 2 * channels) and stage.shuffleReadRecords():
                read = _add_seconds(work.seconds, stage, store.taskList(stage.stageId(), stage.attemptId(), 1 << 20))
                rows = rows or read
        if rows and not (work.measured and state_in_place):
            work.rows, work.measured = rows, True
    return work


def known_stages(store: Any, ids: list[int]) -> list[Any]:
    """The stages that Spark still remembers. It forgets beyond spark.ui.retainedStages, and those first that it had no need to run."""
    found = []
    for stage in ids:
        try:
            found.append(store.lastStageAttempt(stage))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.util.NoSuchElementException":
                raise
    return found


def _add_seconds(seconds: list[float], stage: Any, tasks: Any) -> list[int] | None:
    """Add the seconds of each channel's tasks; returns the rows they read from the exchange, if all of them were measured just once."""
    rows, partitions = [0] * len(seconds), []
    for i in range(tasks.size()):
        task = tasks.apply(i)
        if task.taskMetrics().isDefined() and str(task.status()) == "SUCCESS":
            metrics, channel = task.taskMetrics().get(), task.partitionId() % len(seconds)
            seconds[channel] += metrics.executorRunTime() / 1000.0
            rows[channel] += metrics.shuffleReadMetrics().recordsRead()
            partitions.append(task.partitionId())
    # After the loss of an executor some partitions are done again, in the same attempt or in another that has only those.
    once = stage.attemptId() == 0 and sorted(partitions) == list(range(stage.numTasks()))
    return rows if once else None
