"""A whole pipeline on an object store: the same as on a disk, through Spark and without it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

import rebalance
from rebalance.errors import EnvironmentMissingError, StoreError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.spark import session
from rebalance.spark.jars import S3_PACKAGES
from rebalance.steps import STEPS, run_step
from rebalance.steps.maintain import maintain
from rebalance.steps.rewind import rewind
from rebalance.steps.run import run_interval
from rebalance.storage import control
from rebalance.storage.delta_log import TableFiles
from rebalance.storage.epochs import all_epochs
from rebalance.storage.reader import Opened
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.state import read_state
from tests.support.s3 import BUCKET, S3, SECRET
from tests.support.world import Stages, first_interval

pytestmark = pytest.mark.usefixtures("few_rows")


def on_store(s3: S3, folder: Path, like: Pipeline, name: str) -> Pipeline:
    """The same pipeline with its events and tables on the store."""
    folder.mkdir(parents=True, exist_ok=True)
    text = like.file.read_text()
    text = text.replace('tables = "tables"', f'tables = "s3a://{BUCKET}/{name}/tables"')
    text = text.replace(str(like.source.path), f"s3a://{BUCKET}/{name}/events")
    (folder / "world.toml").write_text(f'{text}\n[quality]\ndocs = "docs"\n{s3.toml}\n')
    for file in Path(like.source.path).glob("*.parquet"):
        s3.client().upload_file(str(file), BUCKET, f"{name}/events/{file.name}")
    return load_pipeline(folder / "world.toml")


def rows_of(root: str, table: str, *without: str) -> list[dict[str, Any]]:
    """A table's rows in a fixed order, less clocks."""
    found = pl.DataFrame(control.read(root, table)).drop(*without, strict=False)
    return found.sort([name for name in found.columns if not found.schema[name].is_nested()]).to_dicts()


CLOCKS = ("seconds", "task_seconds", "published_at", "state_version")


@pytest.fixture(scope="module")
def stored(
    spark: SparkSession, s3: S3, matches: Stages, few_rows: None, tmp_path_factory: pytest.TempPathFactory
) -> Pipeline:
    """Three intervals with migrations in between, all of it on the store."""
    pipeline = on_store(s3, tmp_path_factory.mktemp("on_store"), matches.pipeline, "whole")
    for number in range(3):
        assert run_interval(pipeline, first_interval(pipeline).shifted(number), say=print) == ""
    return pipeline


def test_three_intervals_with_migrations_leave_the_same_on_a_store_as_on_a_disk(
    stored: Pipeline, matches: Stages
) -> None:
    assert "migrate" in {epoch.kind for epoch in all_epochs(stored.tables)}
    for table in SCHEMAS:
        if table == "state" or not control.exists(matches.pipeline.tables, table):
            continue
        ours, theirs = (rows_of(root, table, *CLOCKS) for root in (stored.tables, matches.pipeline.tables))
        assert ours == theirs, table


def test_the_state_on_a_store_is_that_on_a_disk_for_spark_and_for_polars(
    spark: SparkSession, s3: S3, stored: Pipeline, matches: Stages
) -> None:
    opened, local = rebalance.open(stored.tables), rebalance.open(matches.pipeline.tables)
    columns = ["interval_id", "channel", "key", "time"]
    expected = pl.DataFrame(local.state(spark).toArrow()).sort(columns)
    assert_frame_equal(pl.DataFrame(opened.state(spark).toArrow()).sort(columns), expected)
    by_polars = pl.scan_delta(opened.state_path, version=opened.state_version, storage_options=s3.options).collect()
    assert by_polars.height == expected.height
    assert opened.results(spark).count() == local.results(spark).count()


def test_no_secret_is_written_anywhere_on_the_store(s3: S3, stored: Pipeline) -> None:
    listed = s3.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="whole/tables")
    names = [entry["Key"] for page in listed for entry in page.get("Contents", [])]
    assert any(name.endswith("writer.lease") for name in names)
    content = [s3.client().get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in names]
    assert not [name for name, text in zip(names, content, strict=True) if SECRET.encode() in text]


def test_a_rewind_and_maintenance_work_on_a_store(
    spark: SparkSession, s3: S3, stored: Pipeline, matches: Stages
) -> None:
    again = first_interval(stored).shifted(2)
    rewind(stored, again)
    *planning, results = STEPS
    for step in planning:
        run_step(step.name, stored, again)
    moved = rebalance.open(stored.tables)
    before = moved.state(spark).count()
    assert pieces(moved)
    # A store's files cannot be made older than they are.
    at_once = stored.retention.model_copy(update={"epochs": 1, "files": timedelta(0)})
    said = maintain(stored.model_copy(update={"retention": at_once}))
    assert any(sentence.startswith("state: ") and "written anew" in sentence for sentence in said), said
    assert any("files" in sentence and "removed" in sentence for sentence in said), said
    opened = rebalance.open(stored.tables)
    assert (opened.epoch.kind, opened.state(spark).count(), pieces(opened)) == ("maintain", before, 0)
    run_step(results.name, stored, again)
    assert rows_of(stored.tables, "results") == rows_of(matches.pipeline.tables, "results")


def pieces(opened: Opened) -> int:
    """How many files the state has beyond one for each of its partitions."""
    files = TableFiles(opened.root, "state").files_at(opened.state_version).values()
    return len(files) - len({tuple(sorted(add["partitionValues"].items())) for add in files})


def test_local_tables_are_found_on_the_disk_when_sparks_default_is_a_store(
    spark: SparkSession, s3: S3, matches: Stages
) -> None:
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", f"s3a://{BUCKET}")
    try:
        opened = rebalance.open(matches.pipeline.tables)
        assert read_state(spark, opened.root, opened.state_version).count() > 0
        assert opened.results(spark).count() > 0
    finally:
        hadoop.set("fs.defaultFS", before)


def test_events_that_cannot_be_reached_are_said_in_a_sentence_without_secrets(
    spark: SparkSession, s3: S3, matches: Stages, tmp_path: Path
) -> None:
    text = matches.pipeline.file.read_text().replace(str(matches.pipeline.source.path), "s3a://nobody-has-it/events")
    (tmp_path / "world.toml").write_text(f"{text}\n{s3.toml}\n")
    pipeline = load_pipeline(tmp_path / "world.toml")
    with pytest.raises(StoreError, match=r"the events at s3a://nobody-has-it/events cannot be reached: ") as refused:
        run_step("collect_stats", pipeline, first_interval(pipeline))
    assert SECRET not in str(refused.value)
    assert not control.exists(pipeline.tables, "interval_stats")


def test_a_place_that_spark_has_no_jars_for_is_refused_with_the_packages_to_set(
    spark: SparkSession, matches: Stages, tmp_path: Path
) -> None:
    text = matches.pipeline.file.read_text().replace(str(matches.pipeline.source.path), "gs://lake/events")
    (tmp_path / "world.toml").write_text(text)
    with pytest.raises(EnvironmentMissingError, match=r"cannot reach gs://.*Set \[spark\] packages"):
        session.spark_session(load_pipeline(tmp_path / "world.toml"))
    assert S3_PACKAGES[0].startswith("org.apache.hadoop:hadoop-aws:")
