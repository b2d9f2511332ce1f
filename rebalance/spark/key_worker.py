"""A user's function, called key by key inside Spark's Python workers.

This module and `key_tables` are sent with the job by value (`rebalance.spark.keyed`) and import nothing else of the package, so that a
worker needs neither the package nor the user's file. Rows come sorted by key, a key's state before its new rows. Spark's own ways to
call a function per group cost 0.2 to 0.5 ms a group; here whole batches are cut by numpy and Arrow, which costs some microseconds.
"""

from __future__ import annotations

import json
import linecache
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from rebalance.spark.key_tables import cast_to, first_rows, frame_parts, in_pandas, is_frame, stacked, whole_keys

#: What a row that leaves the worker is.
RESULT, STATE, COST = 0, 1, 2
#: `position` of a row that says that the key has no state any more.
DROPPED = -1
#: Around what is to be told to the user; inside, the text is JSON, so that Spark's own lines can be told apart.
OPEN, CLOSE = "<rebalance<", ">rebalance>"


class ToldError(Exception):
    """Something to be told to the user in just these words."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{OPEN}{json.dumps(text)}{CLOSE}")


@dataclass
class _Output:
    """What the keys of one batch gave."""

    results: list[Any] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    #: Per key: rows of results, rows of state, whether a state it had is gone, new rows, seconds.
    result_rows: list[int] = field(default_factory=list)
    state_rows: list[int] = field(default_factory=list)
    dropped: list[bool] = field(default_factory=list)
    new_rows: list[int] = field(default_factory=list)
    seconds: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class KeyWorker:
    """A function and the columns it gets and gives.

    Batches that come have `key`, `is_new`, the row columns and the state columns, in this order. Those that go have `key`, `what`, the
    result columns, `position`, the state columns, `rows` and `seconds`; a row fills only those of its kind.
    """

    #: The user's file, for messages.
    file: str
    process: Callable[..., Any]
    parameters: Mapping[str, Any]
    in_pandas: bool
    rows: tuple[str, ...]
    results: pa.Schema
    state: pa.Schema
    out: pa.Schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What Spark calls with the sorted rows of a channel."""
        for table in whole_keys(batches):
            yield from self._called(table).to_batches()

    def _called(self, table: pa.Table) -> pa.Table:
        """The function's output for the keys of a table that has all rows of each."""
        starts = first_rows(table.column(0))
        is_new = table.column(1).to_numpy(zero_copy_only=False)
        before = np.concatenate(([0], np.cumsum(is_new)))
        new_at = before[np.append(starts, table.num_rows)]
        held_at = np.append(starts, table.num_rows) - new_at
        new = self._parts(table, 2, self.rows, is_new, new_at)
        held = self._parts(table, 2 + len(self.rows), tuple(self.state.names), ~is_new, held_at)
        keys = table.column(0).take(starts)
        output = _Output()
        for key, rows, state in zip(keys.to_pylist(), new, held, strict=True):
            self._call(key, rows, state, output)
        return self._packed(keys.combine_chunks(), output)

    def _parts(self, table: pa.Table, first: int, names: tuple[str, ...], mask: Any, at: Any) -> Iterator[Any]:
        """One kind of a table's rows, cut into the keys."""
        chosen = table.select(range(first, first + len(names))).rename_columns(names).filter(pa.array(mask))
        bounds = at.tolist()
        if not self.in_pandas:
            chosen = chosen.combine_chunks()
            return (chosen.slice(begin, end - begin) for begin, end in pairwise(bounds))
        return frame_parts(in_pandas(chosen), bounds)

    def _call(self, key: Any, rows: Any, state: Any, output: _Output) -> None:
        began = time.thread_time()
        try:
            given = self.process(key, rows, state, **self.parameters)
        except Exception as error:
            raise ToldError(self._failed(key, rows, state, error)) from None
        seconds = time.thread_time() - began
        if not isinstance(given, tuple) or len(given) != 2:
            raise ToldError(
                f"process in {self.file} returned {type(given).__name__} for key {key!r}: it must return two tables, results and new state."
            )
        results = self._checked(key, "RESULTS", given[0], self.results)
        kept = self._checked(key, "STATE", given[1], self.state)
        output.results.append(results)
        output.states.append(kept)
        output.result_rows.append(len(results))
        output.state_rows.append(len(kept))
        output.dropped.append(len(state) > 0 and len(kept) == 0)
        output.new_rows.append(len(rows))
        output.seconds.append(seconds if self._is_warm() else None)

    def _is_warm(self) -> bool:
        """Whether the function has run in this process before: its first call imports, compiles and fills caches."""
        known: set[str] = sys.__dict__.setdefault("_rebalance_warm", set())
        warm = self.file in known
        known.add(self.file)
        return warm

    def _failed(self, key: Any, rows: Any, state: Any, error: Exception) -> str:
        """What the function raised, and the lines of the user's that led there."""
        own = self.process.__code__.co_filename
        frames = traceback.extract_tb(error.__traceback__)[1:]
        while frames and frames[-1].filename != own and any(frame.filename == own for frame in frames):
            frames.pop()
        lines = [
            f"{PurePath(at.filename).name}, line {at.lineno}, in {at.name}: {linecache.getline(at.filename, at.lineno or 0).strip()}"
            for at in frames
        ]
        return (
            f"process in {self.file} failed for key {key!r} ({len(rows):,} new rows, {len(state):,} rows of state): "
            f"{type(error).__name__}: {error}\n  " + "\n  ".join(line.removesuffix(": ") for line in lines)
        )

    def _checked(self, key: Any, what: str, given: Any, declared: pa.Schema) -> Any:
        """What was returned, if its columns are the declared ones: a table in their types, or a DataFrame, whose types are seen later."""
        if isinstance(given, pa.Table) and given.schema.equals(declared):
            return given
        if isinstance(given, pa.RecordBatch):
            given = pa.Table.from_batches([given])
        if not isinstance(given, pa.Table) and not is_frame(given):
            raise ToldError(
                f"process in {self.file} returned {type(given).__name__} for key {key!r} where {what} belongs. "
                "Return a pyarrow.Table or a pandas.DataFrame."
            )
        found = given.columns.tolist() if is_frame(given) else given.column_names
        if found != declared.names and sorted(map(str, found)) != sorted(declared.names):
            raise ToldError(
                f"process in {self.file} returned for key {key!r} the columns {', '.join(map(str, found)) or 'none'}, "
                f"but {what} declares {', '.join(declared.names)}. Return just these, or change the declaration."
            )
        return given if is_frame(given) else self._cast(key, what, given, declared)

    def _cast(self, key: Any, what: str, given: Any, declared: pa.Schema) -> pa.Table:
        """A table or DataFrame in the declared types; refused if something would be lost."""
        columns = []
        for column in declared:
            values, reason = given[column.name], ""
            try:
                cast = cast_to(column.type, values if isinstance(given, pa.Table) else pa.Array.from_pandas(values))
            except (pa.ArrowException, ValueError, TypeError) as error:
                cast, reason = None, f" ({str(error).splitlines()[0]})"
            if cast is None:
                kind = values.type if isinstance(given, pa.Table) else values.dtype
                raise ToldError(
                    f"process in {self.file} returned for key {key!r} column {column.name!r} as {kind}, "
                    f"but {what} declares it as {column.type}{reason}. Cast it, or change the declaration."
                )
            columns.append(cast)
        return pa.Table.from_arrays(columns, schema=declared)

    def _united(self, keys: list[Any], what: str, given: list[Any], declared: pa.Schema) -> pa.Table:
        """What the calls returned, one after the other; DataFrames all at once if they are alike, else one by one."""
        if not any(is_frame(part) for part in given):
            return pa.concat_tables(given)
        at_once = stacked(given, declared) if all(is_frame(part) for part in given) else None
        if at_once is not None:
            return at_once
        return pa.concat_tables(
            self._cast(key, what, part, declared) for key, part in zip(keys, given, strict=True) if len(part)
        )

    def _packed(self, keys: Any, output: _Output) -> pa.Table:
        """Results, state and costs of the keys as one table."""
        number = np.arange(len(keys))
        names = keys.to_pylist()
        results = self._united(names, "RESULTS", output.results, self.results)
        states = self._united(names, "STATE", output.states, self.state)
        result_keys = np.repeat(number, output.result_rows)
        kept = np.asarray(output.state_rows)
        state_keys = np.repeat(number, kept)
        position = np.arange(len(state_keys)) - np.repeat(np.cumsum(kept) - kept, kept)
        gone = np.flatnonzero(output.dropped)
        parts = [
            self._part(keys, result_keys, RESULT, _numbered("r", results)),
            self._part(keys, state_keys, STATE, {"position": position, **_numbered("s", states)}),
            self._part(keys, gone, STATE, {"position": np.full(len(gone), DROPPED)}),
            self._part(keys, number, COST, {"rows": output.new_rows, "seconds": output.seconds}),
        ]
        return pa.concat_tables(parts).combine_chunks()

    def _part(self, keys: Any, at: Any, what: int, columns: dict[str, Any]) -> pa.Table:
        """Rows of one kind: their own columns, and nothing in those of the other kinds."""
        filled = {"key": keys.take(pa.array(at, pa.int64())), "what": np.full(len(at), what), **columns}
        arrays = []
        for column in self.out:
            values = filled.get(column.name)
            if values is None:
                values = pa.nulls(len(at), column.type)
            elif not isinstance(values, pa.Array | pa.ChunkedArray):
                values = pa.array(values, type=column.type)
            arrays.append(values)
        return pa.Table.from_arrays(arrays, schema=self.out)


def _numbered(prefix: str, table: pa.Table) -> dict[str, Any]:
    """A table's columns under names that collide with nothing."""
    return {f"{prefix}{i}": column for i, column in enumerate(table.columns)}
