"""The state table's log as Delta keeps it: its data files, the rows they hide, and one commit that changes both.

Delta's UPDATE and MERGE find the rows, look the files' statistics up and join them again in a dozen Spark jobs, and say nothing of the
rows they touched. A migration knows its rows by file and position already. So it asks Delta's own parts for the rest, in Delta's own
process: its kernel for the files (no Spark job), its reader, its writer, its deletion vectors, its transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession

from rebalance.spark.session import own_session
from rebalance.storage.control import table_path
from rebalance.storage.entries import commit_entry
from rebalance.stores.places import for_spark

_DELTA = "org.apache.spark.sql.delta"


@dataclass(frozen=True)
class DataFile:
    """A file of the table at one version: what the log says of it."""

    add: dict[str, Any]

    @property
    def path(self) -> str:
        """Its path below the table, as the log writes it."""
        return str(self.add["path"])

    @property
    def partition(self) -> tuple[str, int]:
        """The interval and the channel whose rows it holds."""
        return str(self.add["partitionValues"]["interval_id"]), self.channel

    @property
    def channel(self) -> int:
        """The channel whose rows it holds."""
        return int(self.add["partitionValues"]["channel"])

    @property
    def records(self) -> int:
        """Rows in the file, hidden ones too."""
        return int(json.loads(self.add["stats"])["numRecords"])


@contextmanager
def state_log(spark: SparkSession, root: str) -> Iterator[StateLog]:
    """The state's log in a session of its own, whose settings would leak into later writes otherwise."""
    own = own_session(spark, {"spark.sql.adaptive.enabled": "false"})
    sessions = getattr(_jvm(spark), "org.apache.spark.sql.SparkSession")
    # Delta's parts take the session that is active in the thread.
    sessions.setActiveSession(own._jsparkSession)
    try:
        yield StateLog(own, root)
    finally:
        sessions.setActiveSession(spark._jsparkSession)


