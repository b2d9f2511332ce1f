"""Keys that are named only where they are frequent: the same results, loads that are reached as planned, and an error that is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.documents.interval import interval_document
from rebalance.documents.key import key_document
from rebalance.documents.plan import plan_document
from rebalance.documents.trial import try_plan
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.approvals import plan_in_words
from rebalance.storage.epochs import load_function
from rebalance.storage.held import NUMBERS
from rebalance.storage.held_frequent import share_of
from rebalance.storage.history import max_over_mean, read_history
from rebalance.storage.reader import open_tables
from rebalance.storage.statistics import loads_under
from tests.support.budget import is_long
from tests.support.few_names import (
    check_again,
    check_more_channels,
    check_places,
    check_quality_of,
    check_reached,
    check_results,
    check_stopped,
)
from tests.support.world import (
    WINDOWED_SUM,
    Stages,
    check_schemas,
    first_interval,
    make_world,
    run_in_stages,
    stored,
)

INTERVALS = 5
#: A coarse error: most of the keys need no name.
COARSE = 'mixed"\nstatistics = "frequent"\nfrequent_error = 0.02\nmode = "auto'
SESSIONS = """
[operator]
name = "sessions"
window = 2
[operator.parameters]
kind = "side"
"""
#: One that keeps something else than its rows, and one that keeps them.
OPERATORS = [WINDOWED_SUM, SESSIONS]
#: From one way of counting to another.
CHANGES = [("exact", "frequent"), ("frequent", "compact"), ("compact", "frequent"), ("frequent", "exact")]
pytestmark = pytest.mark.usefixtures("few_rows")


def operator_named(operator: str) -> str:
    return operator.split('"')[1]


def intervals(pipeline: Pipeline) -> list[str]:
    return [first_interval(pipeline).shifted(number).id for number in range(INTERVALS)]


@pytest.fixture(scope="module")
def stages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stages:
    folder = tmp_path_factory.mktemp("frequent")
    pipeline = make_world(folder / "world", planner=COARSE, intervals=INTERVALS)
    return run_in_stages(pipeline, folder, INTERVALS)


@pytest.fixture(scope="module")
def exact(stages: Stages, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The same events, counted exactly."""
    planner = COARSE.replace("frequent", "exact", 1)
    events = Path(stages.pipeline.source.path)
    pipeline = make_world(tmp_path_factory.mktemp("exact"), planner=planner, events_folder=events)
    run_intervals(pipeline, count=INTERVALS)
    return pipeline


def of_interval(pipeline: Pipeline, table: str, interval_id: str) -> pl.DataFrame:
    return stored(pipeline, table).filter(pl.col("interval_id") == interval_id)


def check_against_exact(pipeline: Pipeline, exact: Pipeline, interval_id: str) -> None:
    """What is stored of an interval against exact statistics: names, sums and bounds."""
    all_keys = of_interval(exact, "key_stats", interval_id)
    named = of_interval(pipeline, "key_stats", interval_id)
    theirs = all_keys.filter(pl.col("key").is_in(named["key"].implode()))
    columns = ["key", "slot", "hash_channel", "cost", *NUMBERS]
    assert_frame_equal(named.select(columns).sort("key"), theirs.select(columns).sort("key"))
    left = all_keys.filter(~pl.col("key").is_in(named["key"].implode()))
    expected = left.group_by("slot").agg(pl.col(name).sum() for name in ("cost", *NUMBERS)).sort("slot")
    rest = of_interval(pipeline, "slot_stats", interval_id)
    assert_frame_equal(rest.select(expected.columns).sort("slot"), expected)
    (counted,) = control.rows(pipeline.tables, "interval_stats", interval_id=interval_id)
    for name, bound in (
        ("tuples", "unnamed_tuples"),
        ("held_rows", "unnamed_held"),
        ("added_rows", "unnamed_added"),
        ("cost", "unnamed_cost"),
    ):
        assert (left[name].max() or 0) <= counted[bound], name
        error = pipeline.planning.error(pipeline.channels.count)
        if name != "cost":
            assert counted[bound] <= max(1, error * all_keys[name].sum()), name


def test_results_equal_a_plain_recomputation_in_every_interval(stages: Stages) -> None:
    check_results(stages.pipeline, range(INTERVALS))


def test_most_keys_are_counted_without_a_name_and_state_moves_all_the_same(stages: Stages) -> None:
    root = stages.pipeline.tables
    for counted in control.rows(root, "interval_stats"):
        named = control.count(root, "key_stats", interval_id=counted["interval_id"])
        assert counted["statistics"] == "frequent"
        assert 0 < named < 50
        assert counted["rows"] == 3000
    records = read_history(root)
    assert any(record.moved_bytes for record in records[1:])
    assert any(record.reached < record.before for record in records)


def test_named_keys_are_exact_the_rest_adds_up_and_no_other_key_is_above_the_stated_bounds(
    stages: Stages, exact: Pipeline
) -> None:
    for interval_id in intervals(exact):
        check_against_exact(stages.pipeline, exact, interval_id)


