"""Records, sums by slot and picked keys as Spark makes them, against a plain transcription over the same figures."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.partition import SLOTS, Key, KeyType, PartitionFunction, consistent_ring
from rebalance.partition.function import slots_of
from rebalance.planning.records import Records, Weights, gamma
from rebalance.spark import key_sums
from rebalance.spark.counting import PARTS, session_for_very_many, spread
from rebalance.spark.key_sums import KeySums
from rebalance.spark.session import own_session
from rebalance.storage.held import NUMBERS

KEYS, CHANNELS = 1500, 4
#: Around what is looked up rather than worked out, powers of two and what a double holds exactly.
EDGES = [0, 1, 2, 3, 4095, 4096, 4097, 8191, 8192, 2**31 - 1, 2**31, 2**40 - 1, 2**40, 2**40 + 1]
WEIGHTS = [Weights(1.0, 0.0), Weights(0.3, 0.7), Weights(1e-3, 2.5)]


def figures(rng: np.random.Generator, key_type: KeyType) -> pa.Table:
    """Keys with few rows, with values at the edges, and with any."""
    few, any_size = rng.integers(0, 6, (KEYS, 6)), np.floor(2.0 ** rng.uniform(0, 45, (KEYS, 6))).astype(np.int64)
    edge = rng.choice(EDGES, (KEYS, 6))
    kind = rng.integers(0, 3, (KEYS, 6))
    values = np.select([kind == 0, kind == 1], [few, edge], any_size)
    keys = rng.permutation(10 * KEYS)[:KEYS].astype(np.int64)
    column = pa.array(keys) if key_type == "long" else pa.array([f"key {key}" for key in keys.tolist()])
    return pa.table({"key": column, **{name: values[:, at] for at, name in enumerate(NUMBERS)}})


def part(value: float, r: int) -> int:
    """Which of 2^r parts of which power of two a value is in."""
    fraction, exponent = math.frexp(value)
    return exponent * 2**r + math.floor((2 * fraction - 1) * 2**r) if value else -(2**30)


class Plain:
    """The same figures, key by key."""

    def __init__(self, table: pa.Table, function: PartitionFunction, ring: Any, weights: Weights, r: int) -> None:
        self.rows = table.to_pylist()
        slots = slots_of((row["key"] for row in self.rows), function.key_type)
        for row, slot in zip(self.rows, slots.tolist(), strict=True):
            new, held = row["tuples"], row["held_rows"]
            row |= {"slot": slot, "cost": weights.new_row * new + weights.window_row * (new + held)}
            row["gamma"] = gamma(np.array([row["cost"]]), np.array([float(row["held_bytes"])]))[0]
            row["code"] = (function.slots[slot], ring[slot], part(row["cost"], r), part(row["held_bytes"], r))

    def records(self, listed: set[Key]) -> dict[Any, list[dict[str, Any]]]:
        found = defaultdict(list)
        for row in self.rows:
            if row["key"] not in listed:
                found[row["code"]].append(row)
        return {code: sorted(rows, key=lambda row: (-row["gamma"], row["key"])) for code, rows in sorted(found.items())}


def sums_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table).repartition(3)


@pytest.mark.parametrize(
    ("key_type", "seed", "r", "most_left"),
    [("long", 0, 3, KEYS), ("string", 1, 0, KEYS), ("string", 0, 3, 0), ("long", 2, 6, 0), ("long", 2, 2, KEYS)],
    ids=["long", "string of the roughest", "string by Spark", "long of the finest by Spark", "long to a new ring"],
)
def test_records_and_picked_keys_and_the_rest_agree_with_a_plain_transcription(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, key_type: KeyType, seed: int, r: int, most_left: int
) -> None:
    monkeypatch.setattr(key_sums, "MOST_LEFT", most_left)
    rng = np.random.default_rng(seed)
    table = figures(rng, key_type)
    # The second time, a channel is to be added.
    function, ring = (
        PartitionFunction(1, CHANNELS, consistent_ring(CHANNELS), key_type),
        consistent_ring(CHANNELS + seed),
    )
    listed = sorted(rng.choice(np.array(table["key"].to_pylist()), 20, replace=False).tolist())
    weights = WEIGHTS[seed]
    ours = KeySums(sums_of(spark, table), function, ring, weights, listed, r)
    plain = Plain(table, function, ring, weights, r)

    records, expected = ours.records(), plain.records(set(listed))
    assert records.count.tolist() == [len(rows) for rows in expected.values()]
    assert records.channel.tolist() == [code[0] for code in expected]
    assert records.state.tolist() == [float(sum(row["held_bytes"] for row in rows)) for rows in expected.values()]

    wanted = rng.integers(0, records.count + 1)
    assert np.count_nonzero((wanted > 0) & (wanted < records.count)) > 0
    named, rest = ours.named_and_rest(codes_of(records, wanted))
    picked = [row for rows, most in zip(expected.values(), wanted.tolist(), strict=True) for row in rows[:most]]
    picked += [row for row in plain.rows if row["key"] in set(listed)]
    columns = ["key", "slot", *NUMBERS]
    assert named.to_pylist() == [
        {name: row[name] for name in columns} for row in sorted(picked, key=lambda row: row["key"])
    ]
    names = {row["key"] for row in picked}
    others = [row for row in plain.rows if row["key"] not in names]
    assert rest["slot"].to_pylist() == sorted({row["slot"] for row in others})
    for name in ("keys", *NUMBERS):
        whole = np.zeros(SLOTS, dtype=np.int64)
        np.add.at(whole, [row["slot"] for row in others], [row.get(name, 1) for row in others])
        assert rest[name].to_pylist() == whole[rest["slot"].to_numpy()].tolist()


def codes_of(records: Records, wanted: Any) -> pa.Table:
    some = wanted > 0
    return pa.table({"code": records.code[some], "wanted": wanted[some], "count": records.count[some]})


def test_very_many_keys_are_grouped_in_a_session_of_their_own_in_as_many_parts_as_their_size_asks_for(
    spark: SparkSession,
) -> None:
    parts, cells = PARTS, "spark.sql.codegen.aggregate.fastHashMap.capacityBit"

    def told(rows: int, **settings: str) -> tuple[str | None, str | None]:
        team = own_session(spark, {"spark.sql.shuffle.partitions": "3", **settings})
        own = session_for_very_many(team)
        spread(own.range(rows).groupBy((F.col("id") % 7).alias("key")).count())
        assert team.conf.get(parts, None) == settings.get(parts)
        return own.conf.get(parts), own.conf.get(cells)

    assert told(1000) == ("3", "22")
    found, _ = told(20_000_000)
    assert int(found or 0) > 8
    assert told(20_000_000, **{parts: "5", cells: "17"}) == ("5", "17")
    assert spark.conf.get(parts, None) is None