class StateLog:
    """One transaction on the table, from the version that is the newest when it is made."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root
        self.path = table_path(root, "state")
        path = for_spark(self.path)
        self._jvm = _jvm(spark)
        self._classes: dict[str, Any] = {}
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._log = self._of(f"{_DELTA}.DeltaLog").forTable(spark._jsparkSession, path)
        self._transaction = self._log.startTransaction()
        self._snapshot = self._transaction.snapshot()
        self._store = self._of(f"{_DELTA}.storage.dv.HadoopFileSystemDVStore")(self._conf)

    @property
    def version(self) -> int:
        """The version the transaction starts from."""
        return int(self._snapshot.version())

    @property
    def newest(self) -> int:
        """The table's newest version now."""
        return int(self._log.update(False, self._none(), self._none()).version())

    @property
    def hides_rows(self) -> bool:
        """Whether the table may have deletion vectors; without them a file is rewritten as a whole."""
        return str(self._snapshot.metadata().configuration().getOrElse("delta.enableDeletionVectors", None)) == "true"

    def files(self, channels: Iterable[int]) -> dict[str, DataFile]:
        """The files of some channels, by path."""
        kernel = self._jvm.io.delta.kernel
        engine = kernel.defaults.engine.DefaultEngine.create(self._conf)
        snapshot = kernel.Table.forPath(engine, for_spark(self.path)).getSnapshotAsOfVersion(engine, self.version)
        wanted, to_json = set(channels), kernel.defaults.internal.json.JsonUtils.rowToJson
        found: dict[str, DataFile] = {}
        batches = snapshot.getScanBuilder().build().getScanFiles(engine, True)
        while batches.hasNext():
            rows = batches.next().getRows()
            while rows.hasNext():
                file = DataFile(json.loads(to_json(rows.next()))["add"])
                if file.channel in wanted:
                    found[file.path] = file
        batches.close()
        return found

    def read(self, files: Iterable[DataFile]) -> DataFrame:
        """The visible rows of these files; `_metadata.file_path` and `_metadata.row_index` say where each one lies."""
        adds = self._seq(self._action({"add": file.add}) for file in files)
        return DataFrame(self._log.createDataFrame(self._snapshot, adds, False, self._none()), self.spark)

    def write(self, rows: DataFrame) -> list[Any]:
        """Write rows into new files of the table, which no version has yet."""
        return _items(self._transaction.writeFiles(rows._jdf))

    def adds(self, entries: Iterable[dict[str, Any]]) -> list[Any]:
        """The actions that make files part of the table, by their entries in the log."""
        return [self._action({"add": entry}) for entry in entries]

    def bitmap(self, positions: npt.NDArray[np.int64]) -> Any:
        """Row positions as Delta keeps them."""
        buffer = self._jvm.java.nio.ByteBuffer.wrap(positions.astype(">i8").tobytes()).asLongBuffer()
        gateway = self.spark.sparkContext._gateway
        array = gateway.new_array(gateway.jvm.long, len(positions))  # type: ignore[union-attr]
        buffer.get(array)
        boxed = self._of("scala.collection.immutable.ArraySeq$ofLong")(array)
        return self._of(f"{_DELTA}.deletionvectors.RoaringBitmapArray").apply(boxed)

    def hidden(self, add: dict[str, Any]) -> Any:
        """The rows of a file that the log hides."""
        if not add.get("deletionVector"):
            return self.bitmap(np.empty(0, np.int64))
        return self._store.read(self._action({"add": add}).deletionVector(), self._log.dataPath())

    def hide(self, hidden: dict[str, tuple[DataFile, Any]]) -> list[Any]:
        """Hide rows of files: the actions that replace each file's log entry. All deletion vectors go into one new file."""
        identity = self._jvm.java.util.UUID.randomUUID()
        folder = self._store.pathWithFileSystem(self._log.dataPath())
        writer = self._store.createWriter(self._store.generateFileNameInTable(folder, identity, ""))
        portable = self._of(f"{_DELTA}.deletionvectors.RoaringBitmapArrayFormat").Portable()
        actions = []
        for file, bitmap in hidden.values():
            entry = self._action({"add": file.add})
            if bitmap.cardinality() == file.records:
                actions += self.drop([file])
                continue
            bitmap.runOptimize()
            content = bitmap.serializeAsByteArray(portable)
            offset = self._jvm.scala.Some(writer.write(content).offset())
            descriptor = self._object(f"{_DELTA}.actions.DeletionVectorDescriptor").onDiskWithRelativePath(
                identity, "", len(content), bitmap.cardinality(), offset, self._none()
            )
            both = entry.removeRows(descriptor, True, True)
            actions += [both._1(), both._2()]
        writer.close()
        return actions

    def drop(self, files: Iterable[DataFile]) -> list[Any]:
        """The actions that take whole files out of the table."""
        return [self._action({"add": file.add}).remove() for file in files]

    def replace(self, files: Iterable[DataFile], rows: DataFrame) -> list[Any]:
        """The actions that put the same rows, written anew, in the place of files; they say that they change no data."""
        now = self._jvm.java.lang.System.currentTimeMillis()
        new = [json.loads(add.json())["add"] for add in self.write(rows)]
        return [
            *(self._action({"add": {**add, "dataChange": False}}) for add in new),
            *(self._action({"add": file.add}).removeWithTimestamp(now, False) for file in files),
        ]

    def commit(self, actions: list[Any], comment: str, *, changes_data: bool = True) -> int:
        """Make the changes the very next version of the table, or none, and return it.

        Not by Delta's transaction, which on some stores overwrites what somebody else has committed.
        """
        entries = [json.loads(action.json()) for action in actions]
        operation = "UPDATE" if changes_data else "Manual Update"
        commit_entry(self.root, "state", self.version + 1, entries, operation=operation, comment=comment)
        return self.version + 1

    def actions(self, version: int) -> list[dict[str, Any]]:
        """What a version's entry in the log says, read from storage."""
        entry = self._jvm.org.apache.hadoop.fs.Path(self._log.logPath(), f"{version:020d}.json")
        return [json.loads(line) for line in _items(self._log.store().read(entry, self._conf))]

    def _action(self, content: dict[str, Any]) -> Any:
        return self._of(f"{_DELTA}.actions.Action").fromJson(json.dumps(content))

    def _seq(self, items: Iterable[Any]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for item in items:
            listed.add(item)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)

    def _none(self) -> Any:
        return self._object("scala.None")

    def _object(self, name: str) -> Any:
        return getattr(self._of(f"{name}$"), "MODULE$")

    def _of(self, name: str) -> Any:
        # Finding a class takes a call for each part of its name.
        if name not in self._classes:
            self._classes[name] = _class(self._jvm, name)
        return self._classes[name]


def files_at(places: Iterable[str], files: dict[str, DataFile]) -> list[DataFile]:
    """The files at the addresses that Spark gives, which are absolute where the log's are below the table."""
    known = {unquote(path): file for path, file in files.items()}
    found = []
    for place in places:
        parts = unquote(place).split("/")
        found.append(next(known[end] for end in ("/".join(parts[-n:]) for n in range(1, len(parts))) if end in known))
    return found


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _class(jvm: Any, name: str) -> Any:
    package, _, last = name.rpartition(".")
    found = jvm
    for part in package.split("."):
        found = getattr(found, part)
    return getattr(found, last)


def _items(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]
