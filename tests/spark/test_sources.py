"""Where events may come from, and what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.errors import ConfigError, OperatorError, OrderError, SourceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps.migrate_state import migrate_state
from rebalance.steps.process_batch import process_batch
from rebalance.steps.rewind import adopt
from rebalance.steps.run import last_interval, run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch
from rebalance.storage.reader import open_tables
from tests.support.world import Stages, check_schemas, first_interval, stored

EVENTS = """ts,user,shop,amount
2026-01-01T00:10:00Z,1,a,1.5
2026-01-01T00:20:00Z,2,a,2.5
2026-01-01T00:30:00Z,1,b,4.0
2026-01-01T01:00:00Z,1,a,8.0
"""
COLUMNS = "ts TIMESTAMP, user BIGINT, shop STRING, amount DOUBLE"


def pipeline_on(folder: Path, source: str) -> Pipeline:
    file = folder / "p.toml"
    file.write_text(
        f'tables = "tables"\n[source]\n{source}\ntime = "ts"\n[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n'
        '[operator]\nname = "windowed_sum"\nparameters = {value = "amount"}\n[channels]\ncount = 2\n[planning]\nplanner = "keep"\n'
    )
    return load_pipeline(file)


def sums(pipeline: Pipeline) -> list[tuple[object, int, float]]:
    found = pl.read_delta(f"{pipeline.tables}/results").sort("interval_id", "key")
    return [(row["key"], row["count"], float(row["sum"])) for row in found.to_dicts()]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "delta"])
def test_events_may_be_csv_json_parquet_or_delta_and_one_at_an_interval_s_end_belongs_to_the_next(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "in.csv").write_text(EVENTS)
    events = spark.read.schema(COLUMNS).option("header", True).csv(str(tmp_path / "in.csv"))
    events.write.format(kind).option("header", True).save(str(tmp_path / "events"))
    columns = f'columns = "{COLUMNS}"' if kind in ("csv", "json") else ""
    pipeline = pipeline_on(tmp_path, f'path = "events"\nformat = "{kind}"\nkey = "user"\n{columns}')
    first, last = first_interval(pipeline), last_interval(pipeline)
    assert last == first.shifted(1)
    assert run_intervals(pipeline, count=2, say=lambda _: None) == 2
    assert sums(pipeline) == [(1, 2, 5.5), (2, 1, 2.5), (1, 1, 8.0)]
    check_schemas(pipeline.tables, "long")


def test_several_key_columns_make_one_key(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "in.csv").write_text(EVENTS)
    pipeline = pipeline_on(tmp_path, f'path = "events"\nformat = "csv"\nkey = ["user", "shop"]\ncolumns = "{COLUMNS}"')
    process_batch(pipeline, first_interval(pipeline))
    assert [key for key, *_ in sums(pipeline)] == ["1\x1fa", "1\x1fb", "2\x1fa"]


def test_null_keys_are_refused_with_their_number_and_nothing_is_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "in.csv").write_text(EVENTS + "2026-01-01T00:40:00Z,,a,1.0\n2026-01-01T00:41:00Z,,a,1.0\n")
    pipeline = pipeline_on(tmp_path, f'path = "events"\nformat = "csv"\nkey = "user"\ncolumns = "{COLUMNS}"')
    with pytest.raises(SourceError, match=r"^2 events .* have no key \(user is null\)"):
        process_batch(pipeline, first_interval(pipeline))
    assert not any(control.exists(pipeline.tables, table) for table in ("results", "state", "batches"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(
            'path = "nowhere"\nformat = "parquet"\nkey = "user"', "Check source.path", id="a path that is not there"
        ),
        pytest.param(
            'path = "events"\nformat = "parquet"\nkey = "usr"',
            "no column 'usr'.*ts, user, shop",
            id="a key column that is not there",
        ),
    ],
)
def test_a_source_that_cannot_be_read_is_refused(
    spark: SparkSession, tmp_path: Path, source: str, message: str
) -> None:
    (tmp_path / "in.csv").write_text(EVENTS)
    spark.read.schema(COLUMNS).option("header", True).csv(str(tmp_path / "in.csv")).write.parquet(
        str(tmp_path / "events")
    )
    with pytest.raises(SourceError, match=message):
        process_batch(pipeline_on(tmp_path, source), first_interval(pipeline_on(tmp_path, source)))


def test_an_interval_without_events_still_has_results_of_its_window(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "done", becomes="[quality]\nvolume_history = 0")
    assert run_intervals(pipeline, count=1) == 1
    newest = current_epoch(pipeline.tables)
    assert newest is not None
    assert newest.interval_id == first_interval(pipeline).shifted(3).id
    (counted,) = control.rows(pipeline.tables, "interval_stats", interval_id=newest.interval_id)
    assert (counted["rows"], counted["keys"]) == (0, len(set(stored(matches.pipeline, "state")["key"])))
    assert all(row["success"] for row in control.rows(pipeline.tables, "quality_runs", interval_id=newest.interval_id))


def test_an_interval_before_the_last_one_is_refused(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "1 collect_stats")
    with pytest.raises(OrderError, match="comes before"):
        process_batch(pipeline, first_interval(pipeline).shifted(-1))


def test_an_operator_whose_state_columns_changed_is_refused(matches: Stages, tmp_path: Path) -> None:
    changed = matches.copy(tmp_path, "1 process_batch", 'value = "price"', 'value = "symbol"')
    with pytest.raises(ConfigError, match=r"operator\.parameters was"):
        process_batch(changed, first_interval(changed).shifted(1))
    adopt(changed)
    with pytest.raises(OperatorError, match="state columns differ"):
        process_batch(changed, first_interval(changed).shifted(1))


def test_more_channels_are_planned_and_taken_into_use(matches: Stages, tmp_path: Path) -> None:
    grown = matches.copy(tmp_path, "1 collect_stats", "count = 4", "count = 6")
    run_intervals(grown, count=1)
    opened = open_tables(grown.tables)
    assert opened.function.channels == 6
    state = pl.read_delta(f"{grown.tables}/state", version=opened.state_version)
    assert set(state["channel"]) == set(range(6))
    assert "already" in migrate_state(grown, first_interval(grown).shifted(1))
