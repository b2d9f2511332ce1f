"""What counts of the files that Spark has written: what was committed by its tasks, and nothing that a lost task leaves beside it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rebalance.errors import OvertakenError
from rebalance.storage import files
from rebalance.storage.control import version
from rebalance.storage.files import DataFile, commit_files, written_files

FOLDER = "interval_id=20260101T0000Z/1f"


def write(table: Path, name: str, rows: int) -> int:
    """A file of the folder; returns its size."""
    file = table / FOLDER / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": list(range(rows))}), file)
    return file.stat().st_size


def test_a_task_that_was_given_up_and_still_writes_adds_no_rows(tmp_path: Path) -> None:
    size = write(tmp_path / "results", "channel=0/part-0.parquet", 3)
    write(tmp_path / "results", "_temporary/0/_temporary/attempt_1/channel=0/part-0.parquet", 3)
    torn = tmp_path / "results" / FOLDER / "_temporary/0/_temporary/attempt_2/channel=0/part-1.parquet"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"PAR1")
    assert written_files(str(tmp_path), "results", FOLDER) == [DataFile(f"{FOLDER}/channel=0/part-0.parquet", size, 3)]


def test_files_without_rows_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "results", "part-0.parquet", 0)
    assert written_files(str(tmp_path), "results", FOLDER) == []


def test_of_two_that_make_a_table_at_the_same_time_one_does_and_the_other_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "results", "part-0.parquet", 3)
    root, asked, faster = str(tmp_path), files.exists, list[int]()
    columns = StructType([StructField("interval_id", StringType()), StructField("value", LongType())])

    def commit() -> int:
        found = written_files(root, "results", FOLDER)
        return commit_files(
            root, "results", columns, found, partition_by=["interval_id"], in_place_of=[], metadata={"verb": "test"}
        )

    def asleep(*what: str) -> bool:
        found = asked(*what)
        if not faster:
            faster.append(1)
            faster[:] = [commit()]
        return found

    monkeypatch.setattr(files, "exists", asleep)
    with pytest.raises(OvertakenError, match=r"another process has made it since\. Nothing was committed here"):
        commit()
    assert (faster, version(root, "results")) == ([0], 0)
