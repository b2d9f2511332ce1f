"""The small tables: atomic, replaceable by interval, empty before they are written."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rebalance.errors import LockedError, OvertakenError, RebalanceError
from rebalance.partition import KeyType, PartitionFunction, consistent_ring
from rebalance.storage import control
from rebalance.storage.epochs import (
    all_epochs,
    carried_out,
    current_epoch,
    load_function,
    processed,
    publish,
    store_function,
)
from rebalance.storage.lock import writer_lock
from rebalance.storage.reader import open_tables
from rebalance.storage.schemas import SCHEMAS, schema_of
from rebalance.storage.statistics import read_key_stats
from tests.support.budget import cases


def batch(interval: str, rows: int) -> dict[str, Any]:
    return {"interval_id": interval, "rows": rows, "seconds": 1.0, "task_seconds": [0.5]}


def answer(number: int) -> dict[str, Any]:
    return {"plan_id": f"{number:02}", "answered_at": datetime(2026, 1, 1, tzinfo=UTC)}


def test_a_table_that_was_never_written_is_empty(tmp_path: Path) -> None:
    for table, schema in SCHEMAS.items():
        found = control.read(str(tmp_path), table, interval_id="a")
        assert (found.num_rows, found.column_names) == (0, schema.names)
    assert control.rows(str(tmp_path), "batches", interval_id="a") == []


@pytest.mark.parametrize(("key_type", "keys"), [("string", pa.string()), ("long", pa.int64())])
def test_the_keys_of_a_table_that_was_never_written_have_the_type_of_the_functions(
    tmp_path: Path, key_type: KeyType, keys: pa.DataType
) -> None:
    root = str(tmp_path)
    store_function(root, PartitionFunction(version=0, channels=2, slots=consistent_ring(2), key_type=key_type), "")
    assert control.read(root, "key_stats").schema == schema_of("key_stats", key_type)
    assert control.read(root, "state", columns=["key"]).schema.types == [keys]
    assert read_key_stats(root, "a")["key"].type == keys


def test_replacing_an_interval_leaves_the_others_alone(tmp_path: Path) -> None:
    root = str(tmp_path)
    for interval, rows in (("a", 1), ("b", 2), ("a", 3)):
        control.replace(root, "batches", [batch(interval, rows)], interval_id=interval)
    assert sorted((row["interval_id"], row["rows"]) for row in control.rows(root, "batches")) == [("a", 3), ("b", 2)]


@pytest.mark.parametrize("name", ["it's", 'say "x"', "a'; --", "ünï", ""])
def test_values_with_quotes_are_values_and_nothing_else(tmp_path: Path, name: str) -> None:
    root = str(tmp_path)
    control.append(root, "batches", [batch("other", 1), batch(name, 2)])
    control.replace(root, "batches", [batch(name, 3)], interval_id=name)
    assert [row["rows"] for row in control.rows(root, "batches", interval_id=name)] == [3]
    assert control.read(root, "batches").num_rows == 2


def test_many_commits_are_compacted_into_few_files(tmp_path: Path) -> None:
    root = str(tmp_path)
    for number in range(120):
        control.append(root, "batches", [batch(f"{number:03}", number)])
    assert len(DeltaTable(control.table_path(root, "batches")).file_uris()) < 60
    assert control.read(root, "batches").num_rows == 120


def test_two_that_compact_a_table_at_the_same_time_double_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, opened, faster = str(tmp_path), control.open_table, list[int]()
    for number in range(50):
        control.append(root, "approvals", [answer(number)])

    def asleep(*what: Any) -> DeltaTable:
        found = opened(*what)
        if found.version() == 50 and not faster:
            faster.append(opened(*what).optimize.compact()["numFilesRemoved"])
        return found

    monkeypatch.setattr(control, "open_table", asleep)
    control.append(root, "approvals", [answer(50)])
    assert faster == [51]
    assert sorted(row["plan_id"] for row in control.rows(root, "approvals")) == [f"{number:02}" for number in range(51)]
    assert len(opened(root, "approvals").file_uris()) == 1


#: Adds so many answers.
WRITER = """
import sys
from datetime import UTC, datetime
from rebalance.storage import control

root, name, count = sys.argv[1:]
for number in range(int(count)):
    control.append(root, "approvals", [{"plan_id": f"{name}{number:03}", "answered_at": datetime(2026, 1, 1, tzinfo=UTC)}])
"""


def test_rows_that_two_add_at_the_same_time_are_all_there_once_while_the_table_is_compacted(tmp_path: Path) -> None:
    root, count = str(tmp_path), cases(130, long=1000)
    command = [sys.executable, "-c", WRITER, root]
    writers = [subprocess.Popen([*command, name, str(count)]) for name in "ab"]
    assert [writer.wait(timeout=600) for writer in writers] == [0, 0]
    found = sorted(row["plan_id"] for row in control.rows(root, "approvals"))
    assert found == [f"{name}{number:03}" for name in "ab" for number in range(count)]
    assert len(control.open_table(root, "approvals").file_uris()) < 2 * count


def test_rows_that_cannot_be_replaced_because_somebody_else_has_are_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, write = str(tmp_path), control.write_deltalake
    control.append(root, "batches", [batch("a", 1)])

    def asleep(path: str, *what: Any, **how: Any) -> None:
        seen = DeltaTable(path)
        write(path, *what, **how)
        write(seen, *what, **how)

    monkeypatch.setattr(control, "write_deltalake", asleep)
    with pytest.raises(OvertakenError, match="another process has written to the table batches while this one did"):
        control.replace(root, "batches", [batch("a", 2)], interval_id="a")
    monkeypatch.undo()
    assert [row["rows"] for row in control.rows(root, "batches")] == [2]


def test_the_highest_epoch_is_the_active_one(tmp_path: Path) -> None:
    root = str(tmp_path)
    function = store_function(root, PartitionFunction(version=0, channels=2, slots=consistent_ring(2)), "")
    start = publish(root, None, kind="start", function_version=function.version, state_version=-1)
    after = publish(root, start, kind="process", interval_id="a", function_version=0, state_version=0)
    assert current_epoch(root) == after
    assert [epoch.epoch for epoch in all_epochs(root)] == [0, 1]
    assert (processed(root, "a"), processed(root, "b")) == (after, None)
    assert (carried_out(root, ["a plan"]), carried_out(root, [])) == ([], [])
    assert (datetime.now(UTC) - after.published_at).total_seconds() < 60
    assert open_tables(root).epoch == after
    assert open_tables(root, epoch=0).epoch == start


def test_an_epoch_that_follows_an_old_one_is_refused(tmp_path: Path) -> None:
    root = str(tmp_path)
    start = publish(root, None, kind="start", function_version=0, state_version=-1)
    publish(root, start, kind="process", interval_id="a", function_version=0, state_version=0)
    with pytest.raises(OvertakenError, match="1 is active now"):
        publish(root, start, kind="process", interval_id="b", function_version=0, state_version=0)


def test_tables_without_an_epoch_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(RebalanceError, match="no interval was processed yet"):
        open_tables(str(tmp_path))


def test_a_function_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    root = str(tmp_path)
    function = PartitionFunction(version=0, channels=3, slots=consistent_ring(3), routes={"ö": 1, "b": 2})
    stored = store_function(root, function, "a")
    assert load_function(root, stored.version).digest() == function.digest()


def test_only_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        writer_lock(str(tmp_path)),
        pytest.raises(LockedError, match="process"),
        writer_lock(str(tmp_path), patience=0.2),
    ):
        pass
    with writer_lock(str(tmp_path), patience=0.2):
        pass
