"""What the doctor says of a pipeline's tables and events: roots, locks and leases, stores, columns, pipeline files."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.storage.epochs import publish
from rebalance.storage.lock import writer_lock
from rebalance.stores.access import object_store
from rebalance.stores.lease import NAME, Lease
from rebalance.stores.lease import Record as LeaseRecord
from rebalance.stores.places import remember
from rebalance.view.doctor import (
    as_document,
    pipelines,
    source,
    tables,
)
from rebalance.view.doctor.findings import Check, run_checks
from tests.support.examined import EVENTS, only, pipeline_of, said, write
from tests.support.listening import answering, closed_port
from tests.support.s3 import BUCKET, S3, SECRET


def test_a_root_that_is_not_there_yet_is_well_if_it_can_be_made(tmp_path: Path) -> None:
    found = tables.tables(pipeline_of(tmp_path, tables="a/b/c"))
    assert said(found) == dict.fromkeys(("table root", "disk", "epoch", "lock"), "ok")
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").write_text("a file")
    found = tables.tables(pipeline_of(tmp_path, tables="a/b/c"))
    assert said(found) == {"table root": "fail", "epoch": "skipped", "lock": "skipped"}


@pytest.mark.skipif(os.getuid() == 0, reason="everybody but root is kept out by a folder's mode")
def test_a_root_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir(mode=0o555)
    assert said(tables.tables(pipeline_of(tmp_path)))["table root"] == "fail"


@pytest.mark.parametrize(("free", "state"), [(10**10, "ok"), (10**9, "warn"), (10**8, "fail")])
def test_a_full_disk_is_told_before_a_step_finds_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    assert tables._disk(tmp_path).state == state


def test_the_active_epoch_is_told_and_broken_tables_are_named(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    start = publish(pipeline.tables, None, kind="start", function_version=0, state_version=-1)
    publish(pipeline.tables, start, kind="process", interval_id="20260101T0000Z", function_version=0, state_version=0)
    assert only(tables.tables(pipeline), "epoch").seen.startswith("epoch 1 of interval 20260101T0000Z, published ")
    for entry in Path(pipeline.tables, "epochs", "_delta_log").glob("*.json"):
        entry.write_text("{nonsense")
    (found, *_) = [f for f in run_checks([Check("table root", lambda: tables.tables(pipeline))]) if f.state == "fail"]
    assert f"{pipeline.tables}/epochs" in found.seen


def test_who_holds_the_lock_and_since_when(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    with writer_lock(pipeline.tables):
        held = only(tables.tables(pipeline), "lock")
        assert (held.state, held.seen[:20]) == ("ok", f"held by process {os.getpid()} since"[:20])
        long_ago = time.time() - 7 * 3600
        os.utime(Path(pipeline.tables) / "_locks" / "writer.lock", (long_ago, long_ago))
        old = only(tables.tables(pipeline), "lock")
        assert (old.state, "(7 h)" in old.seen) == ("warn", True)
    # The file stays, and says nothing any more.
    assert only(tables.tables(pipeline), "lock").seen == "nobody writes now"


def on_s3(folder: Path, s3: S3, name: str) -> Pipeline:
    return pipeline_of(folder, s3.toml, tables=f"s3a://{BUCKET}/{name}", path=f"s3a://{BUCKET}/{name}-events")


def test_a_store_that_lets_us_in_and_honours_conditions_is_well_and_left_as_it_was(tmp_path: Path, s3: S3) -> None:
    pipeline = on_s3(tmp_path, s3, "doctor")
    found = tables.tables(pipeline)
    assert said(found) == dict.fromkeys(("table root", "conditional put", "epoch", "lock"), "ok")
    assert [page for page in object_store(pipeline.tables).list() if page] == []


def test_a_lease_is_held_given_back_or_of_somebody_who_has_died(tmp_path: Path, s3: S3) -> None:
    pipeline = on_s3(tmp_path, s3, "doctor-lease")
    lease = Lease(pipeline.tables, 30.0)
    lease.acquire(1)
    held = only(tables.tables(pipeline), "lock")
    assert (held.state, f"held by process {os.getpid()} on" in held.seen) == ("ok", True)
    lease.release()
    assert only(tables.tables(pipeline), "lock").seen == "nobody writes now"
    silent = LeaseRecord(7, "process 1 on gone", "", held=True, seconds=0.001)
    object_store(pipeline.tables).put(NAME, json.dumps(asdict(silent)).encode())
    time.sleep(1.1)  # the store's times are whole seconds
    stale = only(tables.tables(pipeline), "lock")
    assert (stale.state, "held by process 1 on gone" in stale.seen) == ("warn", True)


def test_a_store_that_is_not_there_is_told_in_words_without_secrets(tmp_path: Path, s3: S3) -> None:
    nowhere = S3(f"http://127.0.0.1:{closed_port()}")
    for broken, root in ((nowhere, f"s3a://{BUCKET}/doctor-closed"), (s3, "s3a://no-such-bucket/doctor")):
        found = tables.tables(pipeline_of(tmp_path, broken.toml, tables=root))
        assert said(found) == {"table root": "fail", "epoch": "skipped", "lock": "skipped"}
        assert SECRET not in json.dumps(as_document(found))


def test_a_store_that_overwrites_whatever_the_condition_is_found_out(tmp_path: Path) -> None:
    def yes_to_everything(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        return 200, {"ETag": '"1"'}, b""

    with answering(yes_to_everything) as address:
        root = f"s3a://{BUCKET}/careless"
        remember(root, S3(address).settings)
        found = tables._store(root)
    assert only(found, "conditional put").state == "fail"
    assert only(found, "conditional put").seen == "not honoured: create, swap"


# the source


def test_a_delta_table_with_the_columns_is_well_and_others_are_named(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    assert said(source.source(pipeline)) == {"source": "fail"}
    write_deltalake(pipeline.source.path, EVENTS)
    assert said(source.source(pipeline)) == {"source": "ok", "source columns": "ok"}
    write_deltalake(
        pipeline.source.path, EVENTS.rename_columns(["k", "when", "v"]), mode="overwrite", schema_mode="overwrite"
    )
    missing = only(source.source(pipeline), "source columns")
    assert (missing.state, missing.seen) == ("fail", "there is no 't'; the columns are: k, when, v")
    text = pa.table({"k": ["a"], "t": ["today"]})
    write_deltalake(pipeline.source.path, text, mode="overwrite", schema_mode="overwrite")
    assert "not a timestamp" in only(source.source(pipeline), "source columns").seen


def test_of_files_the_first_one_and_the_folders_tell_the_columns(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, source='format = "parquet"\npartitions = { day = "%Y-%m-%d" }')
    assert said(source.source(pipeline)) == {"source": "fail"}
    folder = tmp_path / "events" / "day=2026-01-01"
    folder.mkdir(parents=True)
    pq.write_table(EVENTS, folder / "_hidden.parquet")
    assert said(source.source(pipeline)) == {"source": "fail"}
    pq.write_table(EVENTS, folder / "one.parquet")
    assert said(source.source(pipeline)) == {"source": "ok", "source columns": "ok"}
    (folder / "one.parquet").write_bytes(b"cut off")
    assert source.source(pipeline)[0].state == "fail"


def test_of_text_files_the_pipeline_file_tells_the_columns(tmp_path: Path) -> None:
    declared = 'format = "csv"\ncolumns = "t TIMESTAMP, p DECIMAL(9, 2), `k` STRING"'
    pipeline = pipeline_of(tmp_path, source=declared)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "one.csv").write_text("t,p,k\n")
    columns = only(source.source(pipeline), "source columns")
    assert (columns.state, columns.seen) == ("ok", "key k; time t; 3 columns in all")


def test_events_on_s3_are_looked_at_with_the_pipeline_s_credentials(tmp_path: Path, s3: S3) -> None:
    pipeline = pipeline_of(tmp_path, s3.toml, path=f"s3a://{BUCKET}/doctor-events", source='format = "parquet"')
    assert said(source.source(pipeline)) == {"source": "fail"}
    sink = pa.BufferOutputStream()
    pq.write_table(EVENTS, sink)
    s3.client().put_object(Bucket=BUCKET, Key="doctor-events/day=1/one.parquet", Body=sink.getvalue().to_pybytes())
    assert said(source.source(pipeline)) == {"source": "ok", "source columns": "ok"}


# pipeline files


def test_every_pipeline_file_of_the_folder_is_valid_or_it_is_said_why_not(tmp_path: Path) -> None:
    (none,) = pipelines.pipeline_files(tmp_path)
    assert (none.state, "rebalance init" in none.mend) == ("warn", True)
    text = write(tmp_path).read_text()
    (tmp_path / "twin.toml").write_text('name = "shop"\n' + text)
    (tmp_path / "broken.toml").write_text(text.replace("length", "lenth"))
    found = pipelines.pipeline_files(tmp_path)
    assert [finding.state for finding in found] == ["ok", "fail", "fail"]
    assert "1 valid" in found[0].seen
    assert "'interval.lenth'. Did you mean 'length'?" in found[1].seen
    assert "twin.toml has the name 'shop', which shop.toml has" in found[2].seen


def test_a_team_s_own_operator_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace('name = "distinct"\nparameters = { value = "v" }', 'function = "own.py"'))
    (tmp_path / "own.py").write_text("RESULTS = 1 / 0\n")
    (found,) = run_checks([Check("operator", lambda: pipelines.operator(load_pipeline(file)))])
    assert found.state == "fail"
    assert "division by zero" in found.seen


# Airflow, which is asked in a process of its own
