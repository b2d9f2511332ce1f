"""Time cut into equal pieces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rebalance.errors import OrderError
from rebalance.pipeline.intervals import Interval, cron_of, parse_length, parse_start

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("1 min", "*/1 * * * *"),
        ("15 min", "*/15 * * * *"),
        ("1 h", "0 */1 * * *"),
        ("60 min", "0 */1 * * *"),
        ("12h", "0 */12 * * *"),
        ("1 d", "0 0 * * *"),
    ],
)
def test_a_length_that_divides_a_day_has_a_cron_line(text: str, cron: str) -> None:
    assert cron_of(parse_length(text)) == cron


@pytest.mark.parametrize("text", ["7 min", "5 h", "2 d", "90 min"])
def test_a_length_that_does_not_divide_a_day_is_refused_with_those_that_do(text: str) -> None:
    with pytest.raises(ValueError, match=r"it must be 1, 2, 3"):
        cron_of(parse_length(text))


@pytest.mark.parametrize("text", ["", "soon", "0 h", "1.5 h", "-1 h"])
def test_what_is_no_length_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="15 min"):
        parse_length(text)


def test_interval_ids_sort_as_time_does() -> None:
    first = Interval.starting(FIRST, FIRST, HOUR)
    later = [first.shifted(number) for number in range(50)]
    assert [interval.id for interval in later] == sorted(interval.id for interval in later)
    assert parse_start(first.id) == FIRST


def test_a_start_between_two_intervals_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(OrderError, match="2026-01-01T03:00"):
        Interval.starting(FIRST + 3.5 * HOUR, FIRST, HOUR)


def test_a_start_before_the_first_interval_is_refused() -> None:
    with pytest.raises(OrderError, match=r"before interval\.first"):
        Interval.starting(FIRST - HOUR, FIRST, HOUR)


def test_times_of_other_zones_are_the_same_instants() -> None:
    assert parse_start("2026-01-01T02:00+02:00") == FIRST
    assert parse_start("2026-01-01T00:00") == FIRST


def test_what_is_no_time_is_refused_with_an_example() -> None:
    with pytest.raises(OrderError, match="20260131T0500Z"):
        parse_start("yesterday")
