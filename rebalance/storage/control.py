"""The small tables, written and read through delta-rs: no JVM, 10 to 20 ms a commit.

What grows with the events (results, state) is written by Spark; what is small, or comes to the planner anyway (key_stats), is here. All
are plain Delta tables that Spark, polars and DuckDB read too; no deletion vectors, no other reader features.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from rebalance.errors import OvertakenError
from rebalance.partition import KeyType
from rebalance.storage.lock import require_lock
from rebalance.storage.schemas import SCHEMAS, about, has_own_keys, schema_of
from rebalance.stores.access import delta_table, is_table, make_folder, require_reachable
from rebalance.stores.places import options_of

Value = str | int
#: How often a row is tried to be added beside others who write.
_TRIES = 20
#: A control table is compacted every this many commits, so that reading it does not slow down with the intervals.
_COMPACT_EVERY = 50
#: Large tables of which one interval is read at a time: partitioned by it.
_BY_INTERVAL = ("key_stats", "slot_stats", "key_costs")
#: Not compacted: one large row a version, looked up one at a time, which file statistics make cheap; one file an interval anyway.
_NEVER_COMPACTED = ("functions", *_BY_INTERVAL)


def table_path(root: str, table: str) -> str:
    """Where a table of a pipeline lies."""
    return f"{root.rstrip('/')}/{table}"


def exists(root: str, table: str) -> bool:
    """Whether the table has been written yet."""
    require_reachable(root)
    return is_table(table_path(root, table))


def open_table(root: str, table: str, version: int | None = None) -> DeltaTable:
    """A table of the pipeline, at its newest version or an earlier one."""
    return delta_table(table_path(root, table), version)


def version(root: str, table: str) -> int:
    """The table's newest version; -1 before it exists."""
    return int(open_table(root, table).version()) if exists(root, table) else -1


def has_rows(root: str, table: str, interval_id: str) -> bool:
    """Whether a control table has rows of that interval."""
    return bool(read(root, table, columns=["interval_id"], interval_id=interval_id).num_rows)


def read(
    root: str,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    between: Sequence[str] | None = None,
    also: str = "",
    newest: tuple[str, int] | None = None,
    **where: Value | Sequence[Value],
) -> pa.Table:
    """The rows whose columns have the wanted value, or one of several; none if the table was never written.

    `between` are the first and the last interval that are wanted, `also` is a further condition in SQL, and `newest` a column and how many
    rows with its largest values are wanted, the largest first.
    Files whose statistics rule the values out are not opened. Asked through delta-rs' own engine: Arrow's dataset reader would import
    pandas first, which takes longer than any of these reads.
    """
    if not exists(root, table):
        key_type = _key_type(root) if has_own_keys(table) else "string"
        empty = pa.Table.from_batches([], schema=schema_of(table, key_type))
        return empty.select(list(columns)) if columns else empty
    chosen = ", ".join(f'"{column}"' for column in columns) if columns else "*"
    wanted = [f'"{column}" IN ({literals(value)})' for column, value in where.items()] + ([also] if also else [])
    if between:
        wanted.append(f"interval_id BETWEEN {literals(between[0])} AND {literals(between[1])}")
    query = f"SELECT {chosen} FROM t" + (f" WHERE {' AND '.join(wanted)}" if wanted else "")
    if newest:
        query += f' ORDER BY "{newest[0]}" DESC LIMIT {newest[1]}'
    found = QueryBuilder().register("t", open_table(root, table)).execute(query)
    return _plain_text(pa.RecordBatchReader.from_stream(found).read_all())


def largest(root: str, table: str, column: str, *, below: Value | None = None) -> Any:
    """The largest value of a column, of those below another if one is given; None if there is none."""
    if not exists(root, table):
        return None
    wanted = "" if below is None else f' WHERE "{column}" < {literals(below)}'
    found = QueryBuilder().register("t", open_table(root, table))
    query = f'SELECT max("{column}") AS largest FROM t{wanted}'
    return pa.RecordBatchReader.from_stream(found.execute(query)).read_all()["largest"][0].as_py()


def count(root: str, table: str, *, also: str = "", **where: Value) -> int:
    """How many rows have the wanted values, and fulfil a further condition in SQL."""
    if not exists(root, table):
        return 0
    wanted = " AND ".join([f'"{column}" = {literals(value)}' for column, value in where.items()] + [also or "true"])
    found = QueryBuilder().register("t", open_table(root, table)).execute(f"SELECT count(*) AS n FROM t WHERE {wanted}")
    return int(pa.RecordBatchReader.from_stream(found).read_all()["n"][0].as_py())


def _key_type(root: str) -> KeyType:
    """The type of the pipeline's keys; text until a function says otherwise."""
    found: list[KeyType] = read(root, "functions", columns=["key_type"])["key_type"].to_pylist()
    return found[-1] if found else "string"


