"""Commits that neither delta-rs nor Spark makes for us: a log entry of our own, put in place only if there is none of its number.

Delta on Spark is safe on S3 for one driver only: it would overwrite what others commit meanwhile. So what Spark writes into the state is
committed here: on every store, one conditional put, the very next version or none. A version that is restored, and a table's first entry with
exactly the features it needs, are such entries too and need no Spark at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from rebalance.errors import OvertakenError, RebalanceError
from rebalance.storage.control import open_table, table_path
from rebalance.storage.delta_log import FOLDER, Action, TableFiles, identity
from rebalance.storage.lock import require_lock
from rebalance.storage.schemas import about
from rebalance.stores.access import make_folder, put_new


def commit_entry(
    root: str, table: str, version: int, actions: Iterable[Action], *, operation: str, comment: str
) -> None:
    """Make these actions a version of the table, or raise OvertakenError: somebody else's commit has that number."""
    require_lock(root)
    info = {
        "timestamp": round(time.time() * 1000),
        "operation": operation,
        "operationParameters": {},
        "userMetadata": comment,
        "engineInfo": "rebalance",
        # Makes the entry's bytes its own.
        "txnId": str(uuid4()),
    }
    lines = [json.dumps(action) for action in ({"commitInfo": info}, *actions)]
    content = "".join(f"{line}\n" for line in lines).encode()
    if not put_new(table_path(root, table), f"{FOLDER}/{version:020d}.json", content):
        raise OvertakenError(
            f"version {version - 1} of the table {table} was to be followed, but another process has written to it since. "
            "Nothing was committed here. Run the step again."
        )


def create_table(
    root: str,
    table: str,
    schema: Mapping[str, Any],
    *,
    partition_by: Sequence[str],
    properties: Mapping[str, str],
    features: Sequence[str],
) -> None:
    """Make an empty table that asks of its readers and writers these features and nothing else."""
    make_folder(f"{table_path(root, table)}/{FOLDER}")
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        written = [*features, "invariants", "appendOnly"]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": [*features],
            "writerFeatures": written,
        }
    metadata = {
        "id": str(uuid4()),
        "description": about(table),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [*partition_by],
        "configuration": dict(properties),
        "createdTime": round(time.time() * 1000),
    }
    comment = json.dumps({"verb": "create"})
    commit_entry(
        root, table, 0, [{"protocol": protocol}, {"metaData": metadata}], operation="CREATE TABLE", comment=comment
    )


def restore(root: str, table: str, version: int, comment: str) -> None:
    """Make a table's newest version what an earlier one was: its files with the rows they hid then."""
    found = TableFiles(root, table)
    _check_same_columns(root, table, version, found.head)
    wanted, present = found.files_at(version), found.files_at(found.head)
    kept = {identity(add) for add in wanted.values()} & {identity(add) for add in present.values()}
    now = round(time.time() * 1000)
    actions = [{"remove": _remove(add, now)} for add in present.values() if identity(add) not in kept]
    actions += [{"add": _add(add)} for add in wanted.values() if identity(add) not in kept]
    commit_entry(root, table, found.head + 1, actions, operation="RESTORE", comment=comment)


def _check_same_columns(root: str, table: str, version: int, head: int) -> None:
    schemas = {open_table(root, table, at).schema().to_json() for at in (version, head)}
    if len(schemas) > 1:
        raise RebalanceError(
            f"the table {table} had other columns at version {version} than at {head}: somebody else has changed them. "
            "Nothing was restored. See the table's history."
        )


def _add(add: Action) -> Action:
    """An entry as a checkpoint or a commit has it, less what only either of them says."""
    names = ("path", "partitionValues", "size", "modificationTime", "stats", "tags")
    entry = {name: add[name] for name in names if add.get(name) is not None}
    return {**entry, **_vector(add), "dataChange": True}


def _remove(add: Action, now: int) -> Action:
    names = ("path", "partitionValues", "size")
    entry = {name: add[name] for name in names if add.get(name) is not None}
    return {**entry, **_vector(add), "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}


def _vector(add: Action) -> Action:
    vector = {name: value for name, value in (add.get("deletionVector") or {}).items() if value is not None}
    return {"deletionVector": vector} if vector else {}
