"""Spark's own measurements, as far as Spark remembers them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from pyspark.java_gateway import ensure_callback_server_started
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


class Busy:
    """A listener of Spark's that is not through with its first event before it is told to be."""

    class Java:
        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)

    def __init__(self) -> None:
        self.through = threading.Event()

    def __getattr__(self, event: str) -> Callable[[object], None]:
        return lambda what: self.through.wait(60) and None


@pytest.fixture
def busy(spark: SparkSession) -> Iterator[None]:
    """A listener bus that is behind for as long as a test lasts."""
    context, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    listener = Busy()
    context.addSparkListener(listener)
    try:
        yield
    finally:
        listener.through.set()
        context.listenerBus().waitUntilEmpty(60_000)
        context.removeSparkListener(listener)


@pytest.mark.usefixtures("busy")
def test_a_listener_bus_that_is_behind_leaves_the_work_unmeasured_and_fails_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_times, "_WAIT_MS", 100)
    with job_group(spark, "a job") as group:
        assert spark.range(1000).repartition(2).count() == 1000
        work = channel_work(spark, group, 2)
    assert (work.rows, work.seconds, work.measured) == ([0, 0], [0.0, 0.0], False)
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
