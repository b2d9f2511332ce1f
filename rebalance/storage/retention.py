"""Rows that are old enough to go, by the section `[retention]`: which those are, and their removal, table by table.

Age is counted in intervals from the newest processed one, never by a clock. What an epoch that a rewind may go to builds on stays, and so
does a plan that waits for an answer. Each table is one commit, so a killed run is simply run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, QueryBuilder

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.storage import control
from rebalance.storage.approvals import newest_open_plan
from rebalance.storage.lock import require_lock
from rebalance.storage.served import newest_interval, oldest_interval, served_epochs

#: In each, what makes the others count goes first.
STATISTICS = (
    "interval_stats",
    "key_stats",
    "slot_stats",
    "channel_stats",
    "quality_runs",
    "batches",
    "late_events",
    "key_costs",
)
PLANS = ("plans", "plan_moves")
RESULTS = ("results", "quarantine")


@dataclass(frozen=True)
class Expired:
    """Rows of a table that may go."""

    table: str
    #: Intervals before this one.
    before: str
    #: The rows, as a condition in SQL.
    which: str

    def count(self, root: str) -> int:
        """How many rows there are now."""
        if not control.exists(root, self.table):
            return 0
        table = control.open_table(root, self.table)
        found = QueryBuilder().register("t", table).execute(f"SELECT count(*) AS n FROM t WHERE {self.which}")
        return int(pa.RecordBatchReader.from_stream(found).read_all()["n"][0].as_py())

    def remove(self, root: str) -> None:
        """Take them out of the table, in one commit."""
        properties = CommitProperties(custom_metadata={"verb": "maintain"})
        require_lock(root)
        control.open_table(root, self.table).delete(self.which, commit_properties=properties)


def expired(pipeline: Pipeline) -> Iterator[Expired]:
    """What may go of each table, whether there is any of it or not."""
    newest = newest_interval(pipeline)
    if newest is None:
        return
    oldest = oldest_interval(pipeline)
    before = _before(pipeline.retained("results"), newest)
    if before:
        yield from (_rows(table, before) for table in RESULTS)
    before = min(_before(pipeline.retained("statistics"), newest), _built_on(pipeline, oldest))
    if before:
        yield from (_rows(table, before) for table in STATISTICS)
    before = _built_on(pipeline, oldest)
    if before and control.exists(pipeline.tables, "key_sums"):
        # A row of each of very many keys: of no use but to later counts.
        yield _rows("key_sums", before)
    before = min(_before(pipeline.retained("plans"), newest), oldest)
    if before:
        yield from (_rows(table, before, but=_kept_plans(pipeline), column="plan_id") for table in PLANS)
    before = min(_before(pipeline.retained("functions"), newest), oldest)
    if before:
        yield _rows("functions", before, but=_kept_functions(pipeline), column="version")


def _before(intervals: int | None, newest: Interval) -> str:
    """The first interval that stays if this many do; empty if all do."""
    return "" if intervals is None else newest.shifted(1 - intervals).id


def _built_on(pipeline: Pipeline, oldest: str) -> str:
    """The first interval whose statistics the one after `oldest` is counted with: what it holds is a sum over the window."""
    if not oldest:
        return ""
    window = pipeline.operator.horizon or 1
    return pipeline.interval_at(parse_start(oldest)).shifted(-window - 1).id


def _rows(table: str, before: str, but: Iterable[str | int] = (), column: str = "") -> Expired:
    kept = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in sorted(but))
    return Expired(table, before, f"interval_id < '{before}'" + (f' AND "{column}" NOT IN ({kept})' if kept else ""))


def _kept_plans(pipeline: Pipeline) -> set[str]:
    """Plans that served epochs have carried out, and the one that could still be."""
    waiting = newest_open_plan(pipeline.tables)
    return {epoch.plan_id for epoch in served_epochs(pipeline) if epoch.plan_id} | (
        {str(waiting["plan_id"])} if waiting else set()
    )


def _kept_functions(pipeline: Pipeline) -> set[int]:
    """Functions of served epochs, and of the plans that could change one of them."""
    active = {epoch.function_version for epoch in served_epochs(pipeline)}
    plans = control.rows(pipeline.tables, "plans", columns=["base_function", "function_version"], decision="apply")
    return active | {plan["function_version"] for plan in plans if plan["base_function"] in active}
