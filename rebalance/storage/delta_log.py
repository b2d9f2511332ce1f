"""A table's Delta log, read as files: which commits are there, who made them, and which data files each version names.

delta-rs tells the files of a version, but neither their deletion vectors nor who committed what; both are needed to clean up safely, and
without starting Spark.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from rebalance.errors import RebalanceError
from rebalance.storage.control import table_path
from rebalance.stores.access import filesystem

FOLDER = "_delta_log"
_COMMIT = re.compile(rf"{FOLDER}/(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{FOLDER}/(\d{{20}})\.checkpoint\.parquet")
#: Delta writes the names of deletion vectors in another alphabet of base 85 than Python reads.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)

Action = dict[str, Any]


@dataclass(frozen=True)
class StoredFile:
    """A file under a table's folder."""

    #: Relative to the table.
    path: str
    size: int
    changed: datetime


@dataclass(frozen=True)
class TableFiles:
    """A table's folder as it was listed once: its log, and everything else."""

    root: str
    table: str

    @cached_property
    def store(self) -> pa_fs.FileSystem:
        """The table's folder as a file system."""
        return filesystem(table_path(self.root, self.table))

    @cached_property
    def all(self) -> list[StoredFile]:
        """Every file, in the order of their paths."""
        found = self.store.get_file_info(pa_fs.FileSelector("", recursive=True))
        files = (StoredFile(info.path, info.size, info.mtime) for info in found if info.type == pa_fs.FileType.File)
        return sorted(files, key=lambda file: file.path)

    @cached_property
    def commits(self) -> dict[int, StoredFile]:
        """The log's entries by version, in order."""
        return self._numbered(_COMMIT)

    @cached_property
    def checkpoints(self) -> dict[int, StoredFile]:
        """The log's checkpoints by version, in order."""
        return self._numbered(_CHECKPOINT)

    def _numbered(self, pattern: re.Pattern[str]) -> dict[int, StoredFile]:
        found = ((pattern.fullmatch(file.path), file) for file in self.all)
        return {int(match[1]): file for match, file in found if match}

    @property
    def head(self) -> int:
        """The newest version."""
        return max(self.commits)

    def actions(self, version: int) -> list[Action]:
        """What a version's entry in the log says."""
        with self.store.open_input_file(self.commits[version].path) as file:
            return [json.loads(line) for line in file.read().decode().splitlines() if line]

    def base_of(self, version: int) -> int | None:
        """The newest checkpoint up to this version; None if there is none."""
        return max((at for at in self.checkpoints if at <= version), default=None)

    def files_at(self, version: int) -> dict[str, Action]:
        """The log entries of the files that a version names, by path."""
        base = self.base_of(version)
        found = {add["path"]: add for add in self._checkpointed(base)}
        for number in self._range(base, version):
            actions = self.actions(number)
            # A file whose hidden rows change is removed and added in one entry, in any order.
            for path in [action["remove"]["path"] for action in actions if "remove" in action]:
                found.pop(path, None)
            found |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
        return found

    def named_since(self, version: int) -> set[str]:
        """Paths of all data files and deletion vectors that this version, or a later one, names."""
        adds = list(self.files_at(version).values())
        for number in range(version + 1, self.head + 1):
            adds += [action["add"] for action in self.actions(number) if "add" in action]
        return {name for add in adds for name in _names(add)}

    def _range(self, base: int | None, version: int) -> range:
        numbers = range(0 if base is None else base + 1, version + 1)
        missing = [number for number in numbers if number not in self.commits]
        if missing:
            raise RebalanceError(
                f"version {version} of the table {self.table} can no longer be read: {len(missing)} entries of its log are gone, "
                f"version {missing[0]} for one. Nothing was changed."
            )
        return numbers

    def _checkpointed(self, version: int | None) -> list[Action]:
        if version is None:
            return []
        with self.store.open_input_file(self.checkpoints[version].path) as file:
            parquet = pq.ParquetFile(file)
            columns = [name for name in ("add", "sidecar") if name in parquet.schema_arrow.names]
            rows = parquet.read(columns=columns).to_pylist()
        if any(row.get("sidecar") for row in rows):
            raise RebalanceError(
                f"checkpoint {version} of the table {self.table} has its files in sidecars, which maintenance does not read. "
                "Nothing was changed. Set the table's delta.checkpointPolicy to classic."
            )
        return [{**row["add"], "partitionValues": dict(row["add"]["partitionValues"])} for row in rows if row["add"]]


def hidden_rows(add: Action) -> int:
    """How many rows of a file its deletion vector hides."""
    return int((add.get("deletionVector") or {}).get("cardinality", 0))


def identity(add: Action) -> tuple[Any, ...]:
    """What makes two log entries mean the same rows: the file and what it hides."""
    vector = add.get("deletionVector") or {}
    return (add["path"], *(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset")))


def _names(add: Action) -> list[str]:
    """The paths, below the table, of a file and of its deletion vector."""
    names, vector = [unquote(add["path"])], add.get("deletionVector")
    if vector and vector["storageType"] == "u":
        names.append(vector_path(vector["pathOrInlineDv"]))
    return names


def vector_path(coded: str) -> str:
    """Where a deletion vector lies below its table: an optional folder, and a UUID in base 85.

    >>> vector_path("ab^-aqEH.-t@S}K{vb[*k^")
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    folder, code = coded[:-20], coded[-20:]
    name = f"deletion_vector_{UUID(bytes=base64.b85decode(code.translate(_TO_B85)))}.bin"
    return f"{folder}/{name}" if folder else name
