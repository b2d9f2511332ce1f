"""Lossy counting in Spark's workers: its bounds hold on any stream, cut and merged anywhere, in little memory, and without this package."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from math import ceil, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import rebalance
from rebalance.spark import lossy_worker
from rebalance.spark.lossy_worker import LossyTable, LossyWorker
from rebalance.storage.held_frequent import share_of

OUT = pa.schema(
    {"slot": pa.int32(), "key": pa.int64(), **dict.fromkeys(("rows", "bytes", "excess", "largest"), pa.int64())}
)
WIDTHS = st.sampled_from([1, 2, 3, 7, 20, 200])
#: Few keys and many, one that is everywhere, and the worst: every key once, just as often as it takes to be forgotten.
STREAMS = st.one_of(
    st.lists(st.integers(0, 3), max_size=150),
    st.lists(st.integers(-50, 50), max_size=150),
    st.lists(st.one_of(st.just(7), st.integers(0, 2**62)), max_size=150),
    st.builds(lambda size, heavy: [*range(size), *[-1] * heavy, *range(size)], st.integers(0, 60), st.integers(0, 30)),
)
CUTS = st.lists(st.integers(0, 150), max_size=6)


def cut(stream: Sequence[int], cuts: Sequence[int]) -> list[list[int]]:
    return [part.tolist() for part in np.split(np.array(stream, dtype=np.int64), sorted(cuts))]


def counted(pieces: Sequence[Sequence[int]], width: int) -> LossyTable:
    table = LossyTable(width, pa.int64())
    for piece in pieces:
        table.add(pa.chunked_array([pa.array(piece, pa.int64())]))
    return table


def bounds(table: LossyTable) -> dict[int, tuple[int, int]]:
    columns = table.entries.to_pydict()
    return {k: (c, e) for k, c, e in zip(columns["key"], columns["count"], columns["error"], strict=True)}


@given(STREAMS, WIDTHS, CUTS)
def test_counts_and_errors_bound_the_true_count_wherever_the_stream_is_cut(
    stream: list[int], width: int, cuts: list[int]
) -> None:
    table, true = counted(cut(stream, cuts), width), Counter(stream)
    found = bounds(table)
    assert table.rows == len(stream)
    assert table.largest <= len(stream) // width
    for key, (count, error) in found.items():
        assert count <= true[key] <= count + error
        assert error <= table.largest
    for key in true.keys() - found.keys():
        assert true[key] <= table.largest


@given(st.lists(st.tuples(STREAMS, CUTS), min_size=1, max_size=4), WIDTHS)
def test_merged_counters_of_partitions_bound_the_true_count_of_all(
    partitions: list[tuple[list[int], list[int]]], width: int
) -> None:
    merged = summed([through_worker(cut(stream, cuts), width) for stream, cuts in partitions])
    largest = merged.largest
    true = Counter(key for stream, _ in partitions for key in stream)
    assert largest <= true.total() // width
    for key, (rows, excess) in merged.keys.items():
        assert rows <= true[key] <= rows + excess + largest
    for key in true.keys() - merged.keys.keys():
        assert true[key] <= largest


@given(st.lists(st.tuples(STREAMS, CUTS), min_size=1, max_size=4), st.sampled_from([0.5, 0.1, 0.03, 0.004]))
def test_no_key_with_the_wanted_share_of_all_rows_is_missed(
    partitions: list[tuple[list[int], list[int]]], error: float
) -> None:
    merged = summed([through_worker(cut(stream, cuts), ceil(2 / error)) for stream, cuts in partitions])
    true = Counter(key for stream, _ in partitions for key in stream)
    least = share_of(error, true.total())
    may_be = {k for k, (rows, excess) in merged.keys.items() if rows + excess + merged.largest >= least}
    assert {key for key, count in true.items() if count >= least} <= may_be
    assert len(may_be) <= 2 / error


def test_a_stream_that_never_repeats_a_key_leaves_few_entries() -> None:
    width, keys = 500, np.arange(200_000)
    table = counted(np.split(keys, 40), width)
    assert table.largest == 400
    assert table.entries.num_rows == 0
    rng = np.random.default_rng(5)
    table = counted(np.split(rng.zipf(1.2, 200_000), 40), width)
    assert 0 < table.entries.num_rows <= width * log(200_000 / width)


def test_slots_are_summed_exactly_whatever_becomes_of_the_keys() -> None:
    rng = np.random.default_rng(2)
    slots, sizes = rng.integers(0, 1 << 16, 5000), rng.integers(1, 1000, 5000)
    keys = slots * 7
    batches = [
        batch_of(keys[at : at + 777], slots[at : at + 777], sizes[at : at + 777]) for at in range(0, len(keys), 777)
    ]
    found = summed([list(LossyWorker(10, OUT, piece=1000).run(iter(batches)))])
    assert found.rows == Counter(slots.tolist())
    assert sum(found.bytes.values()) == sizes.sum()
    assert all(found.bytes[slot] == sizes[slots == slot].sum() for slot in slots[:50].tolist())


def test_a_partition_without_rows_says_nothing() -> None:
    assert list(LossyWorker(10, OUT).run(iter([]))) == []
    assert list(LossyWorker(10, OUT).run(iter([batch_of([], [], [])]))) == []


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.int64()])
def test_keys_of_every_type_come_out_in_the_type_that_is_asked_for(kind: pa.DataType) -> None:
    keys = pa.array([str(number % 3) for number in range(30)]).cast(kind)
    asked = pa.schema(
        [OUT.field("slot"), pa.field("key", pa.int64() if kind == pa.int64() else pa.string()), *list(OUT)[2:]]
    )
    batch = pa.record_batch({"key": keys, "slot": pa.array([1] * 30, pa.int32()), "bytes": pa.array([8] * 30)})
    out = list(LossyWorker(10, asked).run(iter([batch])))
    assert all(each.schema == asked for each in out)
    assert sorted(pa.Table.from_batches(out)["key"].drop_null().cast(pa.string()).to_pylist()) == ["0", "1", "2"]


def test_the_worker_goes_to_a_process_that_has_not_this_package(tmp_path: Path) -> None:
    cloudpickle.register_pickle_by_value(rebalance)
    try:
        sent = cloudpickle.dumps((LossyWorker(10, OUT), batch_of([5] * 9 + [6], [3] * 10, [8] * 10)))
    finally:
        cloudpickle.unregister_pickle_by_value(rebalance)
    (tmp_path / "sent").write_bytes(sent)
    program = """
