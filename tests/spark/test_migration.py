"""Migration: what it writes, what it refuses, what other clients see."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from deltalake import DeltaTable as LightTable
from deltalake import QueryBuilder
from pyspark.sql import SparkSession

import rebalance
from rebalance.errors import MigrationError, StalePlanError
from rebalance.pipeline.file import Pipeline
from rebalance.spark.small_move import SmallRows
from rebalance.steps import migrate_state
from rebalance.steps.check_quality import check_quality
from rebalance.steps.collect_stats import collect_stats
from rebalance.steps.make_plan import make_plan
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs, current_epoch, publish
from rebalance.storage.history import read_history
from tests.support.world import Stages, contents, first_interval, make_world, stored

#: One interval is through, the second has come to its plan; no state has moved yet.
PLANNED = "1 migrate_state"


@pytest.fixture(scope="module")
def many_rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """An interval of many events and keys, processed and then planned."""
    pipeline = make_world(tmp_path_factory.mktemp("many"), intervals=1, events=60_000, keys=3000)
    stages = Stages(pipeline, tmp_path_factory.mktemp("stages"))
    for verb in (process_batch, collect_stats, check_quality, make_plan):
        verb(pipeline, first_interval(pipeline))
    stages.keep(PLANNED)
    return stages


def test_a_migration_moves_the_planned_rows_and_writes_no_other(
    spark: SparkSession, many_rows: Stages, tmp_path: Path
) -> None:
    pipeline = many_rows.copy(tmp_path, PLANNED)
    before = stored(pipeline, "state")
    migrate_state.migrate_state(pipeline, first_interval(pipeline))
    after = stored(pipeline, "state")

    epoch = current_epoch(pipeline.tables)
    assert epoch is not None
    moves = {
        row["key"]: row["to_channel"] for row in control.rows(pipeline.tables, "plan_moves", plan_id=epoch.plan_id)
    }
    expected = before.with_columns(
        channel=pl.col("key").replace_strict(moves, default=pl.col("channel"), return_dtype=pl.Int32)
    )
    assert after.equals(expected.sort(expected.columns))
    moved_rows = before.filter(pl.col("key").is_in(list(moves)))
    newest = DeltaTable.forPath(spark, f"{pipeline.tables}/state").history(1).collect()[0]
    assert newest["operation"] == "UPDATE"
    assert epoch.plan_id in newest["userMetadata"]
    assert len(moved_rows) > 100
    assert _bytes_added(pipeline, epoch.state_version) <= 1.2 * _bytes_alone(moved_rows, moves, tmp_path / "alone")


def _bytes_added(pipeline: Pipeline, version: int) -> int:
    """Bytes of the data files that a commit wrote; files that only got a deletion vector were there before."""
    import json

    log = Path(pipeline.tables, "state", "_delta_log", f"{version:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in log]
    removed = {action["remove"]["path"] for action in actions if "remove" in action}
    return sum(a["add"]["size"] for a in actions if "add" in a and a["add"]["path"] not in removed)


def _bytes_alone(rows: pl.DataFrame, moves: dict[str, int], folder: Path) -> int:
    """Bytes of the moved rows written by themselves, one file per target channel."""
    folder.mkdir()
    targets = rows.with_columns(target=pl.col("key").replace_strict(moves, return_dtype=pl.Int32))
    size = 0
    for (target,), part in targets.group_by("target"):
        file = folder / f"{target}.parquet"
        pq.write_table(
            part.drop("target", "channel", "interval_id")
            .to_arrow()
            .cast(
                pa.schema(
                    [
                        ("key", pa.string()),
                        ("time", pa.timestamp("us", tz="UTC")),
                        ("is_earlier", pa.bool_()),
                        ("value", pa.float64()),
                    ]
                )
            ),
            file,
        )
        size += file.stat().st_size
    return size


def test_other_clients_see_the_same_state_at_the_epoch_s_version(spark: SparkSession, matches: Stages) -> None:
    pipeline = matches.pipeline
    for epoch in all_epochs(pipeline.tables):
        if epoch.kind != "migrate" or epoch.state_version < 0:
            continue
        opened = rebalance.open(pipeline.tables, epoch.epoch)
        path, version = opened.state_path, opened.state_version
        row = opened.state(spark).selectExpr("count(*)", "sum(channel)", "sum(value)").first()
        assert row is not None
        by_spark = (row[0], row[1], round(row[2], 3))
        by_polars = (
            pl.scan_delta(path, version=version)
            .select(pl.len(), pl.col("channel").sum(), pl.col("value").sum())
            .collect()
            .row(0)
        )
        query = "SELECT count(*), sum(channel), sum(value) FROM t"
        light = QueryBuilder().register("t", LightTable(path, version=version)).execute(query)
        by_delta_rs = tuple(pa.RecordBatchReader.from_stream(light).read_all().to_pylist()[0].values())
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            _load_delta(connection)
            by_duckdb = connection.execute(
                f"SELECT count(*), sum(channel), sum(value) FROM delta_scan('{path}', version={version})"
            ).fetchone()
        for other in (by_polars, by_delta_rs, by_duckdb):
            assert other is not None
            assert (other[0], other[1], round(float(other[2]), 3)) == by_spark


def _load_delta(connection: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's delta extension out of its Python package; nothing is downloaded."""
    import duckdb_extension_delta

    (file,) = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
    connection.load_extension(str(file))


