"""The folders of a partitioned source, on whatever file system Spark reads it from: only those that are asked for are listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from rebalance.errors import SourceError
from rebalance.pipeline.intervals import Interval
from rebalance.pipeline.partitions import Partitions

#: Where Spark and Hive put rows whose partition column is null.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Folders:
    """Folders like day=2026-01-31/hour=05 under a root."""

    spark: SparkSession
    root: str
    partitions: Partitions

    def of(self, span: Interval) -> list[str]:
        """Those that have events of a stretch of time, as far as they are there."""
        wanted = [
            "/".join(f"{column}={value}" for column, value in found.items()) for found in self.partitions.of(span)
        ]
        return self._there(wanted)

    def of_no_time(self) -> list[str]:
        """The one for rows without a time, if it is there."""
        return self._there([f"{next(iter(self.partitions.formats))}={_NO_VALUE}"])

    def newest_first(self, since: datetime | None = None) -> Iterator[str]:
        """All of them, or those since a time, the newest first; a level is listed when it is asked for."""
        oldest: list[tuple[int, ...]] = []
        if since is not None:
            (values,) = self.partitions.of(Interval(since, since + timedelta(microseconds=1)))
            oldest = [self.partitions.place_of(column, value) or () for column, value in values.items()]
        yield from self._descend(self.root, list(self.partitions.formats), oldest)

    def _descend(self, folder: str, columns: list[str], oldest: list[tuple[int, ...]]) -> Iterator[str]:
        if not columns:
            yield folder
            return
        for name, place in self._sorted(folder, columns[0]):
            if oldest and place < oldest[0]:
                return
            # Inside a newer folder than that of the oldest time, everything is newer.
            bound = oldest[1:] if oldest and place == oldest[0] else []
            yield from self._descend(f"{folder}/{name}", columns[1:], bound)

    def _sorted(self, folder: str, column: str) -> list[tuple[str, tuple[int, ...]]]:
        """The folders of a column's values, the newest first; refuses others, which no interval would read."""
        found = {}
        for name in self._inner(folder):
            named, _, value = name.partition("=")
            place = self.partitions.place_of(column, value) if named == column else None
            if place is not None:
                found[name] = place
            elif value != _NO_VALUE and not name.startswith(("_", ".")):
                raise SourceError(
                    f"source.partitions says that {folder} has folders like {column}={self.partitions.formats[column]}, "
                    f"but there is {name!r}, which no interval would read. "
                    "Correct the columns, their order or their formats (%-H is an hour without a leading zero), or leave partitions out."
                )
        return sorted(found.items(), key=lambda one: one[1], reverse=True)

    def _there(self, folders: list[str]) -> list[str]:
        found = []
        for folder in (f"{self.root}/{name}" for name in folders):
            path, files = self._opened(folder)
            if files.exists(path):
                found.append(folder)
        return found

    def _inner(self, folder: str) -> list[str]:
        path, files = self._opened(folder)
        if not files.exists(path):
            return []
        return [str(found.getPath().getName()) for found in files.listStatus(path) if found.isDirectory()]

    def _opened(self, folder: str) -> tuple[Any, Any]:
        jvm: Any = self.spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(folder)
        return path, path.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf())
