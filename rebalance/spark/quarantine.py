"""Bad rows put aside, in the table `quarantine`: once for an interval, however often it is tried."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.events import bad_rows
from rebalance.storage import control
from rebalance.storage.files import DataFile, commit_files, write_files
from rebalance.storage.quarantine import quarantined
from rebalance.stores.places import for_spark

_TABLE = "quarantine"
_COLUMNS = StructType(
    [
        *(StructField(name, StringType()) for name in ("interval_id", "reason", "row", "file")),
        StructField("quarantined_at", TimestampType()),
    ]
)


def put_aside(
    source: DataFrame, pipeline: Pipeline, interval: Interval, *, confirm: Callable[[], None]
) -> dict[str, int]:
    """Put the interval's bad rows in the place of those that an earlier try has left; returns how many there are, by reason.

    `confirm` is asked just before the commit: it raises if that must not be made any more.
    """
    root = pipeline.tables
    bad = bad_rows(source, pipeline, interval)
    files: list[DataFile] = []
    # Asked first: a write leaves files behind even if there is nothing to write.
    if not bad.isEmpty():
        content = _not_there_yet(bad, root, interval).select(
            "reason", "row", "file", F.current_timestamp().alias("quarantined_at")
        )
        files = write_files(content, root, _TABLE, interval.id)
    if files or quarantined(root, [interval.id]):
        confirm()
        commit_files(
            root,
            _TABLE,
            _COLUMNS,
            files,
            partition_by=["interval_id"],
            in_place_of=[interval.id],
            metadata={"verb": "process_batch", "interval": interval.id},
        )
    return quarantined(root, [interval.id]).get(interval.id, {})


def _not_there_yet(bad: DataFrame, root: str, interval: Interval) -> DataFrame:
    """Without those that every interval meets which reads their file, if an earlier one has put them aside."""
    if not control.exists(root, _TABLE) or bad.where(~F.col("own")).isEmpty():
        return bad
    stored = bad.sparkSession.read.format("delta").load(for_spark(control.table_path(root, _TABLE)))
    earlier = stored.where(F.col("interval_id") < interval.id).select("file", "row", F.lit(False).alias("own"))
    return bad.join(earlier, ["file", "row", "own"], "left_anti")
