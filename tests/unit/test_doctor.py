"""`rebalance doctor`: everything it looks at, well and broken on purpose; no check stops or holds up another, and no secret is shown."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from rich.console import Console

from rebalance.cli import main
from rebalance.demo.in_process import airflow_environment
from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.spark import environment
from rebalance.spark.jars import S3_PACKAGES, S3_SUMS, expected_sums
from rebalance.spark.warm import FOLDER_VARIABLE
from rebalance.spark.warm_jvm import Record, Running
from rebalance.storage.epochs import publish
from rebalance.storage.lock import writer_lock
from rebalance.stores.access import object_store
from rebalance.stores.lease import NAME, Lease
from rebalance.stores.lease import Record as LeaseRecord
from rebalance.stores.places import remember
from rebalance.view.doctor import (
    airflow,
    as_document,
    examine,
    machine,
    pipelines,
    print_findings,
    source,
    spark,
    tables,
)
from rebalance.view.doctor.findings import Check, Finding, run_checks
from tests.support.listening import answering, closed_port
from tests.support.markdown import PROJECT
from tests.support.markdown import tables as markdown_tables
from tests.support.s3 import BUCKET, S3, SECRET

EVENTS = pa.table({"k": ["a"], "t": pa.array([datetime(2026, 1, 1, tzinfo=UTC)]), "v": [1.0]})


def write(folder: Path, more: str = "", *, tables: str = "tables", path: str = "events", source: str = "") -> Path:
    file = folder / "shop.toml"
    file.write_text(
        f'tables = "{tables}"\n[source]\npath = "{path}"\nkey = "k"\ntime = "t"\n{source}\n'
        '[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n'
        f'[operator]\nname = "distinct"\nparameters = {{ value = "v" }}\n[quality]\ndocs = "docs"\n{more}\n'
    )
    return file


def pipeline_of(folder: Path, more: str = "", **places: str) -> Pipeline:
    return load_pipeline(write(folder, more, **places))


def only(findings: Sequence[Finding], name: str) -> Finding:
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def said(findings: Sequence[Finding]) -> dict[str, str]:
    return {finding.name: finding.state for finding in findings}


def test_a_check_that_breaks_or_hangs_is_a_finding_and_the_others_answer() -> None:
    def breaks() -> Sequence[Finding]:
        raise ZeroDivisionError("no such luck\nand more")

    def refuses() -> Sequence[Finding]:
        raise ConfigError("what is wrong. What to do.")

    def hangs() -> Sequence[Finding]:
        time.sleep(60)
        return []

    checks = [
        Check("a", hangs),
        Check("b", breaks),
        Check("c", refuses),
        Check("d", lambda: [Finding("d", "ok", "well")]),
    ]
    hanging, broken, refused, well = run_checks(checks, patience=0.5)
    assert (hanging.state, hanging.seen) == ("fail", "no answer within 0.5 s")
    assert (broken.state, broken.seen) == ("fail", "ZeroDivisionError: no such luck")
    assert refused == Finding("c", "fail", "what is wrong", "What to do.")
    assert (well.name, well.state) == ("d", "ok")


def test_secrets_are_taken_out_of_whatever_a_check_says() -> None:
    def tells() -> Sequence[Finding]:
        return [Finding("a", "fail", "the key hunter2 is refused", "do not use hunter2")]

    (found,) = run_checks([Check("a", tells)], hide=["", "hunter2"])
    assert found == Finding("a", "fail", "the key *** is refused", "do not use ***")


def test_a_pipeline_is_looked_at_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in airflow_environment(tmp_path / "airflow").items():
        monkeypatch.setenv(name, value)
    write_deltalake(str(tmp_path / "events"), EVENTS)
    found = examine(str(write(tmp_path)))
    states = said(found)
    assert states["airflow database"] == "fail", "this Airflow has no records yet"
    well = {
        "pipeline file",
        "python",
        "packages",
        "operator",
        "table root",
        "epoch",
        "lock",
        "source",
        "source columns",
    }
    assert {name for name, state in states.items() if state == "ok"} >= well
    assert all(finding.mend for finding in found if finding.state in ("warn", "fail"))
    assert as_document(found)["well"] is False
    assert json.loads(json.dumps(as_document(found)))["findings"][0] == asdict(found[0])
    (rows,) = [
        rows for (head, *rows) in markdown_tables((PROJECT / "docs" / "doctor.md").read_text()) if head[0] == "finding"
    ]
    documented = {name for names, _ in rows for name in re.findall("`([^`]+)`", names)}
    assert {re.sub("^extra .*", "extra …", name) for name in states} <= documented


def test_a_file_that_cannot_be_used_is_said_and_the_machine_is_looked_at_all_the_same(tmp_path: Path) -> None:
    found = examine(str(write(tmp_path, "[channels]\ncount = 0")))
    assert (found[0].name, found[0].state) == ("pipeline file", "fail")
    assert "channels.count = 0" in found[0].seen
    assert "python" in said(found)
    assert not {"table root", "source"} & said(found).keys()


def test_a_person_reads_a_line_a_finding_with_how_to_mend_it_below() -> None:
    console = Console(width=40, record=True, file=io.StringIO())
    print_findings([Finding("disk", "ok", "9 GB free"), Finding("java", "fail", "[none]", "install one " * 6)], console)
    lines = console.export_text().splitlines()
    assert lines[0] == "ok      disk  9 GB free"
    assert lines[1] == "fail    java  [none]"
    assert lines[2].strip() == f"→ {'install one ' * 6}".strip()
    assert lines[3] == "1 well, 0 to look at, 1 to mend, 0 not looked at."


# Python, Java, Spark


def test_packages_of_this_environment_are_as_the_project_wants_them() -> None:
    assert set(said(machine.packages()).values()) == {"ok"}


@pytest.mark.parametrize(
    ("requirements", "state", "seen"),
    [
        (["no-such-package>=1"], "skipped", "not installed: no-such-package; needed for x"),
        (["pyarrow<1,>=0.1"], "fail", "pyarrow 2"),
        (["pyarrow>=18"], "ok", "pyarrow 2"),
    ],
)
def test_an_extra_is_there_not_there_or_in_another_version(requirements: list[str], state: str, seen: str) -> None:
    found = machine._part("x", "x", requirements)
    assert (found.state, found.seen[: len(seen)]) == (state, seen)
    assert "'PATH[x]'" in found.mend or state == "ok"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java; returns the only folder on its PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(environment, "OWN_JAVA_HOME", tmp_path / "own")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_without_a_java_or_with_an_old_one_it_is_said_what_to_install(no_java: Path) -> None:
    (none,) = machine.java()
    assert (none.state, none.seen) == (
        "fail",
        "Spark needs Java 17 or newer and there is none in JAVA_HOME or on the PATH",
    )
    assert none.mend.startswith("Install one")
    for version, state in (("11.0.2", "fail"), ("21.0.1", "ok")):
        (no_java / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        (no_java / "java").chmod(0o755)
        (found,) = machine.java()
        assert found.state == state
        assert f"version {version[:2]}" in found.seen


def test_jars_are_as_shipped_not_fetched_yet_changed_or_somebody_s_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert only(spark.delta_jars(None), "jars of Delta").state == "ok"
    monkeypatch.setattr(environment, "OWN_JARS", tmp_path / "jars")
    assert only(spark.delta_jars(None), "jars of Delta").state == "warn"
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "io.delta_delta-storage-4.4.0.jar").write_text("changed")
    changed = only(spark.delta_jars(None), "jars of Delta")
    assert changed.state == "fail"
    assert "9 of the jars" in changed.seen
    monkeypatch.setenv(environment.JARS_VARIABLE, environment.PROVIDED)
    assert only(spark.delta_jars(None), "jars of Delta").state == "ok"
    monkeypatch.setenv(environment.JARS_VARIABLE, str(tmp_path / "empty"))
    (missing,) = run_checks([Check("jars of Delta", lambda: spark.delta_jars(None))])
    assert missing.state == "fail"
    assert "Put the jars of" in missing.mend


def test_tables_on_s3_need_the_jars_for_it(tmp_path: Path) -> None:
    (without,) = spark.store_jars(pipeline_of(tmp_path, tables="s3a://lake/t"))
    assert without.state == "fail"
    assert all(package in without.mend for package in S3_PACKAGES)
    packages = f"[spark]\npackages = {json.dumps(S3_PACKAGES)}"
    (fetched,) = spark.store_jars(pipeline_of(tmp_path, packages, tables="s3a://lake/t"))
    assert (fetched.state, fetched.seen.split(" in ")[0]) == ("ok", f"{len(expected_sums(S3_SUMS))} jars")
    assert spark.store_jars(pipeline_of(tmp_path))[0].state == "skipped"


def test_a_cluster_s_address_takes_connections_or_not(tmp_path: Path) -> None:
    closed = closed_port()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        for master, state in (
            (f"spark://127.0.0.1:{port}", "ok"),
            (f"spark://127.0.0.1:{closed},127.0.0.1:{port}", "ok"),
            (f"spark://127.0.0.1:{closed}", "fail"),
            (f"k8s://https://127.0.0.1:{port}", "ok"),
        ):
            (found,) = spark.master(pipeline_of(tmp_path, f'[spark]\nmaster = "{master}"'))
            assert found.state == state, found


def test_a_local_master_is_told_with_cores_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = spark.master(pipeline_of(tmp_path))
    assert f"{len(os.sched_getaffinity(0))} cores" in plain.seen
    (huge,) = spark.master(pipeline_of(tmp_path, '[spark.settings]\n"spark.driver.memory" = "900t"'))
    assert huge.state == "warn"
    assert "spark.driver.memory" in huge.mend
    (many,) = spark.master(
        pipeline_of(tmp_path, '[spark]\nmaster = "local[9999]"\nsettings = {"spark.driver.memory" = "1m"}')
    )
    assert many.state == "warn"
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    assert spark.master(pipeline_of(tmp_path, '[spark]\nmaster = "yarn"'))[0].state == "fail"


def test_the_warm_jvm_is_idle_lent_or_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))

    def seen() -> str:
        (found,) = spark.warm_jvm(None)
        assert found.state == "ok"
        return found.seen

    def record(jvm: Running, sleeper: Running | None) -> None:
        (tmp_path / "record").write_text(json.dumps(asdict(Record(jvm, {}, 3, sleeper))))

    assert seen().startswith("none in")
    here = Running.of(os.getpid())
    record(here, here)
    assert f"process {os.getpid()}, idle for" in seen()
    record(here, None)
    assert "lent to a task since" in seen()
    record(Running(here.pid, here.ticks + 1), here)
    assert seen().startswith("none in")
    assert spark.warm_jvm(pipeline_of(tmp_path, "[spark]\nwarm = 0"))[0].state == "skipped"


# tables


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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An Airflow's folder without records."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW__")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    return tmp_path


def test_where_no_airflow_is_set_up_none_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_HOME")
    monkeypatch.setenv("HOME", str(home))
    (found,) = airflow.airflow(None)
    assert (found.state, "Set AIRFLOW_HOME" in found.mend) == ("skipped", True)


def test_an_airflow_without_records_is_told_and_nothing_is_made(home: Path) -> None:
    found = airflow.airflow(None)
    assert said(found) == {
        "airflow": "ok",
        "airflow database": "fail",
        "airflow plugin": "ok",
        "airflow DAGs": "skipped",
        "airflow API": "skipped",
    }
    assert not (home / "airflow.db").exists()


def test_records_of_another_version_and_an_api_server_with_a_sick_part_are_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "airflow.db").touch()
    assert "is not there yet" in only(airflow.airflow(None), "airflow database").seen
    with sqlite3.connect(home / "airflow.db") as records:
        records.execute("CREATE TABLE alembic_version (version_num TEXT)")
        records.execute("INSERT INTO alembic_version VALUES ('0123456789ab')")
    records.close()
    parts = {"metadatabase": {"status": "healthy"}, "scheduler": {"status": "unhealthy"}, "triggerer": {"status": None}}
    with answering(lambda method, path: (200, {}, json.dumps(parts).encode())) as address:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", address.replace("//", "//me:hunter2@"))
        found = airflow.airflow(None)
    assert "is at migration 0123456789ab, this Airflow wants " in only(found, "airflow database").seen
    assert only(found, "airflow API") == Finding(
        "airflow API", "warn", f"{address}: scheduler is unhealthy", "Start what is not healthy."
    )


def test_a_database_that_is_not_there_is_told_without_its_password(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = closed_port()
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"postgresql://me:hunter2@127.0.0.1:{port}/airflow")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://127.0.0.1:{port}")
    found = airflow.airflow(None)
    assert only(found, "airflow database").state == "fail"
    assert only(found, "airflow API").state == "warn"
    assert "hunter2" not in json.dumps([asdict(finding) for finding in found])


def records_with(**changes: Any) -> dict[str, Any]:
    """What Airflow would answer of healthy records."""
    healthy: dict[str, Any] = {
        "place": "sqlite",
        "revision": [["a"]],
        "wanted": "a",
        "dags": [],
        "broken": [],
        "scheduler": 3.0,
    }
    return {**healthy, **changes}


def test_the_dags_of_pipelines_are_counted_and_one_pipeline_s_is_told_with_its_state(tmp_path: Path) -> None:
    dags = [["rebalance_shop", False, False], ["rebalance_other", True, False], ["rebalance_gone", False, True]]
    pipeline = pipeline_of(tmp_path)
    (some,) = airflow._dags(records_with(dags=dags), None)
    assert (some.state, some.seen) == ("ok", "2 of pipelines, 1 of them paused")
    assert airflow._dags(records_with(dags=dags), pipeline)[0].seen == "rebalance_shop is there and not paused"
    assert airflow._dags(records_with(dags=[["rebalance_shop", True, False]]), pipeline)[0].state == "warn"
    assert airflow._dags(records_with(dags=dags[1:]), pipeline)[0].seen == "there is no rebalance_shop"
    assert airflow._dags(records_with(), None)[0].state == "warn"
    broken, _ = airflow._dags(records_with(broken=["dags/x.py"], dags=dags), None)
    assert (broken.state, broken.seen) == ("fail", "dags/x.py cannot be imported")


@pytest.mark.parametrize(("age", "state"), [(None, "ok"), (3.0, "ok"), (600.0, "warn")])
def test_a_scheduler_that_is_gone_is_told(age: float | None, state: str) -> None:
    assert airflow._database(records_with(scheduler=age)).state == state


def test_the_process_that_asks_says_nothing_but_its_answers(home: Path) -> None:
    done = subprocess.run([sys.executable, "-m", airflow._PROBE], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["folder"] == f"{home}/dags"
    assert list(home.iterdir()) in ([], [home / "airflow.cfg"])


def test_the_command_ends_with_1_if_something_fails_and_with_0_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(airflow, "airflow", lambda pipeline: [Finding("airflow", "skipped", "not asked")])
    file = str(write(tmp_path))
    assert main(["doctor", file]) == 1
    assert "fail    source" in capsys.readouterr().out
    write_deltalake(str(tmp_path / "events"), EVENTS)
    assert main(["doctor", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["well"] is True
    monkeypatch.setenv("REBALANCE_PIPELINES", str(tmp_path))
    assert main(["doctor"]) == 0
    assert "1 valid in" in capsys.readouterr().out
