"""Moving rows between channels: what the table holds afterwards, and that every kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.errors import MigrationError, OvertakenError
from rebalance.partition import KeyType
from rebalance.spark import move
from rebalance.spark.move import Moved, move_rows
from rebalance.spark.state_log import StateLog
from rebalance.storage.state import head_version

pytestmark = pytest.mark.usefixtures("few_rows")

Damage = Callable[[DataFrame], DataFrame]


#: Whether the table has deletion vectors, and what the moved keys hold by the statistics: little goes through the driver.
WAYS = {"through the driver": (True, 0), "by Spark": (True, None), "without deletion vectors": (False, 0)}
by_each_way = pytest.mark.parametrize(("vectors", "held"), WAYS.values(), ids=WAYS)


def make_state(
    spark: SparkSession, root: Path, *, vectors: bool = True, key_type: KeyType = "string", order: str = "key"
) -> str:
    """Keys 0 to 39 in two intervals of two rows each, on channel key % 4; 40 and 41 are alone on channels 4 and 5."""
    rows = [(f"i{i}", k % 4 if k < 40 else k - 36, k, n, k / 8) for i in (1, 2) for k in range(42) for n in (0, 1)]
    state = spark.createDataFrame(rows, "interval_id string, channel int, key bigint, n int, value double")
    if key_type == "string":
        state = state.withColumn("key", F.concat(F.lit("kéy '"), "key"))
    writer = state.coalesce(1).sortWithinPartitions(order).write.format("delta").partitionBy("interval_id", "channel")
    writer.option("delta.enableDeletionVectors", str(vectors).lower()).save(f"{root}/state")
    return str(root)


def moves_of(*rows: tuple[int, int, int], key_type: KeyType = "string") -> pa.Table:
    keys, origins, targets = zip(*rows, strict=True)
    named = list(keys) if key_type == "long" else [f"kéy '{key}" for key in keys]
    return pa.table(
        {"key": named, "from_channel": pa.array(origins, pa.int32()), "to_channel": pa.array(targets, pa.int32())}
    )


def moved(spark: SparkSession, root: str, moves: pa.Table, key_type: KeyType = "string", **options: Any) -> Moved:
    return move_rows(spark, root, moves, key_type=key_type, version=head_version(root), metadata="a plan", **options)


def rows_of(root: str) -> pl.DataFrame:
    found = pl.read_delta(f"{root}/state")
    return found.sort(found.columns)


def after(before: pl.DataFrame, moves: pa.Table) -> pl.DataFrame:
    """The rows as they must be."""
    targets = dict(zip(moves["key"].to_pylist(), moves["to_channel"].to_pylist(), strict=True))
    channel = pl.col("key").replace_strict(targets, default=pl.col("channel"), return_dtype=pl.Int32)
    result = before.with_columns(channel=channel)
    return result.sort(result.columns)


@pytest.mark.parametrize("key_type", ["string", "long"])
@by_each_way
def test_rows_move_there_and_back_and_nothing_else_changes(
    spark: SparkSession, tmp_path: Path, vectors: bool, held: int | None, key_type: KeyType
) -> None:
    root = make_state(spark, tmp_path, vectors=vectors, key_type=key_type)
    # The third move comes from files that hide rows of the same key already; the fourth takes channel 4 and 5 away.
    for turn, rows in enumerate(
        [
            ((0, 0, 1), (4, 0, 2), (1, 1, 0), (99, 3, 0)),
            ((0, 1, 0), (5, 1, 3)),
            ((0, 0, 1), (8, 0, 1), (1, 0, 1)),
            ((40, 4, 0), (41, 5, 1)),
        ]
    ):
        moves, before = moves_of(*rows, key_type=key_type), rows_of(root)
        result = moved(spark, root, moves, key_type, held_bytes=held)
        assert rows_of(root).equals(after(before, moves))
        assert (result.version, result.rows) == (turn + 1, 4 * sum(key < 99 for key, _, _ in rows))
        assert result.bytes > 0
    assert set(rows_of(root)["channel"].to_list()) == {0, 1, 2, 3}


@pytest.mark.parametrize("held", [None, 0], ids=["by Spark", "through the driver"])
def test_rows_of_a_key_that_do_not_lie_side_by_side_move_all_the_same(
    spark: SparkSession, tmp_path: Path, held: int | None
) -> None:
    root = make_state(spark, tmp_path, order="n")
    moves, before = moves_of((0, 0, 1), (4, 0, 2), (1, 1, 0)), rows_of(root)
    assert moved(spark, root, moves, held_bytes=held).rows == 12
    assert rows_of(root).equals(after(before, moves))


def test_what_the_driver_gets_does_not_grow_with_the_rows_of_a_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3000).select(
        F.lit("i1").alias("interval_id"), F.lit(0).alias("channel"), (F.col("id") % 3).alias("key"), "id"
    )
    rows.coalesce(1).sortWithinPartitions("key").write.format("delta").partitionBy("interval_id", "channel").option(
        "delta.enableDeletionVectors", "true"
    ).save(f"{tmp_path}/state")
    state = spark.read.format("delta").load(f"{tmp_path}/state")
    moves = spark.createDataFrame([(0, 1), (2, 1)], "key bigint, to_channel int")
    found = move.runs_of(move.find_rows(state, moves, positions=True)).sort_by("key")
    assert found.select(["key", "rows", "first", "last"]).to_pylist() == [
        {"key": 0, "rows": 1000, "first": 0, "last": 999},
        {"key": 2, "rows": 1000, "first": 2000, "last": 2999},
    ]


@by_each_way
def test_keys_without_rows_make_no_commit(spark: SparkSession, tmp_path: Path, vectors: bool, held: int | None) -> None:
    root = make_state(spark, tmp_path, vectors=vectors)
    moments: list[str] = []
    moves = moves_of((77, 0, 1), (78, 9, 8))
    assert moved(spark, root, moves, held_bytes=held, moment=moments.append) == Moved(0, 0, 0)
    assert moments == ["moves checked"]
    assert head_version(root) == 0


def test_a_crash_can_be_placed_before_and_after_the_commit(spark: SparkSession, tmp_path: Path) -> None:
    root = make_state(spark, tmp_path)
    seen: list[tuple[str, int]] = []
    moved(spark, root, moves_of((0, 0, 1)), moment=lambda name: seen.append((name, head_version(root))))
    assert seen == [("moves checked", 0), ("rows moved", 1)]


@pytest.mark.parametrize("origin", [1, 2])
def test_a_key_whose_rows_lie_on_another_touched_channel_stops_the_move(
    spark: SparkSession, tmp_path: Path, origin: int
) -> None:
    root = make_state(spark, tmp_path)
    with pytest.raises(MigrationError, match=f"'0.* on 0, planned from {origin}.*Nothing was moved"):
        moved(spark, root, moves_of((0, origin, 0), (4, 0, 3)))
    assert head_version(root) == 0


def test_a_table_that_has_gone_on_stops_the_move(spark: SparkSession, tmp_path: Path) -> None:
    root = make_state(spark, tmp_path)
    with pytest.raises(MigrationError, match="at version 0, the move was to start from 3"):
        move_rows(spark, root, moves_of((0, 0, 1)), key_type="string", version=3, metadata="a plan")


DAMAGES: dict[str, Damage] = {
    "a row is lost": lambda rows: rows.where("NOT (interval_id = 'i2' AND n = 1)"),
    "a row is doubled": lambda rows: rows.union(rows.where("interval_id = 'i2' AND n = 1")),
    "one row is lost and another doubled": lambda rows: rows.where("n = 1").union(rows.where("n = 1")),
    "a value changes": lambda rows: rows.withColumn("value", F.col("value") + F.lit(1.0)),
    "a row gets into another interval": lambda rows: rows.withColumn("interval_id", F.lit("i1")),
    "the rows go to another channel": lambda rows: rows.withColumn("channel", F.lit(3)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("vectors", [True, False])
def test_rows_written_wrongly_are_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: bool, damage: str
) -> None:
    root = make_state(spark, tmp_path, vectors=vectors)
    written, columns = "moved_rows" if vectors else "rewritten_rows", ["interval_id", "channel", "key", "n", "value"]
    right = getattr(move, written)

    def wrong(*given: DataFrame) -> DataFrame:
        rows = right(*given)
        mine = F.col("key") == "kéy '0"
        return rows.where(~mine).unionByName(DAMAGES[damage](rows.where(mine)).select(columns))

    monkeypatch.setattr(move, written, wrong)
    with pytest.raises(MigrationError, match=r"moved keys differs after the move.*old epoch stays active"):
        moved(spark, root, moves_of((0, 0, 1), (4, 0, 1)))


@pytest.mark.parametrize("damage", DAMAGES)
def test_copied_rows_written_wrongly_are_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    root = make_state(spark, tmp_path, vectors=False)
    right = move.rewritten_rows

    def wrong(state: DataFrame, moves: DataFrame) -> DataFrame:
        rows = right(state, moves)
        other = F.col("key") == "kéy '8"
        return rows.where(~other).unionByName(DAMAGES[damage](rows.where(other)))

    monkeypatch.setattr(move, "rewritten_rows", wrong)
    with pytest.raises(MigrationError, match="do not move differ"):
        moved(spark, root, moves_of((0, 0, 1), (4, 0, 1)))


@pytest.mark.parametrize(
    "positions",
    [
        pytest.param(lambda real: real[1:], id="a moved row is still there"),
        pytest.param(lambda real: np.append(real, 7), id="another row is gone"),
        pytest.param(lambda real: real + 2, id="other rows are gone instead"),
    ],
)
def test_rows_hidden_wrongly_are_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, positions: Callable[[Any], Any]
) -> None:
    root = make_state(spark, tmp_path)
    right = StateLog.hide

    def wrong(log: StateLog, hidden: dict[str, Any]) -> list[Any]:
        changed = {
            path: (file, log.bitmap(np.asarray(positions(np.array(list(bitmap.toArray()))))))
            for path, (file, bitmap) in hidden.items()
        }
        return right(log, changed)

    monkeypatch.setattr(StateLog, "hide", wrong)
    with pytest.raises(MigrationError, match="does not hide exactly the rows that moved"):
        moved(spark, root, moves_of((0, 0, 1)))


def test_a_commit_that_also_takes_a_file_of_another_channel_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_state(spark, tmp_path)
    right = StateLog.commit

    def wrong(log: StateLog, actions: list[Any], name: str) -> int:
        return right(log, [*actions, *log.drop(log.files([3]).values())], name)

    monkeypatch.setattr(StateLog, "commit", wrong)
    with pytest.raises(MigrationError, match="replaced 4 files, planned were 2"):
        moved(spark, root, moves_of((0, 0, 1)))


def test_a_commit_by_somebody_else_before_the_check_is_found(spark: SparkSession, tmp_path: Path) -> None:
    root = make_state(spark, tmp_path)

    def interfere(name: str) -> None:
        if name == "rows moved":
            DeltaTable.forPath(spark, f"{root}/state").delete("n = 1 AND channel = 3")

    with pytest.raises(MigrationError, match="became version 1 and the newest is 2"):
        moved(spark, root, moves_of((0, 0, 1)), moment=interfere)


def test_a_commit_by_somebody_else_in_the_meantime_stays_and_the_move_is_not_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = make_state(spark, tmp_path)

    def interfere(name: str) -> None:
        if name == "moves checked":
            DeltaTable.forPath(spark, f"{root}/state").delete("n = 1 AND channel = 3")

    with pytest.raises(OvertakenError, match=r"version 0 of the table state was to be followed.*Nothing was committed"):
        moved(spark, root, moves_of((0, 0, 1)), moment=interfere)
    history = DeltaTable.forPath(spark, f"{root}/state").history().collect()
    assert (history[0]["version"], history[0]["operation"]) == (1, "DELETE")


def test_the_commit_names_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    root = make_state(spark, tmp_path)
    moved(spark, root, moves_of((0, 0, 1)))
    newest = DeltaTable.forPath(spark, f"{root}/state").history(1).collect()[0]
    assert (newest["operation"], newest["userMetadata"]) == ("UPDATE", "a plan")
