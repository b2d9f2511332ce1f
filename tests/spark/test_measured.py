"""Spark's own measurements, as far as Spark remembers them."""

from __future__ import annotations

from pyspark.sql import SparkSession

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
