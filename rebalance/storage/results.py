"""The results table: what each interval yielded, partitioned by interval_id."""

from __future__ import annotations

import json
from collections.abc import Callable

from deltalake import CommitProperties
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from rebalance.errors import OperatorError, OvertakenError
from rebalance.pipeline.intervals import Interval
from rebalance.storage.control import exists, open_table, version
from rebalance.storage.delta_log import TableFiles
from rebalance.storage.epochs import current_epoch, processed
from rebalance.storage.files import commit_files, intervals_of, write_files
from rebalance.storage.foreign import is_ours
from rebalance.storage.lock import require_lock


def write_results(
    results: DataFrame, root: str, interval: Interval, *, before: int, confirm: Callable[[], None]
) -> None:
    """Write an interval's results in one commit, in the place of any that a killed run has left.

    `before` is the table's version when the step began. `confirm` is asked just before the commit, because writing the files takes long: it
    raises if the commit must not be made any more.
    """
    own = [
        StructField(field.name, field.dataType, metadata=field.metadata)
        for field in results.schema
        if field.name != "interval_id"
    ]
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
        after=_followed(root, before),
        metadata={"verb": "process_batch", "interval": interval.id},
    )


def _followed(root: str, before: int) -> int | None:
    """The version to commit on, None if there is no table yet; refuses one that another process of ours has made meanwhile."""
    head = version(root, "results")
    if head > before:
        log = TableFiles(root, "results")
        if any(is_ours(log.actions(number)) for number in range(before + 1, head + 1)):
            raise OvertakenError(
                f"the table results was at version {before} when this step began, and another process has written to it since. "
                "Nothing was committed here. Look at `rebalance status`; if the interval is not done, run the step again."
            )
    return head if head >= 0 else None


def drop_left_out(root: str) -> None:
    """Remove results of intervals that the newest processed one has left out: a rewind has undone and left them.

    After its epoch, because until then the rewind can be taken back; what a kill has kept from being removed, the next step removes.
    """
    epoch = current_epoch(root)
    newest = processed(root, epoch.interval_id) if epoch else None
    if newest is None or not newest.skipped_from or not exists(root, "results"):
        return
    results = open_table(root, "results")
    if any(newest.skipped_from <= interval_id < newest.interval_id for interval_id in intervals_of(results)):
        require_lock(root)
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
    stored = StructType.fromJson(json.loads(open_table(root, "results").schema().to_json()))
    ours, theirs = _types(schema), _types(stored)
    if ours != theirs:
        raise OperatorError(
            f"the operator's results have other columns than the table: {sorted(set(ours.items()) ^ set(theirs.items()))}. "
            "Restore the operator, or start with an empty table root."
        )


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema}
