"""What counts of the files that Spark has written: what was committed by its tasks, and nothing that a lost task leaves beside it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance.storage.files import DataFile, written_files

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
