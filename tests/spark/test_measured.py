"""Spark's own measurements, as far as Spark remembers them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from rebalance.spark import task_times
from rebalance.spark.task_times import channel_work, job_group, known_stages


def test_stages_that_spark_has_forgotten_are_left_out(spark: SparkSession) -> None:
    """A long session meets them: beyond spark.ui.retainedStages Spark forgets, and first the stages it had no need to run."""
    with job_group(spark, "a job") as group:
        spark.range(10).count()
        work = channel_work(spark, group, 2)
    assert (work.rows, work.seconds, work.measured) == ([0, 0], [0.0, 0.0], False)
    tracker = spark.sparkContext.statusTracker()
    info = tracker.getJobInfo(tracker.getJobIdsForGroup(group)[0])
    assert info is not None
    own = sorted(info.stageIds)
    store = spark.sparkContext._jsc.sc().statusStore()
    never = 1_000_000_000
    assert [stage.stageId() for stage in known_stages(store, [*own, never])] == own


def test_a_listener_bus_that_is_behind_leaves_the_work_unmeasured_and_fails_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # It cannot have kept up with a job before it was asked.
    monkeypatch.setattr(task_times, "_WAIT_MS", -1)
    with job_group(spark, "a job") as group:
        spark.range(1000, numPartitions=100).repartition(2).count()
        work = channel_work(spark, group, 2)
    if work.measured:
        pytest.fail("the bus was not behind")
    assert (work.rows, work.seconds) == ([0, 0], [0.0, 0.0])
    assert "the channels' tasks were not measured" in caplog.text


def test_tasks_that_were_run_again_leave_the_rows_unknown_and_not_doubled(spark: SparkSession) -> None:
    with job_group(spark, "a job") as group:
        spark.range(100).repartition(2).foreach(lambda row: None)
        work = channel_work(spark, group, 2)
        assert (sum(work.rows), work.measured) == (100, True)
        store = spark.sparkContext._jsc.sc().statusStore()
        info = spark.sparkContext.statusTracker().getJobInfo(
            spark.sparkContext.statusTracker().getJobIdsForGroup(group)[0]
        )
    assert info is not None
    (stage,) = [found for found in known_stages(store, sorted(info.stageIds)) if found.shuffleReadRecords()]
    tasks = store.taskList(stage.stageId(), stage.attemptId(), 10)
    assert task_times._add_seconds([0.0, 0.0], stage, tasks) == work.rows
    assert task_times._add_seconds([0.0, 0.0], stage, tasks.take(1)) is None, "one is not known"
    assert task_times._add_seconds([0.0, 0.0], stage, tasks.concat(tasks.take(1))) is None, "one was run twice"
