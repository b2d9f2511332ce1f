"""What a step did in numbers: for Airflow's own metrics (StatsD, OpenTelemetry, or whatever it is set up with), and for the run's note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.observability import stats

from rebalance.pipeline.file import Pipeline
from rebalance.steps import RESULTS

if TYPE_CHECKING:
    from rebalance.storage.history import IntervalRecord


def emit(pipeline: Pipeline, step: str, seconds: float, record: IntervalRecord | None) -> None:
    """The step's seconds; and with the results, how even the channels were and what was moved for it."""
    name = f"rebalance.{pipeline.name}"
    stats.timing(f"{name}.{step}.seconds", seconds * 1000)
    if step != RESULTS or record is None:
        return
    stats.gauge(f"{name}.max_over_mean.hash", record.without)
    stats.gauge(f"{name}.max_over_mean.reached", record.reached)
    if record.predicted is not None:
        stats.gauge(f"{name}.max_over_mean.planned", record.predicted)
    stats.gauge(f"{name}.bytes_moved", record.moved_bytes if record.applied else 0.0)


def summary_of(record: IntervalRecord) -> str:
    """An interval in one line: what the hash alone would have loaded, what was reached, and what that took."""
    loads = f"fullest channel {record.without:.2f} × the mean by hash → **{record.reached:.2f}** reached; "
    if record.applied:
        plan = f"{record.moved_keys:,} keys, {record.moved_bytes:,.0f} bytes moved: {record.reason}"
    elif record.decision == "apply":
        plan = f"planned, not carried out: {record.reason}"
    else:
        plan = f"{record.decision}: {record.reason}" if record.decision else "not planned"
    return f"{record.rows:,} events; {loads if record.hash_loads else ''}{plan}"
