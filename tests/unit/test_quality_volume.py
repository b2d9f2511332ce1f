"""The volume check: it follows a daily rhythm, one odd day does not move it, and it stops or warns as asked."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rebalance.errors import QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.quality.facts import Usual, read_facts, usual_rows
from rebalance.quality.runs import require_passed
from rebalance.storage import control
from tests.support.checking import check_quality
from tests.support.counted import counted_pipeline, first_interval, key_row, put_statistics, put_volume

DAY = 24


def now(pipeline: Pipeline) -> Interval:
    """An interval with days before it."""
    return first_interval(pipeline).shifted(10 * DAY + 3)


def put_history(pipeline: Pipeline, history: dict[int, int]) -> None:
    """Rows of earlier intervals, by how many intervals ago."""
    for ago, rows in history.items():
        put_volume(pipeline, now(pipeline).shifted(-ago), rows)


@pytest.mark.parametrize(
    ("ago", "usual"),
    [
        pytest.param({}, None, id="nothing is usual in the beginning"),
        pytest.param({1: 30, 2: 10, 3: 20}, Usual(20, "in 3 intervals before"), id="lately, before there are days"),
        pytest.param({1: 30, 2: 10}, Usual(20, "in 2 intervals before"), id="the mean of the two in the middle"),
        pytest.param({1: 5, DAY: 900}, Usual(5, "in the interval before"), id="one day is not enough"),
        pytest.param(
            {1: 5, DAY: 900, 2 * DAY: 1000},
            Usual(950, "at this time on 2 earlier days"),
            id="the same time of day goes before the hours before",
        ),
        pytest.param(
            {DAY: 10, 2 * DAY: 10**9, 4 * DAY: 12},
            Usual(12, "at this time on 3 earlier days"),
            id="one odd day does not move it, and a day may be missing",
        ),
        pytest.param({9: 7, 9 * DAY: 7, 10 * DAY: 7}, None, id="what is too long ago does not count"),
        pytest.param({DAY: 0, 2 * DAY: 0, 1: 50}, None, id="where nothing is usual there is nothing to compare"),
    ],
)
def test_what_is_usual(tmp_path: Path, ago: dict[int, int], usual: Usual | None) -> None:
    interval = now(counted_pipeline(tmp_path))
    rows = {interval.shifted(-n).id: count for n, count in ago.items()}
    assert usual_rows(rows, interval, 8) == usual


def test_without_history_nothing_is_compared(tmp_path: Path) -> None:
    interval = now(counted_pipeline(tmp_path))
    assert usual_rows({interval.shifted(-1).id: 5}, interval, 0) is None


def test_days_as_intervals_are_compared_with_the_days_before(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, length="1 d")
    interval = first_interval(pipeline).shifted(9)
    rows = {interval.shifted(-n).id: 10 * n for n in range(1, 10)}
    assert usual_rows(rows, interval, 3) == Usual(20, "at this time on 3 earlier days")


def test_a_night_after_a_busy_day_passes_and_a_busy_night_does_not(tmp_path: Path) -> None:
    """Hours of 100,000 rows by day and 100 by night: a factor of 1,000 within the day, every day the same."""
    pipeline = counted_pipeline(tmp_path, "volume_factor = 3.0")
    interval = now(pipeline)
    put_history(pipeline, {ago: 100 if ago % DAY == 0 else 100_000 for ago in range(1, 3 * DAY + 1)})
    put_statistics(pipeline, interval, [key_row("a", tuples=120)])
    assert "passed" in check_quality(pipeline, interval)
    busy = interval.shifted(DAY)
    put_statistics(pipeline, busy, [key_row("a", tuples=100_000)])
    with pytest.raises(QualityError, match=r"usual are 100 rows, the median at this time on 4 earlier days\).*100000"):
        check_quality(pipeline, busy)


@pytest.mark.parametrize("tuples", [34, 299])
def test_within_the_factor_either_way_is_usual(tmp_path: Path, tuples: int) -> None:
    pipeline = counted_pipeline(tmp_path, "volume_factor = 3.0")
    put_history(pipeline, {1: 100})
    put_statistics(pipeline, now(pipeline), [key_row("a", tuples=tuples)])
    assert "passed" in check_quality(pipeline, now(pipeline))


@pytest.mark.parametrize("tuples", [33, 301])
def test_beyond_the_factor_either_way_stops_planning(tmp_path: Path, tuples: int) -> None:
    pipeline = counted_pipeline(tmp_path, "volume_factor = 3.0")
    put_history(pipeline, {1: 100})
    put_statistics(pipeline, now(pipeline), [key_row("a", tuples=tuples)])
    said = rf"1 of \d+ checks .*expect_column_sum_to_be_between on tuples .*usual are 100 rows.*observed {tuples}"
    with pytest.raises(QualityError, match=said):
        check_quality(pipeline, now(pipeline))


def test_an_unusual_volume_only_warns_if_so_asked(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, 'volume_factor = 3.0\nvolume = "warn"')
    put_history(pipeline, {1: 100})
    put_statistics(pipeline, now(pipeline), [key_row("a", tuples=1000)])
    said = check_quality(pipeline, now(pipeline))
    assert "checks on 1 keys passed; 1 warning: expect_column_sum_to_be_between on tuples" in said
    assert "observed 1000" in said
    failed = [row for row in control.rows(pipeline.tables, "quality_runs") if not row["success"]]
    assert [row["severity"] for row in failed] == ["warn"]
    require_passed(pipeline.tables, now(pipeline).id)
    assert "passed already" in check_quality(pipeline, now(pipeline))


@pytest.mark.parametrize("keys", [[], [key_row("a", tuples=0, cost=0.0)]], ids=["no keys", "keys that hold state"])
def test_no_rows_where_some_are_usual_is_a_warning_and_stops_nothing(tmp_path: Path, keys: list[object]) -> None:
    pipeline = counted_pipeline(tmp_path)
    put_history(pipeline, {1: 100})
    put_statistics(pipeline, now(pipeline), keys)  # type: ignore[arg-type]
    assert "; 1 warning: expect_column_sum_to_be_between on tuples" in check_quality(pipeline, now(pipeline))
    require_passed(pipeline.tables, now(pipeline).id)


def test_no_rows_where_none_are_usual_are_ordinary(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    put_history(pipeline, {DAY: 0, 2 * DAY: 0, 1: 100})
    put_statistics(pipeline, now(pipeline), [])
    assert check_quality(pipeline, now(pipeline)).endswith("passed")


def test_a_stop_and_a_warning_are_both_named(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, 'volume = "warn"')
    put_history(pipeline, {1: 1000})
    put_statistics(pipeline, now(pipeline), [key_row("a", slot=-1)])
    with pytest.raises(QualityError, match=r"1 of \d+ checks .*on slot .* \| warning: .*usual are 1,000 rows"):
        check_quality(pipeline, now(pipeline))


def test_only_the_intervals_that_matter_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = counted_pipeline(tmp_path, "volume_history = 4")
    interval = now(pipeline)
    put_history(pipeline, dict.fromkeys(range(30), 10))
    asked: list[str] = []
    read = control.rows

    def watched(root: str, table: str, **what: object) -> object:
        if table == "interval_stats":
            asked.extend(what["interval_id"])  # type: ignore[call-overload]
        return read(root, table, **what)  # type: ignore[arg-type]

    monkeypatch.setattr(control, "rows", watched)
    assert read_facts(pipeline, interval).usual == Usual(10, "in 4 intervals before")
    wanted = [timedelta(), *(timedelta(hours=n) for n in range(1, 5)), *(timedelta(days=n) for n in range(1, 5))]
    assert asked == sorted({Interval(interval.start - back, interval.end - back).id for back in wanted})
