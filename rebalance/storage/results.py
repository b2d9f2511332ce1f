"""The results table: what each interval yielded, partitioned by interval_id."""

from __future__ import annotations

import json
from collections.abc import Callable

from deltalake import CommitProperties, DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from rebalance.errors import OperatorError
from rebalance.pipeline.intervals import Interval
from rebalance.storage.control import exists, table_path
from rebalance.storage.epochs import in_force
from rebalance.storage.files import commit_files, intervals_of, write_files


def write_results(results: DataFrame, root: str, interval: Interval, *, confirm: Callable[[], None]) -> None:
    """Write an interval's results in one commit, in the place of any that a killed run has left.

    `confirm` is asked just before, because writing the files takes long: it raises if the commit must not be made any more.
    """
    own = [StructField(field.name, field.dataType) for field in results.schema if field.name != "interval_id"]
    schema = StructType([StructField("interval_id", StringType()), *own])
    _check_schema(root, schema)
    files = write_files(results.drop("interval_id"), root, "results", interval.id)
    confirm()
    commit_files(
        root,
        "results",
        schema,
        files,
        partition_by=["interval_id"],
        in_place_of=[interval.id],
        metadata={"verb": "process_batch", "interval": interval.id},
    )


def drop_left_out(root: str) -> None:
    """Remove results of intervals that the newest processed one has left out: a rewind has undone and left them.

    After its epoch, because until then the rewind can be taken back; what a kill has kept from being removed, the next step removes.
    """
    newest = next((epoch for epoch in reversed(in_force(root)) if epoch.kind == "process"), None)
    if newest is None or not newest.skipped_from or not exists(root, "results"):
        return
    results = DeltaTable(table_path(root, "results"))
    if any(newest.skipped_from <= interval_id < newest.interval_id for interval_id in intervals_of(results)):
        results.delete(
            f"interval_id >= '{newest.skipped_from}' AND interval_id < '{newest.interval_id}'",
            commit_properties=CommitProperties(
                custom_metadata={"verb": "process_batch", "interval": newest.interval_id}
            ),
        )


def _check_schema(root: str, schema: StructType) -> None:
    """Refuse results whose columns are no longer those of the table."""
    if not exists(root, "results"):
        return
    stored = StructType.fromJson(json.loads(DeltaTable(table_path(root, "results")).schema().to_json()))
    ours, theirs = _types(schema), _types(stored)
    if ours != theirs:
        raise OperatorError(
            f"the operator's results have other columns than the table: {sorted(set(ours.items()) ^ set(theirs.items()))}. "
            "Restore the operator, or start with an empty table root."
        )


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema}
