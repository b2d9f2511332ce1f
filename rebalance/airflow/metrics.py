"""What a step did, for Airflow's own metrics: StatsD, OpenTelemetry, or whatever Airflow is set up with; nothing where it is not."""

from __future__ import annotations

from airflow.sdk.observability import stats

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import RESULTS
from rebalance.storage.history import read_history


def emit(pipeline: Pipeline, interval: Interval, step: str, seconds: float) -> None:
    """The step's seconds; and with the results, how even the channels were and what was moved for it."""
    name = f"rebalance.{pipeline.name}"
    stats.timing(f"{name}.{step}.seconds", seconds * 1000)
    if step != RESULTS:
        return
    for record in read_history(pipeline.tables, 1):
        if record.interval_id != interval.id:
            continue
        stats.gauge(f"{name}.max_over_mean.hash", record.without)
        stats.gauge(f"{name}.max_over_mean.reached", record.reached)
        if record.predicted is not None:
            stats.gauge(f"{name}.max_over_mean.planned", record.predicted)
        stats.gauge(f"{name}.bytes_moved", record.moved_bytes if record.applied else 0.0)
