"""A migration's one change of the state: give the rows of moved keys their new channel, touch no other row, and prove it.

    find the rows → check the start → write them to their new channels, hide them in their old files → one commit → verify

The rows are found once: a key's rows lie side by side in a sorted file, so each such run is one record, with its place and a sum of its rows'
hashes, however many rows there are. What was found is what is hidden and what must be in the new files, so the proof needs no second look at
the channels: it reads the commit's entry in the log, the new files and the deletion vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import MigrationError
from rebalance.partition import KeyType
from rebalance.spark.fingerprint import (
    ROLLED_BACK,
    check_commit,
    check_end,
    check_kept,
    check_start,
    fingerprint,
    per_key,
    per_partition,
    row_hash,
)
from rebalance.spark.small_move import SmallRows, fits
from rebalance.spark.state_log import DataFile, StateLog, files_at, state_log
from rebalance.storage.schemas import arrow_key

#: Beside a state's own columns, which may have any plain name.
_FILE, _POSITION, _TARGET = "_moved_file", "_moved_position", "_moved_to"
#: New files are written by at most this many tasks, each for its own partitions of the table.
_WRITERS = 32


@dataclass(frozen=True)
class Moved:
    """What a migration did to the state."""

    #: Version of the state after it; the one it started from if no moved key has rows.
    version: int
    #: Rows that changed their channel.
    rows: int
    #: Bytes of the data files written.
    bytes: int


def typed_moves(moves: pa.Table, key_type: KeyType) -> pa.Table:
    """The stored moves with keys of the state's own type."""
    return pa.table(
        {
            "key": moves["key"].cast(arrow_key(key_type)),
            "from_channel": moves["from_channel"],
            "to_channel": moves["to_channel"],
        }
    )


def move_rows(
    spark: SparkSession,
    root: str,
    moves: pa.Table,
    *,
    key_type: KeyType,
    version: int,
    metadata: str,
    held_bytes: int | None = None,
    moment: Callable[[str], None] = lambda name: None,
) -> Moved:
    """Move the rows of keys from the state's newest version, which is `version`, in one verified commit.

    `metadata` names the plan in the commit's history. `held_bytes` is what the keys hold by
    the statistics, if that is known: little goes through the driver, which is faster. `moment` is told when the moves are
    checked and when the rows are moved.
    """
    with state_log(spark, root) as log:
        if log.version != version:
            raise MigrationError(
                f"the state is at version {log.version}, the move was to start from {version}. Nothing was moved. Run the step again."
            )
        migration = _Move(log, typed_moves(moves, key_type), held_bytes)
        try:
            planned = check_start(per_key(migration.runs), migration.moves)
            moment("moves checked")
            if not planned.num_rows:
                return Moved(version, 0, 0)
            committed = log.commit(migration.change(), metadata)
        finally:
            migration.release()
        moment("rows moved")
        return migration.verify(planned, committed)


