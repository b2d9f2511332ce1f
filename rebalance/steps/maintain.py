"""maintain: what keeps a pipeline quick and small over months. Changes no result and no row of the state.

    rows that [retention] gives up → state in pieces written anew, and an epoch for it → logs, old files, leftovers of killed runs

The lock is taken for each part by itself, so that an interval's steps never wait for all of it. Each part can be killed and run again:
rows go by one commit a table, the rewritten state counts once its epoch is published, and files go only if no kept version names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rebalance.pipeline.file import Pipeline
from rebalance.steps.faults import checkpoint
from rebalance.steps.trouble import trouble_in_words
from rebalance.storage import control
from rebalance.storage.cleaning import Cleaned, clean
from rebalance.storage.delta_log import StoredFile, TableFiles, hidden_rows
from rebalance.storage.epochs import current_epoch, publish
from rebalance.storage.foreign import adopted
from rebalance.storage.lock import writer_lock
from rebalance.storage.retention import expired
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.served import served_epochs


def maintain(pipeline: Pipeline, *, dry_run: bool = False) -> list[str]:
    """Do all of it, or say what would be done; returns what that was, in sentences."""
    with trouble_in_words(pipeline.tables):
        if current_epoch(pipeline.tables) is None:
            return ["no interval was processed yet: there is nothing to maintain"]
        said = [
            *_remove_rows(pipeline, dry_run),
            *_rewrite_state(pipeline, dry_run),
            *_clean_tables(pipeline, dry_run),
        ]
    said = said or ["there is nothing to do"]
    return [f"would do: {sentence}" for sentence in said] if dry_run else said


def _remove_rows(pipeline: Pipeline, dry_run: bool) -> Iterator[str]:
    """Rows that are older than [retention] keeps them."""
    root = pipeline.tables
    with writer_lock(root):
        for old in list(expired(pipeline)):
            count = old.count(root)
            if not count:
                continue
            if not dry_run:
                old.remove(root)
                checkpoint("maintain: rows removed")
            yield f"{old.table}: {count:,} rows of intervals before {old.before} removed"


def _rewrite_state(pipeline: Pipeline, dry_run: bool) -> Iterator[str]:
    """State in pieces, written anew and published by an epoch of its own; before that, what somebody else has rewritten."""
    root = pipeline.tables
    with writer_lock(root):
        before = current_epoch(root)
        if before is None or before.state_version < 0:
            return
        epoch = adopted(root, before, dry_run=dry_run)
        if epoch != before:
            yield f"state: version {epoch.state_version}, in which somebody else has rewritten files, adopted (epoch {epoch.epoch})"
        # Imported here: without anything to rewrite no Spark is needed.
        from rebalance.spark.rewrite import fragmented

        parts = fragmented(TableFiles(root, "state").files_at(epoch.state_version))
        files = [file for found in parts.values() for file in found]
        if not parts:
            return
        what = f"state: {len(files):,} files of {len(parts):,} partitions, {sum(hidden_rows(f.add) for f in files):,} hidden rows"
        if dry_run:
            yield f"{what}, written anew"
            return
        from rebalance.spark.rewrite import rewrite
        from rebalance.spark.session import spark_session
        from rebalance.storage.state import head_version, roll_back

        spark = spark_session(pipeline)
        roll_back(root, epoch)
        done = rewrite(
            spark,
            root,
            set(parts),
            version=head_version(root),
            moment=lambda name: checkpoint(f"maintain: {name}"),
        )
        checkpoint("maintain: verified")
        published = publish(
            root,
            epoch,
            kind="maintain",
            interval_id=epoch.interval_id,
            function_version=epoch.function_version,
            state_version=done.version,
        )
        checkpoint("maintain: epoch published")
        yield (
            f"{what}, written anew as {done.new_files:,} files of {done.bytes:,} bytes with {done.rows:,} rows (epoch {published.epoch})"
        )


def _clean_tables(pipeline: Pipeline, dry_run: bool) -> Iterator[str]:
    """Logs, files and leftovers, table by table."""
    root = pipeline.tables
    for table in [name for name in SCHEMAS if control.exists(root, name)]:
        with writer_lock(root):
            cleaned = clean(
                root,
                table,
                needed=_oldest_state(pipeline) if table == "state" else None,
                unused_since=datetime.now(UTC) - pipeline.retention.files,
                dry_run=dry_run,
                moment=lambda name: checkpoint(f"maintain: {name}"),
            )
        yield from _in_words(cleaned)


def _oldest_state(pipeline: Pipeline) -> int | None:
    """The oldest version of the state that a served epoch names."""
    return min((epoch.state_version for epoch in served_epochs(pipeline) if epoch.state_version >= 0), default=None)


def _in_words(cleaned: Cleaned) -> Iterator[str]:
    done = []
    if cleaned.checkpoints:
        done.append(f"checkpoints of version {' and '.join(map(str, cleaned.checkpoints))} made")
    if cleaned.files:
        done.append(f"{_files(cleaned.files)} that no version from {cleaned.oldest} on names removed")
    if cleaned.entries:
        done.append(f"{_files(cleaned.entries)} of the log removed")
    if done:
        yield f"{cleaned.table}: {'; '.join(done)}"


def _files(files: Sequence[StoredFile]) -> str:
    return f"{len(files):,} files ({sum(file.size for file in files):,} bytes)"
