"""Rows that cannot be used: refused with their number and an example, or put into quarantine; never dropped without a word."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.cli import main
from rebalance.errors import SourceError
from rebalance.pipeline.file import Pipeline
from rebalance.steps import process_batch as step_module
from rebalance.steps.collect_stats import collect_stats
from rebalance.steps.process_batch import process_batch
from rebalance.steps.rewind import rewind
from rebalance.storage import control
from rebalance.storage.schemas import SCHEMAS
from tests.spark.test_sources import COLUMNS, EVENTS, pipeline_on, sums
from tests.support.world import first_interval

pytestmark = pytest.mark.usefixtures("few_rows")

JSON_EVENTS = [
    '{"ts":"2026-01-01T00:10:00Z","user":1,"shop":"a","amount":1.5}',
    '{"ts":"2026-01-01T00:20:00Z","user":2,"shop":"a","amount":2.5}',
    '{"ts":"2026-01-01T01:00:00Z","user":1,"shop":"a","amount":8.0}',
]
#: By format: a row that is bad, and what is said of it.
BAD = [
    pytest.param("csv", "2026-01-01T00:40:00Z,,a,1.0", r"has no key \(user is null\).*\"user\":null", id="csv no key"),
    pytest.param("csv", ",3,a,1.0", r"has no time \(ts is null\).*\"ts\":null", id="csv no time"),
    pytest.param("csv", "2026-01-01T00:40:00Z,x,a,1.0", r"not fit source\.columns.*40:00Z,x,a,1\.0", id="csv key"),
    pytest.param("csv", "2026-01-01T00:40:00Z,3,a,a lot", r"not fit source\.columns.*3,a,a lot", id="csv value"),
    pytest.param("csv", "yesterday,3,a,1.0", r"not fit source\.columns.*yesterday,3,a,1\.0", id="csv time"),
    pytest.param("csv", "2026-01-01T00:40:00Z,3", r"not fit source\.columns.*40:00Z,3\. Nothing", id="csv short"),
    pytest.param(
        "json",
        '{"ts":"2026-01-01T00:40:00Z","user":3,"shop":"a","amount":"a lot"}',
        r"not fit source\.columns.*\"a lot\"",
        id="json value",
    ),
    pytest.param(
        "json", '{"ts":"2026-01-01T00:40:00Z","us', r"not fit source\.columns.*40:00Z\",\"us\. Noth", id="json broken"
    ),
    pytest.param("json", '{"user":3,"amount":1.0}', r"has no time \(ts is null\)", id="json no time"),
]


def world(folder: Path, kind: str, bad: list[str], more: str = "") -> Pipeline:
    (folder / "events").mkdir()
    good = EVENTS.splitlines() if kind == "csv" else JSON_EVENTS
    (folder / "events" / f"in.{kind}").write_text("\n".join([*good, *bad]) + "\n")
    return pipeline_on(folder, f'path = "events"\nformat = "{kind}"\nkey = "user"\ncolumns = "{COLUMNS}"\n{more}')


@pytest.mark.parametrize(("kind", "row", "message"), BAD)
def test_a_bad_row_is_refused_with_an_example_by_counting_and_by_processing(
    spark: SparkSession, tmp_path: Path, kind: str, row: str, message: str
) -> None:
    pipeline = world(tmp_path, kind, [row])
    for step in (collect_stats, process_batch):
        with pytest.raises(SourceError, match="(?s)^1 event of interval .*" + message):
            step(pipeline, first_interval(pipeline))
    assert not any(control.exists(pipeline.tables, table) for table in ("key_stats", "results", "state", "batches"))


def test_several_kinds_of_bad_rows_are_counted_each_and_shown_shortened(spark: SparkSession, tmp_path: Path) -> None:
    long = "2026-01-01T00:40:00Z,x," + "long" * 100 + ",1.0"
    pipeline = world(tmp_path, "csv", [long, long, "2026-01-01T00:40:00Z,,a,1.0"])
    with pytest.raises(SourceError) as refused:
        collect_stats(pipeline, first_interval(pipeline))
    assert "2 events of interval" in str(refused.value)
    assert "1 event of interval" in str(refused.value)
    assert f"{long[:200]}…" in str(refused.value)
    assert long[:201] not in str(refused.value)


def test_a_bad_row_of_another_interval_is_no_trouble(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = world(tmp_path, "csv", ["2026-01-01T05:40:00Z,,a,1.0", "2026-01-01T05:40:00Z,3,a,a lot"])
    collect_stats(pipeline, first_interval(pipeline))
    process_batch(pipeline, first_interval(pipeline))
    assert sums(pipeline) == [(1, 2, 5.5), (2, 1, 2.5)]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_without_a_time_are_refused_like_those_without_a_key(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    rows = "2026-01-01T00:10:00Z,1,a,1.5\n,2,a,2.5\n,3,a,2.5\n"
    (tmp_path / "in.csv").write_text(f"ts,user,shop,amount\n{rows}")
    events = spark.read.schema(COLUMNS).option("header", True).csv(str(tmp_path / "in.csv"))
    events.write.format(kind).save(str(tmp_path / "events"))
    pipeline = pipeline_on(tmp_path, f'path = "events"\nformat = "{kind}"\nkey = "user"')
    for step in (collect_stats, process_batch):
        with pytest.raises(SourceError, match=r"^2 events .* have no time \(ts is null\)"):
            step(pipeline, first_interval(pipeline))


QUARANTINED = [
    "2026-01-01T00:40:00Z,,a,1.0",
    ",3,a,1.0",
    "2026-01-01T00:40:00Z,3,a,a lot",
    "yesterday,3,a,1.0",
    "2026-01-01T01:40:00Z,3",
]


def quarantine(pipeline: Pipeline) -> list[tuple[str, str, str]]:
    """Interval, reason and row of what is in quarantine."""
    found = pl.read_delta(f"{pipeline.tables}/quarantine")
    assert set(found["file"].str.split("/").list.last()) <= {"in.csv"}
    return sorted(zip(found["interval_id"], found["reason"], found["row"], strict=True))


def test_quarantine_takes_bad_rows_once_however_often_a_step_is_tried_and_the_others_are_processed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = world(tmp_path, "csv", QUARANTINED, 'on_bad_rows = "quarantine"')
    first, second = first_interval(pipeline), first_interval(pipeline).shifted(1)
    expected = [
        (first.id, "malformed", "2026-01-01T00:40:00Z,3,a,a lot"),
        (first.id, "malformed", "yesterday,3,a,1.0"),
        (first.id, "null key", '{"ts":"2026-01-01T00:40:00.000Z","user":null,"shop":"a","amount":1.0}'),
        (first.id, "null time", '{"ts":null,"user":3,"shop":"a","amount":1.0}'),
        (second.id, "malformed", "2026-01-01T01:40:00Z,3"),
    ]

    def killed(moment: str) -> None:
        raise KeyboardInterrupt(moment)

    assert "3 rows of 2 keys" in collect_stats(pipeline, first)
    with monkeypatch.context() as patched:
        patched.setattr(step_module, "checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            process_batch(pipeline, first)
    assert quarantine(pipeline) == expected[:4]
    assert "4 rows in quarantine (2 malformed, 1 null key, 1 null time)" in process_batch(pipeline, first)
    assert "1 row in quarantine" in process_batch(pipeline, second)
    assert quarantine(pipeline) == expected
    assert sums(pipeline) == [(1, 2, 5.5), (2, 1, 2.5), (1, 1, 8.0)]
    assert main(["status", str(pipeline.file)]) == 0
    assert f"{first.id}: 4 rows in quarantine (2 malformed, 1 null key, 1 null time)" in capsys.readouterr().out

    file = Path(pipeline.source.path) / "in.csv"
    file.write_text(file.read_text().replace(QUARANTINED[0], "2026-01-01T00:40:00Z,1,a,1.0"))
    rewind(pipeline, first)
    process_batch(pipeline, first)
    assert quarantine(pipeline) == [row for row in expected if row[1] != "null key"]
    assert sums(pipeline)[0] == (1, 3, 6.5)
    columns = [(field.name, field.type) for field in control.read(pipeline.tables, "quarantine").schema]
    assert columns == [(field.name, field.type) for field in SCHEMAS["quarantine"]]
