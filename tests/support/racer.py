"""A driver that makes the commits of an interval, in the order and by the functions of `process_batch`, of rows that need no Spark.

python -m tests.support.racer ROOT SETTINGS LEASE_SECONDS: for each line of JSON, the interval's name and whether to hold the lock, it takes the
interval as a retried task does, until somebody has it, and says how often it was refused and whether it was the one.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from rebalance.errors import LockedError, OvertakenError
from rebalance.storage import control, lock
from rebalance.storage.entries import create_table
from rebalance.storage.epochs import current_epoch, processed, publish, require_active
from rebalance.storage.files import commit_files, written_files
from rebalance.storage.results import _followed
from rebalance.storage.state import PARTITIONS, head_version, roll_back
from rebalance.stores.access import filesystem, make_folder
from rebalance.stores.places import remember

RESULTS = StructType([StructField("interval_id", StringType()), StructField("n", LongType())])
STATE = StructType([RESULTS[0], StructField("channel", IntegerType()), RESULTS[1]])
#: Rows that an interval yields, and that it leaves in the state.
ROWS = 3


def rows_of(interval_id: str) -> list[int]:
    """The same for everybody who takes the interval."""
    return [10 * int(interval_id.lstrip("r")) + number for number in range(ROWS)]


def prepare(root: str) -> None:
    """An empty state and the first epoch."""
    create_table(root, "state", STATE.jsonValue(), partition_by=PARTITIONS, properties={}, features=[])
    publish(root, None, kind="start", function_version=0, state_version=0)


def write(root: str, table: str, interval_id: str, *parts: str) -> str:
    """Write the interval's rows as Spark would, where nobody sees them yet; the folder."""
    folder = f"interval_id={interval_id}/{uuid4().hex}"
    where = "/".join([folder, *parts])
    make_folder(control.table_path(root, table))
    store = filesystem(control.table_path(root, table))
    store.create_dir(where, recursive=True)
    pq.write_table(pa.table({"n": rows_of(interval_id)}), f"{where}/part.parquet", filesystem=store)
    return folder


def take(root: str, interval_id: str) -> bool:
    """All commits of an interval, the one that comes last makes the others count; whether there was anything to do."""
    results_before = control.version(root, "results")
    if processed(root, interval_id):
        return False
    epoch = current_epoch(root)
    assert epoch
    if epoch.interval_id == interval_id:
        return False
    roll_back(root, epoch)
    metadata, before = {"verb": "process_batch", "interval": interval_id}, head_version(root)
    written = written_files(root, "results", write(root, "results", interval_id))
    require_active(root, epoch)
    commit_files(
        root,
        "results",
        RESULTS,
        written,
        partition_by=["interval_id"],
        in_place_of=[interval_id],
        after=_followed(root, results_before),
        metadata=metadata,
    )
    written = written_files(root, "state", write(root, "state", interval_id, "channel=0"))
    version = commit_files(
        root,
        "state",
        STATE,
        written,
        partition_by=PARTITIONS,
        in_place_of=[interval_id],
        after=before,
        metadata=metadata,
    )
    require_active(root, epoch)
    batch = {"interval_id": interval_id, "function_version": 0, "rows": ROWS, "seconds": 0.0}
    control.replace(root, "batches", [batch], interval_id=interval_id)
    publish(root, epoch, kind="process", interval_id=interval_id, function_version=0, state_version=version)
    return True


def race(root: str, interval_id: str, locked: bool) -> tuple[int, bool]:
    """Take the interval until somebody has it; how often this one was refused, and whether it was the one."""
    refused, own = 0, f"{interval_id} {os.getpid()}"
    # Answers to plans need no lock, and are given at any time.
    control.append(root, "approvals", [{"plan_id": own, "answered_at": datetime.now(UTC)}])
    while True:
        try:
            with lock.writer_lock(root) if locked else nullcontext():
                return refused, take(root, interval_id)
        except (OvertakenError, LockedError):
            refused += 1


def main(root: str, settings: str, seconds: str) -> None:
    """One round a line."""
    remember(root, json.loads(settings))
    lock.LEASE_SECONDS = float(seconds)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(race(root, *json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
