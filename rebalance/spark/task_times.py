"""Spark's own measurements: how long the task of each channel ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

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


def task_seconds(spark: SparkSession, group: str, channels: int) -> list[float]:
    """Seconds each channel's tasks ran in the group's writing job, where the operator works; partition = channel.

    The writing job is the one that wrote records: Delta's own look-ups in the same group write none. Its stages after the placement
    are one task per channel; with split keys there is one more that makes their partial states, and the last may have two tasks per
    channel, one for whole keys and one for split ones. Zeros when nothing was written, for example in an interval without rows.
    """
    jsc = spark.sparkContext._jsc.sc()
    jsc.listenerBus().waitUntilEmpty(_WAIT_MS)
    store = jsc.statusStore()
    tracker = spark.sparkContext.statusTracker()
    seconds = [0.0] * channels
    for job in sorted(tracker.getJobIdsForGroup(group)):
        info = tracker.getJobInfo(job)
        stages = known_stages(store, sorted(info.stageIds) if info else [])
        if not any(stage.outputRecords() for stage in stages):
            continue
        for stage in stages:
            if _on_channels(stage, channels):
                _add_tasks(seconds, store.taskList(stage.stageId(), stage.attemptId(), 1 << 20))
    return seconds


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


def _on_channels(stage: Any, channels: int) -> bool:
    """Whether a stage works on placed rows: it writes the result, or reads one exchange and feeds the next."""
    tasks = stage.numTasks()
    if stage.outputRecords():
        return bool(tasks in (channels, 2 * channels))
    return bool(tasks == channels and stage.shuffleReadRecords() and stage.shuffleWriteRecords())


def _add_tasks(seconds: list[float], tasks: Any) -> None:
    for i in range(tasks.size()):
        task = tasks.apply(i)
        if task.taskMetrics().isDefined() and str(task.status()) == "SUCCESS":
            seconds[task.partitionId() % len(seconds)] += task.taskMetrics().get().executorRunTime() / 1000.0
