"""Spark's own measurements, as far as Spark remembers them."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rebalance.spark.task_times import job_group, known_stages, task_seconds


def test_stages_that_spark_has_forgotten_are_left_out(spark: SparkSession) -> None:
    """A long session meets them: beyond spark.ui.retainedStages Spark forgets, and first the stages it had no need to run."""
    with job_group(spark, "a job") as group:
        spark.range(10).count()
        assert task_seconds(spark, group, 2) == [0.0, 0.0]
    tracker = spark.sparkContext.statusTracker()
    info = tracker.getJobInfo(tracker.getJobIdsForGroup(group)[0])
    assert info is not None
    own = sorted(info.stageIds)
    store = spark.sparkContext._jsc.sc().statusStore()
    never = 1_000_000_000
    assert [stage.stageId() for stage in known_stages(store, [*own, never])] == own