def test_a_plan_is_refused_when_the_state_has_moved_on(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, PLANNED)
    second, third = first_interval(pipeline).shifted(1), first_interval(pipeline).shifted(2)
    process_batch(pipeline, second)
    process_batch(pipeline, third)
    before = contents(pipeline)
    with pytest.raises(StalePlanError, match=f"now it ends with {third.id}. Nothing was moved"):
        migrate_state.migrate_state(pipeline, second)
    assert make_plan(pipeline, second).startswith(f"nothing planned: interval {third.id} is processed already")
    assert contents(pipeline) == before


def test_a_plan_is_refused_when_another_function_has_become_active(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, PLANNED)
    second, root = first_interval(pipeline).shifted(1), pipeline.tables
    epoch = current_epoch(root)
    assert epoch is not None
    publish(
        root,
        epoch,
        kind="migrate",
        interval_id=epoch.interval_id,
        function_version=0,
        state_version=epoch.state_version,
    )
    with pytest.raises(StalePlanError, match=r"changes function v1, but v0 is active\. Nothing was moved"):
        migrate_state.migrate_state(pipeline, second)


def test_a_commit_that_loses_rows_is_not_published_and_is_rolled_back(
    matches: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = matches.copy(tmp_path, PLANNED)
    before, epoch = stored(pipeline, "state"), current_epoch(pipeline.tables)
    right = SmallRows.write
    with monkeypatch.context() as patched:
        patched.setattr(SmallRows, "write", lambda rows, path: right(rows, path)[1:])
        with pytest.raises(MigrationError, match="old epoch stays active"):
            migrate_state.migrate_state(pipeline, first_interval(pipeline).shifted(1))
    assert current_epoch(pipeline.tables) == epoch
    assert len(stored(pipeline, "state")) < len(before)

    migrate_state.migrate_state(pipeline, first_interval(pipeline).shifted(1))
    after = stored(pipeline, "state")
    assert (
        after.drop("channel")
        .sort(after.drop("channel").columns)
        .equals(before.drop("channel").sort(before.drop("channel").columns))
    )


def test_in_shadow_mode_nothing_moves_and_the_plan_says_what_would_have(matches: Stages, tmp_path: Path) -> None:
    shadow = matches.copy(tmp_path, PLANNED, 'planner = "mixed"', 'planner = "mixed"\nmode = "shadow"')
    before = contents(shadow)
    said = migrate_state.migrate_state(shadow, first_interval(shadow).shifted(1))
    assert said.startswith("nothing moved (mode is shadow), would have: max/fair load")
    assert contents(shadow) == before


def test_without_deletion_vectors_every_client_can_read_the_table(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = make_world(tmp_path, intervals=2)
    file = pipeline.file
    file.write_text("deletion_vectors = false\n" + file.read_text())
    plain = rebalance.pipeline.file.load_pipeline(file)  # type: ignore[attr-defined]
    run_intervals(plain)
    assert [epoch.kind for epoch in all_epochs(plain.tables)][-2:] == ["migrate", "process"]
    assert all(record.moved_bytes > 0 for record in read_history(plain.tables)[1:])
    assert LightTable(f"{plain.tables}/state").to_pyarrow_table().num_rows == 3000