def test_every_key_with_the_wanted_share_has_a_name_and_no_other_but_those_listed(
    stages: Stages, exact: Pipeline
) -> None:
    routed: set[Any] = set()
    for interval_id in intervals(exact):
        all_keys = of_interval(exact, "key_stats", interval_id)
        named = set(of_interval(stages.pipeline, "key_stats", interval_id)["key"])
        large: set[Any] = set()
        for name in ("tuples", "held_rows", "added_rows"):
            least = share_of(0.02, all_keys[name].sum())
            large |= set(all_keys.filter(pl.col(name) >= least)["key"])
        assert large <= named <= large | routed
        (batch,) = control.rows(stages.pipeline.tables, "batches", interval_id=interval_id)
        routed = set(load_function(stages.pipeline.tables, batch["function_version"]).routes)


def test_what_the_plan_predicted_is_what_was_reached(stages: Stages) -> None:
    check_reached(stages.pipeline, range(INTERVALS))


def test_a_key_without_a_name_that_goes_elsewhere_changes_what_was_reached_by_no_more_than_the_stated_error(
    stages: Stages, exact: Pipeline
) -> None:
    root, told = stages.pipeline.tables, []
    for interval_id in intervals(exact):
        (plan,) = control.rows(root, "plans", interval_id=interval_id)
        (batch,) = control.rows(root, "batches", interval_id=interval_id)
        function, error = load_function(root, batch["function_version"]), plan["error"]
        assert f"± {error:.2g}" in plan["reason"]
        all_keys = control.read(exact.tables, "key_stats", interval_id=interval_id)
        loads = loads_under(function, all_keys)
        # Recounted from all keys, the loads are the ones that were planned.
        assert loads.tolist() == plan["loads_after"]
        named = set(of_interval(stages.pipeline, "key_stats", interval_id)["key"])
        reached, most = max_over_mean(loads.tolist()), 0.0
        others = [
            (key, cost)
            for key, cost in zip(all_keys["key"].to_pylist(), all_keys["cost"].to_pylist(), strict=True)
            if key not in named
        ]
        home = function.channel_of([key for key, _ in others])
        for (_, cost), channel in zip(others, home, strict=True):
            for to in set(range(4)) - {int(channel)}:
                moved = loads.copy()
                moved[channel] -= cost
                moved[to] += cost
                most = max(most, abs(max_over_mean(moved.tolist()) - reached))
        assert 0 < most <= error * (1 + 1e-9)
        told.append(error)
    # Of 0.02 of the rows, a channel has four times that share; the window's cost has both intervals.
    assert all(0.02 < error <= 0.08 for error in told)


@pytest.mark.parametrize("error", [0.005, 0.0005])
def test_a_finer_error_names_more_keys_and_is_told(stages: Stages, tmp_path: Path, error: float) -> None:
    (before,) = control.rows(stages.pipeline.tables, "plans", interval_id=intervals(stages.pipeline)[0])
    pipeline = stages.copy(tmp_path, "0 collect_stats", "0.02\nmode", f"{error}\nmode")
    run_intervals(pipeline, count=2)
    check_results(pipeline, range(2))
    plans = [control.rows(pipeline.tables, "plans", interval_id=one)[0] for one in intervals(pipeline)[:2]]
    assert all(plan["error"] <= error * 4 < before["error"] for plan in plans)
    coarse = control.count(stages.pipeline.tables, "key_stats", interval_id=intervals(pipeline)[1])
    assert control.count(pipeline.tables, "key_stats", interval_id=intervals(pipeline)[1]) > coarse


def test_every_state_row_is_where_the_function_says(stages: Stages) -> None:
    check_places(stages.pipeline)


def test_checks_of_quality_hold_and_know_the_rows_of_keys_without_a_name(stages: Stages) -> None:
    check_quality_of(stages.pipeline, INTERVALS)


def test_the_tables_have_the_columns_of_their_schemas(stages: Stages) -> None:
    check_schemas(stages.pipeline.tables, "string")
    assert not control.exists(stages.pipeline.tables, "key_sums")


@pytest.mark.parametrize("step", ["2 collect_stats", "2 make_plan", "2 process_batch"])
def test_a_step_that_is_run_again_gives_the_same(stages: Stages, tmp_path: Path, step: str) -> None:
    check_again(stages, tmp_path, step, INTERVALS)


