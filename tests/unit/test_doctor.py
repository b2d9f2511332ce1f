"""`rebalance doctor`: everything it looks at, well and broken on purpose; no check stops or holds up another, and no secret is shown."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from deltalake import write_deltalake
from rich.console import Console

from rebalance.demo.in_process import airflow_environment
from rebalance.errors import ConfigError
from rebalance.spark import environment
from rebalance.spark.jars import S3_PACKAGES, S3_SUMS, expected_sums
from rebalance.spark.warm import FOLDER_VARIABLE
from rebalance.spark.warm_jvm import Record, Running
from rebalance.view.doctor import (
    as_document,
    examine,
    machine,
    print_findings,
    spark,
)
from rebalance.view.doctor.findings import Check, Finding, run_checks
from tests.support.examined import EVENTS, only, pipeline_of, said, write
from tests.support.listening import closed_port
from tests.support.markdown import PROJECT
from tests.support.markdown import tables as markdown_tables


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