def rows(root: str, table: str, **how: Any) -> list[dict[str, Any]]:
    """The rows of a small table as dictionaries; what is read is said as for `read`."""
    table_rows = read(root, table, **how)
    stamps = [f.name for f in table_rows.schema if pa.types.is_timestamp(f.type)]
    for name in stamps:
        # As numbers: Arrow would import pandas to turn its timestamps into Python's.
        table_rows = table_rows.set_column(table_rows.column_names.index(name), name, table_rows[name].cast(pa.int64()))
    found: list[dict[str, Any]] = table_rows.to_pylist()
    for row in found:
        row.update({name: datetime.fromtimestamp(row[name] / 1e6, UTC) for name in stamps})
    return found


def literals(value: Value | Sequence[Value]) -> str:
    """A value or several as SQL has them."""
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(str(v) if isinstance(v, int) else "'" + str(v).replace("'", "''") + "'" for v in values)


def _plain_text(table: pa.Table) -> pa.Table:
    """Text as ordinary strings; the engine gives views, which much of Arrow cannot sort or join."""
    fields = [pa.field(f.name, pa.string()) if pa.types.is_string_view(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def append(root: str, table: str, content: list[dict[str, Any]] | pa.Table) -> None:
    """Add rows in one atomic commit. They depend on nothing that is there: whatever is committed meanwhile, they are added."""
    for _ in range(_TRIES):
        with suppress(CommitFailedError):
            _write(root, table, content, mode="append")
            return
    raise _overtaken(table)


def create(root: str, table: str) -> None:
    """Make an empty table if there is none; one that another process makes at the same time will do."""
    if exists(root, table):
        return
    path = table_path(root, table)
    make_folder(path)
    try:
        DeltaTable.create(
            path,
            schema=Schema.from_arrow(SCHEMAS[table]),
            mode="error",
            description=about(table),
            storage_options=options_of(path),
        )
    except DeltaError:
        if not exists(root, table):
            raise


def append_at(root: str, table: str, content: list[dict[str, Any]], at: int) -> bool:
    """Add rows as exactly this version of the table, which must exist, or not at all; returns whether that was done.

    A compare-and-swap, on every store: of several writers that have seen the same version one wins.
    """
    seen = open_table(root, table, at - 1)
    try:
        # Without retries, delta-rs does not look whether a commit could follow those that came in between.
        _write(root, table, content, seen, mode="append", commit_properties=CommitProperties(max_commit_retries=0))
    except CommitFailedError:
        return False
    return True


def replace(root: str, table: str, content: list[dict[str, Any]] | pa.Table, **where: Value) -> None:
    """Put these rows in the place of those whose column equals the value (one column), in one atomic commit."""
    if not exists(root, table):
        append(root, table, content)
        return
    ((column, value),) = where.items()
    try:
        _write(root, table, content, mode="overwrite", predicate=f'"{column}" = {literals(value)}')
    except CommitFailedError:
        raise _overtaken(table) from None


def delete(root: str, table: str, **where: Value) -> None:
    """Remove the rows whose column equals the value (one column), in one atomic commit."""
    ((column, value),) = where.items()
    require_lock(root)
    try:
        open_table(root, table).delete(f'"{column}" = {literals(value)}')
    except CommitFailedError:
        raise _overtaken(table) from None


def _overtaken(table: str) -> OvertakenError:
    return OvertakenError(
        f"another process has written to the table {table} while this one did. Nothing was committed here. Look at `rebalance status`; if "
        "the interval is not done, run the step again."
    )


def _write(
    root: str, table: str, content: list[dict[str, Any]] | pa.Table, seen: DeltaTable | None = None, **how: Any
) -> None:
    data = content if isinstance(content, pa.Table) else pa.Table.from_pylist(content, schema=SCHEMAS[table])
    path = table_path(root, table)
    make_folder(path)
    key_type: KeyType = "long" if has_own_keys(table) and pa.types.is_integer(data["key"].type) else "string"
    partition_by = ["interval_id"] if table in _BY_INTERVAL else None
    # A table that is open already brings its own.
    options = None if seen else options_of(path)
    rows = data.cast(schema_of(table, key_type))
    require_lock(root)
    # The description, and the columns' comments, count when the table is made; one that is there keeps what it has.
    write_deltalake(
        seen or path, rows, partition_by=partition_by, description=about(table), storage_options=options, **how
    )
    delta = open_table(root, table)
    if delta.version() and delta.version() % _COMPACT_EVERY == 0:
        if table not in _NEVER_COMPACTED:
            _compact(delta)
        delta.create_checkpoint()


def _compact(delta: DeltaTable) -> None:
    """The same rows in one file, as the very next version or not at all; what another process commits meanwhile goes first.

    delta-rs' own compaction would try again: of two at once, both would put a file in the place of the same ones, and every row was there twice.
    """
    found = QueryBuilder().register("t", delta).execute("SELECT * FROM t")
    rows = _plain_text(pa.RecordBatchReader.from_stream(found).read_all())
    with suppress(CommitFailedError):
        write_deltalake(delta, rows, mode="overwrite", commit_properties=CommitProperties(max_commit_retries=0))
