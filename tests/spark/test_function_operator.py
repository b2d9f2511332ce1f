"""A function per key over several intervals: recomputed plainly, with drops, with a time to live, with folds, and once per key."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.pipeline.file import Pipeline
from rebalance.spark.events import events_of
from rebalance.spark.keyed import KeyedWork
from rebalance.spark.placement import Placing, exchanges, physical_plan, placing_session
from rebalance.spark.rows import rows_of
from rebalance.spark.source import read_source
from rebalance.steps import process_batch as step
from rebalance.steps import run_step
from rebalance.steps.run import run_intervals
from rebalance.storage import control, epochs
from rebalance.storage.state import read_state
from tests.support.streaks import ARROW, PANDAS, Plain, live_state, results_of, take, world
from tests.support.world import first_interval, stored

pytestmark = pytest.mark.usefixtures("few_rows")


@pytest.mark.parametrize(
    ("function", "more"),
    [(ARROW, ""), (PANDAS, ""), (ARROW, "[spark]\nstate_in_place = false")],
    ids=["arrow", "pandas", "state exchanged"],
)
def test_results_and_state_equal_a_plain_recomputation_over_intervals_with_drops_and_folds(
    spark: SparkSession, tmp_path: Path, function: str, more: str
) -> None:
    pipeline = world(tmp_path, function, intervals=5, more=more)
    plain, folded = Plain(pipeline), []
    for number in range(5):
        interval = first_interval(pipeline).shifted(number)
        take(pipeline, interval)
        expected = plain.process(interval)
        assert len(expected) > 100
        assert results_of(pipeline, interval) == expected
        assert live_state(pipeline) == plain.live()
        (batch,) = control.rows(pipeline.tables, "batches", interval_id=interval.id)
        assert batch["rows"] == sum(batch["tuples"]) == 600
        folded.append(batch["folded"])
        intervals = stored(pipeline, "state")["interval_id"].unique()
        assert intervals.to_list() == [interval.id] if batch["folded"] else len(intervals) > 0
    assert 1 <= sum(folded) < 4
    assert not folded[0]
    # Keys lose their state now and then, or this test would not be about drops.
    assert any(not streak for streak in plain.streaks.values())


def test_what_is_held_is_what_lies_in_the_state_table_also_after_a_fold(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = world(tmp_path, intervals=5)
    for number in range(5):
        interval = first_interval(pipeline).shifted(number)
        run_step("collect_stats", pipeline, interval)
        if number:
            held = stored(pipeline, "key_stats").filter(
                (pl.col("interval_id") == interval.id) & (pl.col("held_rows") > 0)
            )
            lies = stored(pipeline, "state").group_by("key").len().sort("key")
            assert held.sort("key").select("key", "held_rows").rows() == lies.rows()
        run_step("process_batch", pipeline, interval)
    assert any(row["folded"] for row in control.rows(pipeline.tables, "batches"))


def quiet_world(folder: Path, ttl: str) -> Pipeline:
    """Key `a` in every interval; key `b` in the intervals 0, 2 and 5, always a buy, and a sell at the end."""
    (folder / "events").mkdir(parents=True)
    pipeline = world(folder, knobs=ttl, parameters="longest = 9", events_folder=folder / "events")
    source, rows = Path(pipeline.source.path), []
    for number in range(6):
        start = first_interval(pipeline).shifted(number).start
        keys = ["a", "b"] if number in (0, 2, 5) else ["a"]
        rows += [{"symbol": key, "ts": start, "side": "buy", "price": float(number)} for key in keys]
    rows += [{"symbol": "b", "ts": start.replace(minute=1), "side": "sell", "price": 9.0}]
    pl.DataFrame(rows).with_columns(pl.col("ts").dt.cast_time_unit("us")).write_parquet(source / "events.parquet")
    return pipeline


@pytest.mark.parametrize(
    ("ttl", "prices"), [("", "0.00 2.00 5.00"), ("ttl = 2", "5.00"), ("ttl = 3", "0.00 2.00 5.00")]
)
def test_state_outlives_as_many_quiet_intervals_as_it_may(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ttl: str, prices: str
) -> None:
    # Folded when interval 4 is processed: key b is then two intervals old and has not expired, in the next one it has.
    monkeypatch.setattr(step, "fold_due", lambda root, version: len(control.rows(root, "batches")) == 4)
    pipeline = quiet_world(tmp_path, ttl)
    for number in range(6):
        take(pipeline, first_interval(pipeline).shifted(number))
        if number == 4:
            assert set(stored(pipeline, "state")["key"]) == ({"a"} if ttl == "ttl = 2" else {"a", "b"})
    assert [row[3] for row in results_of(pipeline, first_interval(pipeline).shifted(5))] == [prices]


@pytest.mark.parametrize(
    ("moment", "folds"), [("results written", True), ("state written", True), ("batch recorded", False)]
)
def test_an_interval_that_was_killed_is_run_again_with_the_same_results_and_state(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, folds: bool
) -> None:
    monkeypatch.setattr(step, "fold_due", lambda root, version: folds)
    pipeline = world(tmp_path, intervals=2, events=300)
    plain, first = Plain(pipeline), first_interval(pipeline)
    second = first.shifted(1)
    take(pipeline, first)
    plain.process(first)

    def killed(name: str) -> None:
        if name == f"process_batch: {moment}":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step, "checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            run_step("process_batch", pipeline, second)
    take(pipeline, second)
    assert results_of(pipeline, second) == plain.process(second)
    assert live_state(pipeline) == plain.live()


def test_keys_may_be_integers_and_state_columns_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    function = ARROW.replace('STATE = "side', 'STATE = "newest').replace(
        "for row in state.to_pylist()", 'for row in state.rename_columns(["side", "price"]).to_pylist()'
    )
    function = function.replace('kept = {"side":', 'kept = {"newest":').replace(
        'STATE_TYPES = pa.schema([("side"', 'STATE_TYPES = pa.schema([("newest"'
    )
    pipeline = world(tmp_path, function, intervals=3)
    for file in Path(pipeline.source.path).glob("*.parquet"):
        events = pl.read_parquet(file)
        events.with_columns(pl.col("symbol").str.extract(r"(\d+)").cast(pl.Int64)).write_parquet(file)
    plain = Plain(pipeline)
    for number in range(3):
        interval = first_interval(pipeline).shifted(number)
        take(pipeline, interval)
        assert results_of(pipeline, interval) == plain.process(interval)
    assert stored(pipeline, "state").schema["key"] == pl.Int64


def test_the_function_runs_once_for_each_key_of_the_interval_and_for_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    calls = tmp_path / "calls.txt"
    pipeline = world(tmp_path, parameters=f'calls = "{calls}"', intervals=3, events=300)
    events = pl.read_parquet(f"{pipeline.source.path}/*.parquet")
    for number in range(3):
        interval = first_interval(pipeline).shifted(number)
        calls.unlink(missing_ok=True)
        take(pipeline, interval)
        own = events.filter((pl.col("ts") >= interval.start) & (pl.col("ts") < interval.end))
        assert sorted(calls.read_text().split()) == sorted(own["symbol"].unique())
        costs = stored(pipeline, "key_costs").filter(pl.col("interval_id") == interval.id)
        assert costs.sort("key").select("key", "rows").rows() == own.group_by("symbol").len().sort("symbol").rows()


def test_state_is_found_without_an_exchange_and_only_that_of_keys_with_rows_reaches_python(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = world(tmp_path, intervals=2, events=100, keys=400)
    first, second = first_interval(pipeline), first_interval(pipeline).shifted(1)
    take(pipeline, first)
    epoch = epochs.current_epoch(pipeline.tables)
    assert epoch is not None
    own = placing_session(spark)
    function = epochs.load_function(pipeline.tables, epoch.function_version)
    operator: Any = pipeline.make_operator()
    rows = rows_of(events_of(read_source(own, pipeline, second), pipeline, second), pipeline, operator, "string")
    log = read_state(own, pipeline.tables, epoch.state_version)
    for in_place in (True, False):
        frames = KeyedWork(operator, function, second, Placing(4, in_place)).frames(rows, log, fold=False)
        assert frames.kept is not None
        assert "MapInArrow" in physical_plan(frames.kept)
        if in_place:
            assert exchanges(frames.kept) == []
        keys = {row["key"] for row in frames.kept.select("key").distinct().collect()}
        frames.release()
        assert keys == {row["key"] for row in rows.select("key").distinct().collect()}
        assert len(set(stored(pipeline, "state")["key"]) - keys) > 5


def test_state_goes_along_when_a_planned_key_changes_its_channel(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = world(tmp_path, parameters="longest = 50", planner="mixed", intervals=4)
    assert run_intervals(pipeline, count=4, say=lambda _: None) == 4
    plain = Plain(pipeline)
    for number in range(4):
        interval = first_interval(pipeline).shifted(number)
        assert results_of(pipeline, interval) == sorted(plain.process(interval, longest=50))
    found = epochs.all_epochs(pipeline.tables)
    moved = [after for before, after in pairwise(found) if after.state_version > before.state_version >= 0]
    assert any(epoch.kind == "migrate" for epoch in moved), "no plan has moved any state"
    newest = found[-1]
    state = stored(pipeline, "state", version=newest.state_version)
    function = epochs.load_function(pipeline.tables, newest.function_version)
    assert state["channel"].to_list() == function.channel_of(state["key"].to_list()).tolist()
