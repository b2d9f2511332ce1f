"""Time cut into equal pieces: one interval is one batch and one Airflow data interval."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rebalance.errors import OrderError

_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_DAY = timedelta(days=1)
#: How an interval is written in tables and paths: sorts as text, needs no escaping.
ID_FORMAT = "%Y%m%dT%H%MZ"


def parse_length(text: str, knob: str = "interval.length") -> timedelta:
    """'15 min', '1 h' or '1 d' as a length.

    >>> parse_length("15 min")
    datetime.timedelta(seconds=900)
    """
    length = parse_span(text, knob)
    if not length:
        raise _no_length(text, knob)
    return length


def parse_span(text: str, knob: str) -> timedelta:
    """A length that may be nothing.

    >>> parse_span("0 min", "interval.grace")
    datetime.timedelta(0)
    """
    match = re.fullmatch(r"\s*(\d{1,6})\s*(min|h|d)\s*", text)
    if not match:
        raise _no_length(text, knob)
    return int(match[1]) * _UNITS[match[2]]


def _no_length(text: str, knob: str) -> ValueError:
    return ValueError(f"{knob} = {text!r} is not a length. Write for example '15 min', '1 h' or '1 d'.")


def cron_of(length: timedelta) -> str:
    """The cron line whose data intervals have this length.

    >>> cron_of(timedelta(hours=6))
    '0 */6 * * *'
    """
    minutes = length // timedelta(minutes=1)
    if length == _DAY:
        return "0 0 * * *"
    if minutes and 60 % minutes == 0 and minutes < 60:
        return f"*/{minutes} * * * *"
    if minutes and minutes % 60 == 0 and 24 % (minutes // 60) == 0:
        return f"0 */{minutes // 60} * * *"
    raise ValueError(
        f"interval.length = {length} cannot be scheduled: it must be 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30 min, "
        "1, 2, 3, 4, 6, 8 or 12 h, or 1 d."
    )


@dataclass(frozen=True, order=True)
class Interval:
    """A half-open piece of time [start, end)."""

    start: datetime
    end: datetime

    @classmethod
    def starting(cls, start: datetime, first: datetime, length: timedelta) -> Interval:
        """The interval that starts at `start`; refuses times at which no interval of the pipeline starts."""
        start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
        if start < first:
            raise OrderError(
                f"{start.isoformat()} is before interval.first = {first.isoformat()}. Choose a later interval, or an earlier interval.first "
                "with an empty table root."
            )
        if (start - first) % length:
            raise OrderError(
                f"no interval starts at {start.isoformat()}: they are {length} long and start at {first.isoformat()}. "
                f"The nearest earlier one is {(start - (start - first) % length).isoformat()}."
            )
        return cls(start, start + length)

    @property
    def id(self) -> str:
        """Name in tables and paths."""
        return self.start.strftime(ID_FORMAT)

    def shifted(self, intervals: int) -> Interval:
        """The interval that many intervals later (earlier when negative)."""
        by = intervals * (self.end - self.start)
        return Interval(self.start + by, self.end + by)

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M} .. {self.end:%Y-%m-%d %H:%M} UTC"


def parse_start(text: str) -> datetime:
    """A start time as an interval id or ISO 8601 (UTC when it names no zone)."""
    try:
        return datetime.strptime(text, ID_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise OrderError(f"{text!r} is not a time. Write 20260131T0500Z or 2026-01-31T05:00.") from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