@pytest.mark.parametrize("moment", ["keys stored", "channels stored"])
def test_counting_that_is_stopped_on_the_way_and_run_again_gives_the_same(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    check_stopped(stages, tmp_path, monkeypatch, moment)


def test_names_and_figures_do_not_hang_on_how_the_rows_lie_in_files(stages: Stages, tmp_path: Path) -> None:
    events = pl.read_parquet(f"{stages.pipeline.source.path}/*.parquet")
    shuffled = tmp_path / "events"
    shuffled.mkdir()
    for number, part in enumerate(events.sample(fraction=1.0, shuffle=True, seed=1).iter_slices(1700)):
        part.write_parquet(shuffled / f"{number}.parquet")
    pipeline = make_world(tmp_path / "world", planner=COARSE, events_folder=shuffled)
    run_intervals(pipeline, count=3)
    for table in ("key_stats", "slot_stats", "channel_stats", "functions"):
        ours, theirs = (
            stored(one, table).filter(pl.col("interval_id").is_in(intervals(pipeline)[:3]))
            for one in (pipeline, stages.pipeline)
        )
        assert_frame_equal(ours, theirs)


def test_documents_know_the_error_and_say_which_keys_have_no_name(stages: Stages) -> None:
    pipeline, newest = stages.pipeline, intervals(stages.pipeline)[-1]
    named = control.read(pipeline.tables, "key_stats", columns=["key"], interval_id=newest)["key"].to_pylist()
    state = stored(pipeline, "state", version=open_tables(pipeline.tables).state_version)
    found = interval_document(pipeline, newest)
    assert found["keys"] == sum(channel["keys"] for channel in found["channels"])
    assert abs(found["keys"] - 200) < 40
    assert found["reached"] == found["planned"]
    error = found["plan"]["error"]
    assert 0 < error < 0.1
    nameless = min(set(state["key"]) - set(named))
    assert "not among the keys that were counted by name" in key_document(pipeline, nameless)["why"]
    assert "events" in key_document(pipeline, named[0])["why"].rpartition("it had")[2]
    assert try_plan(pipeline, planner="frugal", channels=5)["keys"] == found["keys"]
    plan = plan_document(pipeline)
    assert plan["certificate"] is None
    (row,) = control.rows(pipeline.tables, "plans", interval_id=newest)
    assert f" ± {error:.2g} |" in plan_in_words({**row, "digest": "d" * 64})
    assert any(line.get("error") == error for line in stages.lines if line.get("step") == "make_plan")


def test_adding_channels_moves_keys_that_have_no_name(stages: Stages, tmp_path: Path) -> None:
    check_more_channels(stages, tmp_path)


@pytest.mark.parametrize(("before", "after"), CHANGES if is_long() else CHANGES[:2])
def test_the_way_of_counting_can_be_changed_between_intervals(
    stages: Stages, exact: Pipeline, tmp_path: Path, before: str, after: str
) -> None:
    planner = COARSE.replace("frequent", before, 1)
    pipeline = make_world(tmp_path, planner=planner, events_folder=Path(stages.pipeline.source.path))
    run_intervals(pipeline, count=2)
    file = pipeline.file
    file.write_text(file.read_text().replace(f'statistics = "{before}"', f'statistics = "{after}"'))
    pipeline = load_pipeline(file)
    run_intervals(pipeline, first=first_interval(pipeline).shifted(2), count=3)
    check_results(pipeline, (2, 3, 4))
    for number in (2, 3, 4):
        interval = first_interval(pipeline).shifted(number)
        if after == "frequent":
            check_against_exact(pipeline, exact, interval.id)
        mine, theirs = (control.rows(one.tables, "channel_stats", interval_id=interval.id) for one in (pipeline, exact))
        assert sum(row["held_bytes"] for row in mine) == sum(row["held_bytes"] for row in theirs)


@pytest.mark.parametrize("operator", OPERATORS if is_long() else OPERATORS[:1], ids=operator_named)
def test_operators_that_keep_their_rows_and_others_are_counted_alike_in_a_longer_window(
    spark: SparkSession, stages: Stages, tmp_path: Path, operator: str
) -> None:
    ours, exact = (
        make_world(
            tmp_path / statistics,
            operator=operator.replace("window = 2", "window = 3"),
            planner=COARSE.replace("frequent", statistics, 1),
            events_folder=Path(stages.pipeline.source.path),
        )
        for statistics in ("frequent", "exact")
    )
    for pipeline in (ours, exact):
        run_intervals(pipeline, count=INTERVALS)
    for interval_id in intervals(ours):
        check_against_exact(ours, exact, interval_id)
        mine, theirs = (of_interval(one, "results", interval_id).sort(pl.all()) for one in (ours, exact))
        assert_frame_equal(mine, theirs)


def test_intervals_without_events_are_counted_with_what_is_held_and_then_with_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = make_world(tmp_path, planner=COARSE, intervals=1)
    run_intervals(pipeline, count=4)
    counted = sorted(control.rows(pipeline.tables, "interval_stats"), key=lambda row: str(row["interval_id"]))
    assert [row["rows"] for row in counted] == [3000, 0, 0, 0]
    assert counted[0]["keys"] > 100
    assert counted[1]["keys"] > 100
    assert [row["keys"] for row in counted[2:]] == [0, 0]
    assert [plan["decision"] for plan in control.rows(pipeline.tables, "plans")].count("reject") == 0
    assert np.isfinite([plan["error"] for plan in control.rows(pipeline.tables, "plans")]).all()
