"""The section [source] and what is watched of time: what a pipeline file may say, and the partitions an interval needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.pipeline.partitions import Partitions

FORMATS = [
    {"day": "%Y-%m-%d"},
    {"day": "%Y%m%d", "hour": "%H"},
    {"year": "%Y", "month": "%-m"},
    {"year": "y%Y", "month": "%m", "day": "%d", "hour": "%-H", "minute": "%M"},
    {"day": "%d.%m.%Y"},
]


def load(folder: Path, source: str, interval: str = "") -> Pipeline:
    file = folder / "p.toml"
    file.write_text(
        f'tables = "t"\n[source]\nkey = "user"\ntime = "ts"\n{source}\n[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n'
        f'{interval}\n[operator]\nname = "windowed_sum"\nparameters = {{value = "amount"}}\n'
    )
    return load_pipeline(file)


@pytest.mark.parametrize(
    ("source", "interval", "message"),
    [
        ("", "", "exactly one of source.path and source.table; it has neither"),
        ('path = "a"\ntable = "b"', "", "it has both"),
        ('table = "b"\nformat = "csv"\ncolumns = "ts TIMESTAMP"', "", "source.table names a Delta table"),
        ('path = "a"\npartitions = {hour = "%H"}', "", "not the year, month and day it is in"),
        ('path = "a"\npartitions = {day = "2026"}', "", "day = '2026' is not a format of time"),
        ('path = "a"\npartitions = {day = "%Y/%m/%d"}', "", "is not a format of time"),
        ('path = "a"\npartitions = {day = "%B %Y"}', "", "is not a format of time"),
        ('path = "a"\npartitions = {hour = "%H", day = "%Y-%m-%d"}', "", "another order than from long to short"),
        ('path = "a"\npartitions = {day = "%Y-%m-%d", month = "%m"}', "", "a part of the time twice"),
        ('path = "a"\non_bad_rows = "drop"', "", "on_bad_rows.*'fail' or 'quarantine'"),
        ('path = "a"', 'watch_late = "a day"', "interval.watch_late = 'a day' is not a length"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write_instead(
    tmp_path: Path, source: str, interval: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, source, interval)


def test_late_events_are_watched_for_when_it_is_asked_for(tmp_path: Path) -> None:
    assert load(tmp_path, 'path = "a"').interval.watch_late == timedelta(0)
    assert load(tmp_path, 'path = "a"', 'watch_late = "0 min"').interval.watch_late == timedelta(0)
    assert load(tmp_path, 'table = "a.b"', 'watch_late = "2 d"').interval.watch_late == timedelta(days=2)


@given(
    start=st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)),
    length=st.sampled_from([timedelta(minutes=15), timedelta(hours=1), timedelta(hours=6), timedelta(days=1)]),
    formats=st.sampled_from(FORMATS),
    part=st.floats(0, 1, exclude_max=True),
)
def test_the_partitions_of_a_stretch_of_time_are_those_of_its_moments_and_cover_it(
    start: datetime, length: timedelta, formats: dict[str, str], part: float
) -> None:
    partitions, span = Partitions(formats), Interval(start, start + length)
    partitions.check()
    found = partitions.of(span)
    moment = start + part * length
    assert partitions.of(Interval(moment, moment + timedelta(microseconds=1)))[0] in found
    covered = partitions.covering(span)
    assert covered.start <= span.start
    assert span.end <= covered.end
    assert partitions.of(covered) == found, "nothing else is in them"
    places = [[partitions.place_of(column, value) or () for column, value in each.items()] for each in found]
    assert all(all(place) for place in places)
    assert places == sorted(places)
