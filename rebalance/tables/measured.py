"""Spark's own measurements: how long the task of each channel ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

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
    """Seconds each channel's task ran in the group's writing stage, where the operator works; partition = channel.

    The writing stage is the one that wrote records: Delta's own look-ups in the same group write none. Zeros when nothing was
    written, for example in an interval without rows.
    """
    jsc = spark.sparkContext._jsc.sc()
    jsc.listenerBus().waitUntilEmpty(_WAIT_MS)
    store = jsc.statusStore()
    tracker = spark.sparkContext.statusTracker()
    seconds = [0.0] * channels
    for job in sorted(tracker.getJobIdsForGroup(group)):
        info = tracker.getJobInfo(job)
        for stage in sorted(info.stageIds) if info else ():
            last = store.lastStageAttempt(stage)
            if last.outputRecords() == 0 or last.numTasks() != channels:
                continue
            tasks = store.taskList(stage, last.attemptId(), 1 << 20)
            for i in range(tasks.size()):
                task = tasks.apply(i)
                if task.taskMetrics().isDefined() and str(task.status()) == "SUCCESS":
                    seconds[task.partitionId()] = task.taskMetrics().get().executorRunTime() / 1000.0
    return seconds
