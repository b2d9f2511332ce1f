"""A pipeline's tables as Airflow's assets, so that other DAGs run when there is something new in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import Asset

from rebalance.airflow import GROUP
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import RESULTS

#: Which tables a step leaves something new in.
WRITTEN = {
    "collect_stats": ("interval_stats", "key_stats", "channel_stats"),
    "check_quality": ("quality_runs",),
    "make_plan": ("plans", "plan_moves", "functions"),
    "migrate_state": ("state", "epochs"),
    RESULTS: ("results", "batches", "state", "epochs"),
}
#: The steps that read the source.
READING = ("collect_stats", RESULTS)


def asset_of(pipeline: Pipeline | str | Path, table: str) -> Asset:
    """A table of a pipeline, or of a pipeline file, as an asset: `schedule=[asset_of("demo.toml", "results")]`."""
    known = pipeline if isinstance(pipeline, Pipeline) else load_pipeline(pipeline)
    return Asset(f"{known.dag_id}.{table}", _uri(f"{known.tables.rstrip('/')}/{table}"), group=GROUP)


def source_of(pipeline: Pipeline) -> Asset:
    """What a pipeline reads.

    An asset of the pipeline's own, with an address that no other has: of two assets with one address Airflow lets one be, and fails the
    tasks that name the other.
    """
    source = pipeline.source
    place = _uri(source.path) if source.path else source.table
    return Asset(f"{pipeline.dag_id}.source", f"{place}?read_by={pipeline.dag_id}", group=GROUP)


def _uri(path: str) -> str:
    return path if "://" in path else Path(path).as_uri()


def assets_of(pipeline: Pipeline, step: str) -> list[Asset]:
    """What a step writes."""
    return [asset_of(pipeline, table) for table in WRITTEN[step]]


def describe_events(pipeline: Pipeline, interval: Interval, step: str, outlet_events: Any) -> None:
    """Say with each asset's event which interval, epoch and versions it is about."""
    # Imported here: Airflow reads this module with every DAG file.
    from rebalance.storage import control
    from rebalance.storage.epochs import current_epoch

    epoch = current_epoch(pipeline.tables)
    for table in WRITTEN[step]:
        outlet_events[asset_of(pipeline, table)].extra = {
            "pipeline": pipeline.name,
            "step": step,
            "interval": interval.id,
            "interval_start": interval.start.isoformat(),
            "interval_end": interval.end.isoformat(),
            "version": control.version(pipeline.tables, table),
            "epoch": epoch.epoch if epoch else None,
            "function_version": epoch.function_version if epoch else None,
            "state_version": epoch.state_version if epoch else None,
        }
