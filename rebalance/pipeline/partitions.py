"""Partition columns of a source that follow from the events' time: which of them an interval needs.

A column has a format, as in day = "%Y-%m-%d" or hour = "%H", for the time in UTC. Together they name a stretch of time: a year, a month, a
day, an hour or a minute. A dash leaves the leading zero out, as Spark does with numbers: "%-H".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rebalance.pipeline.intervals import Interval

#: What a format may have of a time, the longest first, with the digits it is written with.
_PARTS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2}
_NAMES = {"Y": "year", "m": "month", "d": "day", "H": "hour", "M": "minute"}
_DIRECTIVE = re.compile(r"%(-?)(.?)")


@dataclass(frozen=True)
class Partitions:
    """The declared columns, outermost first, with their formats."""

    formats: Mapping[str, str]

    def check(self) -> None:
        """Refuse formats that do not name one stretch of time.

        >>> Partitions({"hour": "%H"}).check()
        Traceback (most recent call last):
        ValueError: source.partitions names the hour, but not the year, month and day it is in. Add a column for them, for example day = "%Y-%m-%d".
        """
        for column, written in self.formats.items():
            named = _parts(written)
            if not named or set(named) - set(_PARTS) or not re.fullmatch(r"[\w. -]+", _DIRECTIVE.sub("0", written)):
                raise ValueError(
                    f"source.partitions: {column} = {written!r} is not a format of time. "
                    "Use %Y, %m, %d, %H and %M (without leading zeros: %-m, %-d, %-H, %-M), letters, digits, '_', '-' and '.'."
                )
        finest = self._unit
        missing = [_NAMES[part] for part in _PARTS if part not in self._used and _longer(part, finest)]
        if missing:
            where = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
            raise ValueError(
                f"source.partitions names the {_NAMES[finest]}, but not the {where} it is in. "
                'Add a column for them, for example day = "%Y-%m-%d".'
            )

        if [
            part for written in self.formats.values() for part in sorted(_parts(written), key=list(_PARTS).index)
        ] != sorted(self._used, key=list(_PARTS).index):
            raise ValueError(
                "source.partitions has the columns in another order than from long to short, or a part of the time twice. "
                "Name each part once, the year first, for example year, month, day."
            )

    def of(self, span: Interval) -> list[dict[str, str]]:
        """The values of the columns in each partition that has events of a stretch of time.

        >>> from datetime import datetime
        >>> day = Interval(datetime(2026, 1, 1, 22), datetime(2026, 1, 2))
        >>> Partitions({"day": "%Y-%m-%d", "hour": "%-H"}).of(day)
        [{'day': '2026-01-01', 'hour': '22'}, {'day': '2026-01-01', 'hour': '23'}]
        """
        return [{column: _written(f, time) for column, f in self.formats.items()} for time in self._starts(span)]

    def covering(self, span: Interval) -> Interval:
        """The stretch of time of all these partitions together."""
        *_, last = self._starts(span)
        return Interval(self._floor(span.start), self._next(last))

    def place_of(self, column: str, value: str) -> tuple[int, ...] | None:
        """A value of a column as numbers that sort by time; None if it is not written in the column's format.

        >>> Partitions({"day": "%d-%m-%Y"}).place_of("day", "31-01-2026")
        (2026, 1, 31)
        """
        written = self.formats[column]
        pattern = re.sub(r"\\?%\\?(-?)([YmdHM])", _pattern, re.escape(written))
        found = re.fullmatch(pattern, value)
        if not found:
            return None
        parts = _parts(written)
        return tuple(int(found[1 + parts.index(part)]) for part in _PARTS if part in parts)

    def sorts_as_text(self, column: str) -> bool:
        """Whether a column's values sort by time as they are written."""
        written = self.formats[column]
        return "%-" not in written and _parts(written) == sorted(_parts(written), key=list(_PARTS).index)

    @property
    def _used(self) -> set[str]:
        return {part for written in self.formats.values() for part in _parts(written)}

    @property
    def _unit(self) -> str:
        """The finest part of the time that the columns name."""
        return next((part for part in reversed(_PARTS) if part in self._used), "")

    def _starts(self, span: Interval) -> Iterator[datetime]:
        time = self._floor(span.start)
        while time < span.end:
            yield time
            time = self._next(time)

    def _floor(self, time: datetime) -> datetime:
        kept = list(_PARTS).index(self._unit) + 1
        parts = [time.year, time.month, time.day, time.hour, time.minute][:kept] + [1, 1, 1, 0, 0][kept:]
        year, month, day, hour, minute = parts
        return datetime(year, month, day, hour, minute, tzinfo=time.tzinfo)

    def _next(self, time: datetime) -> datetime:
        if self._unit == "Y":
            return time.replace(year=time.year + 1)
        if self._unit == "m":
            return (time + timedelta(days=31)).replace(day=1)
        return time + {"d": timedelta(days=1), "H": timedelta(hours=1), "M": timedelta(minutes=1)}[self._unit]


def _parts(written: str) -> list[str]:
    """The parts of the time in a format, as they come."""
    return [found[2] for found in _DIRECTIVE.finditer(written)]


def _longer(one: str, other: str) -> bool:
    order = list(_PARTS)
    return order.index(one) < order.index(other)


def _written(written: str, time: datetime) -> str:
    def part(found: re.Match[str]) -> str:
        digits = 0 if found[1] else _PARTS[found[2]]
        return f"{getattr(time, _NAMES[found[2]]):0{digits}d}"

    return _DIRECTIVE.sub(part, written)


def _pattern(found: re.Match[str]) -> str:
    return r"(0|[1-9]\d*)" if found[1] else rf"(\d{{{_PARTS[found[2]]}}})"
