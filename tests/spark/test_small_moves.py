"""Moves through the driver: the rows that fit, written and read back without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rebalance.errors import MigrationError
from rebalance.spark.move import move_rows
from rebalance.spark.small_move import MOST_BYTES, SmallRows
from rebalance.storage.state import head_version
from tests.spark.test_moves import make_state, moved, moves_of

pytestmark = pytest.mark.usefixtures("few_rows")

#: One row for each kind of column: every type that a state may have, a NaN, and nothing at all.
VALUES = """
    SELECT 'i1' AS interval_id, 0 AS channel, 'a' AS key, true AS yes, 1Y AS tiny, 2S AS small, 3 AS whole, 4L AS long, 1.5F AS single,
        double('NaN') AS nan, -0.0D AS zero, 12.34BD AS exact, CAST(1.1 AS DECIMAL(38, 10)) AS wide, DATE '1582-10-04' AS day,
        TIMESTAMP '1001-01-01 00:00:00.000001' AS time, TIMESTAMP_NTZ '9999-12-31 23:59:59.999999' AS clock, X'00FF' AS bytes, 'é' AS text
    UNION ALL SELECT 'i1', 0, 'a', null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
    UNION ALL SELECT 'i1', 0, 'b', false, 9Y, 9S, 9, 9L, 9F, 9D, 9D, 9.99BD, 9, DATE '2026-01-01', TIMESTAMP '2026-01-01', TIMESTAMP_NTZ '2026-01-01', X'', ''
"""


def state_of(spark: SparkSession, root: Path, query: str) -> None:
    writer = spark.sql(query).coalesce(1).sortWithinPartitions("key").write.format("delta")
    writer.partitionBy("interval_id", "channel").option("delta.enableDeletionVectors", "true").save(f"{root}/state")


def move_a(spark: SparkSession, root: Path) -> None:
    moves = pa.table({"key": ["a"], "from_channel": pa.array([0], pa.int32()), "to_channel": pa.array([3], pa.int32())})
    move_rows(spark, str(root), moves, key_type="string", version=0, metadata="a plan", held_bytes=0)


def test_values_of_every_type_arrive_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    state_of(spark, tmp_path, VALUES)
    state = spark.read.format("delta").load(f"{tmp_path}/state")
    before = sorted(map(str, state.drop("channel").collect()))
    move_a(spark, tmp_path)
    after = spark.read.format("delta").load(f"{tmp_path}/state")
    assert after.schema == state.schema
    assert sorted(map(str, after.drop("channel").collect())) == before
    assert {(row["key"], row["channel"]) for row in after.collect()} == {("a", 3), ("b", 0)}


def test_values_that_have_parts_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(SmallRows, "write")
    state_of(spark, tmp_path, "SELECT 'i1' AS interval_id, 0 AS channel, 'a' AS key, array(1, 2) AS list")
    move_a(spark, tmp_path)
    assert [row["channel"] for row in spark.read.format("delta").load(f"{tmp_path}/state").collect()] == [3]


def test_much_state_is_left_to_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SmallRows, "write")
    root = make_state(spark, tmp_path)
    assert moved(spark, root, moves_of((0, 0, 1)), held_bytes=MOST_BYTES + 1).rows == 4


def one_row_less(file: Path) -> None:
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.slice(1), file)


def another_value(file: Path) -> None:
    rows = pq.read_table(file, partitioning=None)
    at = rows.column_names.index("value")
    pq.write_table(rows.set_column(at, "value", pa.array([7.5] * rows.num_rows)), file)


def rows_in_another_order(file: Path) -> None:
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.take(list(range(rows.num_rows))[::-1]), file)


@pytest.mark.parametrize("damage", [one_row_less, another_value, rows_in_another_order])
def test_files_that_do_not_hold_what_was_to_move_are_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    root = make_state(spark, tmp_path)
    right = SmallRows.write

    def wrong(rows: SmallRows, table_path: str) -> list[dict[str, Any]]:
        entries = right(rows, table_path)
        damage(Path(table_path) / entries[0]["path"])
        return entries

    monkeypatch.setattr(SmallRows, "write", wrong)
    with pytest.raises(
        MigrationError, match=r"in 1 of 4 new files are not those that were to move.*old epoch stays active"
    ):
        moved(spark, root, moves_of((0, 0, 1), (1, 1, 2)), held_bytes=0)


def test_an_entry_that_names_another_partition_than_its_folder_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_state(spark, tmp_path)
    right = SmallRows.write

    def wrong(rows: SmallRows, table_path: str) -> list[dict[str, Any]]:
        first, *others = right(rows, table_path)
        return [{**first, "partitionValues": {**first["partitionValues"], "channel": "3"}}, *others]

    monkeypatch.setattr(SmallRows, "write", wrong)
    with pytest.raises(MigrationError, match="not those that were to move"):
        moved(spark, root, moves_of((0, 0, 1)), held_bytes=0)
    assert head_version(root) == 1
