"""State whose partitions are in pieces, or hide many rows, written anew: the same rows, one file each, sorted by key.

Every migration leaves a deletion vector in the files that rows leave and a further file where they go. A state with a long window, or none,
would be read from ever more of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from rebalance.errors import MigrationError
from rebalance.spark.fingerprint import ROLLED_BACK, check_commit, check_kept, per_partition
from rebalance.spark.move import compact
from rebalance.spark.state_log import DataFile, state_log
from rebalance.storage.delta_log import hidden_rows

#: A lone file is written anew if it hides at least this share of its rows.
HIDDEN_SHARE = 0.1

Partition = tuple[str, int]


@dataclass(frozen=True)
class Rewritten:
    """What was done to the state."""

    version: int
    rows: int
    #: Files, and rows that they hid, before; files after, and the bytes written.
    old_files: int
    hidden: int
    new_files: int
    bytes: int


def fragmented(files: Mapping[str, dict[str, Any]]) -> dict[Partition, list[DataFile]]:
    """The files, by interval and channel, that should be written anew; by the log alone."""
    parts: dict[Partition, list[DataFile]] = defaultdict(list)
    for add in files.values():
        file = DataFile(add)
        parts[file.partition].append(file)
    return {partition: found for partition, found in sorted(parts.items()) if len(found) > 1 or _hides_many(found[0])}


def _hides_many(file: DataFile) -> bool:
    hidden = hidden_rows(file.add)
    return hidden > 0 and hidden >= HIDDEN_SHARE * file.records


def rewrite(
    spark: SparkSession,
    root: str,
    partitions: Collection[Partition],
    *,
    version: int,
    moment: Callable[[str], None] = lambda name: None,
) -> Rewritten:
    """Write partitions of the state's newest version, which is `version`, anew, in one verified commit that changes no data."""
    comment = json.dumps({"verb": "maintain"})
    with state_log(spark, root) as log:
        if log.version != version:
            raise MigrationError(
                f"the state is at version {log.version}, it was to be rewritten from {version}. Nothing was done. Run maintain again."
            )
        channels = {channel for _, channel in partitions}
        old = {path: file for path, file in log.files(channels).items() if file.partition in partitions}
        rows = log.read(old.values())
        before = per_partition(rows)
        actions = log.replace(old.values(), compact(rows, len(partitions)))
        moment("files written")
        committed = log.commit(actions, comment, changes_data=False)
        moment("state rewritten")
        if not version + 1 == committed == log.newest:
            raise MigrationError(
                f"the rewritten state became version {committed} after {version}, and the newest is {log.newest}: somebody else writes it. "
                f"{ROLLED_BACK}"
            )
        _, new = check_commit(log.actions(committed), {path: file.add for path, file in old.items()})
        check_kept(before, per_partition(log.read([DataFile(add) for add in new])))
    return Rewritten(
        version=committed,
        rows=pc.sum(before["rows"]).as_py() or 0,
        old_files=len(old),
        hidden=sum(hidden_rows(file.add) for file in old.values()),
        new_files=len(new),
        bytes=sum(add["size"] for add in new),
    )