class _Move:
    """The moved rows, where they lie and where they go."""

    def __init__(self, log: StateLog, moves: pa.Table, held_bytes: int | None) -> None:
        self.log, self.moves = log, moves
        self.frame = F.broadcast(log.spark.createDataFrame(moves))
        files = log.files(moves["from_channel"].to_pylist())
        state = log.read(files.values())
        self.rows = find_rows(state, self.frame, positions=log.hides_rows)
        self.small: SmallRows | None = None
        if log.hides_rows and fits(state, held_bytes):
            self.small = SmallRows(self.rows, _FILE, _POSITION, _TARGET)
            self.runs = self.small.runs
        else:
            #: Kept, so that the channels are read once: first they are described, then written.
            self.rows = self.rows.persist()
            self.runs = runs_of(self.rows)
        #: The files with moved rows, and all rows that they hide afterwards, if they do not go as a whole.
        self.touched: dict[str, tuple[DataFile, Any]] = {}
        places = self.runs["file"].combine_chunks().dictionary_encode()
        codes, names = places.indices.to_numpy(), places.dictionary.to_pylist()
        in_order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(names)))
        for file, name, rows in zip(files_at(names, files), names, np.split(in_order, ends[:-1]), strict=False):
            bitmap = log.hidden(file.add)
            if log.hides_rows:
                bitmap.merge(log.bitmap(self._positions(name, self.runs.take(rows))))
            self.touched[file.path] = (file, bitmap)

    def _positions(self, file: str, runs: pa.Table) -> npt.NDArray[np.int64]:
        """Where in a file the moved rows are."""
        first, rows = (runs[name].to_numpy() for name in ("first", "rows"))
        if np.any(runs["last"].to_numpy() - first + 1 != rows):
            # Somebody else has written it, in another order: row by row, then.
            return positions_in(self.rows, file)
        before: npt.NDArray[np.int64] = np.cumsum(rows) - rows
        return np.repeat(first - before, rows) + np.arange(rows.sum())

    def release(self) -> None:
        """Let go of what was kept."""
        if self.small is None:
            self.rows.unpersist()

    @property
    def old_files(self) -> list[DataFile]:
        """The files with moved rows, as they were before."""
        return [file for file, _ in self.touched.values()]

    def change(self) -> list[Any]:
        """The new files and what becomes of the old ones."""
        if self.small:
            return [*self.log.adds(self.small.write(self.log.path)), *self.log.hide(self.touched)]
        targets = len(self.old_files) + len(set(self.moves["to_channel"].to_pylist()))
        if self.log.hides_rows:
            return [*self.log.write(compact(moved_rows(self.rows), targets)), *self.log.hide(self.touched)]
        rows = self.log.read(self.old_files)
        return [*self.log.write(compact(rewritten_rows(rows, self.frame), targets)), *self.log.drop(self.old_files)]

    def verify(self, planned: pa.Table, committed: int) -> Moved:
        """Refuse the commit if storage does not hold exactly what was planned."""
        if not self.log.version + 1 == committed == self.log.newest:
            raise MigrationError(
                f"the move from version {self.log.version} became version {committed} and the newest is {self.log.newest}: "
                f"somebody else writes the state. {ROLLED_BACK}"
            )
        old, new = check_commit(
            self.log.actions(committed), {path: file.add for path, (file, _) in self.touched.items()}
        )
        written = self.log.read([DataFile(add) for add in new])
        if self.log.hides_rows:
            self._check_hidden(old)
        if self.small:
            self.small.check(self.log.path, new)
        elif self.log.hides_rows:
            check_end(planned, per_key(fingerprints(written)))
        else:
            stay = [rows.join(self.frame, "key", "left_anti") for rows in (self.log.read(self.old_files), written)]
            check_kept(per_partition(stay[0]), per_partition(stay[1]))
            check_end(planned, per_key(fingerprints(written.join(self.frame, "key", "left_semi"))))
        return Moved(committed, pc.sum(planned["rows"]).as_py(), sum(add["size"] for add in new))

    def _check_hidden(self, old: list[dict[str, Any]]) -> None:
        """Refuse old files that hide other rows than the moved ones and those they hid before."""
        hidden = {add["path"]: self.log.hidden(add) for add in old}
        for path, (file, expected) in self.touched.items():
            # A file of which every row has moved is gone from the table.
            right = hidden[path].equals(expected) if path in hidden else expected.cardinality() == file.records
            if not right:
                raise MigrationError(f"{path} does not hide exactly the rows that moved. {ROLLED_BACK}")


def find_rows(state: DataFrame, moves: DataFrame, *, positions: bool) -> DataFrame:
    """The rows of the moved keys wherever they lie in these channels: where each one is, and where it goes."""
    # Delta knows positions only in tables that may hide rows.
    position = F.col("_metadata.row_index") if positions else F.lit(0).cast("bigint")
    placed = state.select("*", F.col("_metadata.file_path").alias(_FILE), position.alias(_POSITION))
    found = placed.join(moves.select("key", F.col("to_channel").alias(_TARGET)), "key")
    return found.select(*placed.columns, _TARGET)


def runs_of(rows: DataFrame) -> pa.Table:
    """Found rows by key and file: number, fingerprint, first and last position."""
    ends = (F.min(_POSITION).alias("first"), F.max(_POSITION).alias("last"))
    runs = rows.groupBy("key", "channel", F.col(_FILE).alias("file"))
    return runs.agg(*fingerprint(row_hash(rows.drop(_FILE, _POSITION, _TARGET))), *ends).toArrow()


def positions_in(rows: DataFrame, file: str) -> npt.NDArray[np.int64]:
    """The position of each found row of one file."""
    found: npt.NDArray[np.int64] = rows.where(F.col(_FILE) == file).select(_POSITION).toArrow()[_POSITION].to_numpy()
    return found


def moved_rows(rows: DataFrame) -> DataFrame:
    """Found rows on their new channels, as they stand in the table."""
    return rows.withColumn("channel", F.col(_TARGET)).drop(_FILE, _POSITION, _TARGET)


def rewritten_rows(state: DataFrame, moves: DataFrame) -> DataFrame:
    """All rows of these files, those to move on their new channels."""
    targets = moves.select("key", F.col("from_channel").alias("channel"), F.col("to_channel").alias(_TARGET))
    return (
        state.join(targets, ["key", "channel"], "left")
        .withColumn("channel", F.coalesce(_TARGET, "channel"))
        .select(state.columns)
    )


def fingerprints(rows: DataFrame) -> pa.Table:
    """Rows and checksum of each key on each channel, in parts."""
    return rows.groupBy("key", "channel").agg(*fingerprint(row_hash(rows))).toArrow()


def compact(rows: DataFrame, targets: int) -> DataFrame:
    """One file for each partition of the table, sorted by key like those that processing writes."""
    writers = min(targets, _WRITERS)
    return rows.repartition(writers, "interval_id", "channel").sortWithinPartitions("interval_id", "channel", "key")