import pickle, sys
sys.modules["rebalance"] = None
worker, batch = pickle.load(open(sys.argv[1], "rb"))
for out in worker.run(iter([batch])):
    print(out.to_pydict())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "sent")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "'key': [5]" in done.stdout
    assert "'largest': [1]" in done.stdout
    assert pickle.loads(sent)[0].width == 10
    assert lossy_worker.__name__ == "rebalance.spark.lossy_worker"


def batch_of(keys: Any, slots: Any, sizes: Any) -> pa.RecordBatch:
    columns = {
        "key": pa.array(keys, pa.int64()),
        "slot": pa.array(slots, pa.int32()),
        "bytes": pa.array(sizes, pa.int64()),
    }
    return pa.record_batch(columns)


def through_worker(pieces: Sequence[Sequence[int]], width: int) -> list[pa.RecordBatch]:
    batches = [batch_of(piece, [key & 0xFFFF for key in piece], [1] * len(piece)) for piece in pieces]
    return list(LossyWorker(width, OUT, piece=5).run(iter(batches)))


class Merged(NamedTuple):
    #: Rows and excess of each key.
    keys: dict[int, tuple[int, int]]
    #: Of each slot.
    rows: Counter[int]
    bytes: Counter[int]
    largest: int


def summed(partitions: Sequence[list[pa.RecordBatch]]) -> Merged:
    """What Spark makes of the partitions' output: sums by slot and key."""
    rows = [row for batches in partitions for batch in batches for row in batch.to_pylist()]
    keys: dict[int, tuple[int, int]] = {}
    slots, sizes = Counter[int](), Counter[int]()
    for row in rows:
        if row["key"] is not None:
            known = keys.get(row["key"], (0, 0))
            keys[row["key"]] = known[0] + row["rows"], known[1] + row["excess"]
        elif row["slot"] is not None:
            slots[row["slot"]] += row["rows"]
            sizes[row["slot"]] += row["bytes"]
    return Merged(keys, slots, sizes, sum(row["largest"] or 0 for row in rows))
