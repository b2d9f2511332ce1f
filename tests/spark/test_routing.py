"""The function as a Spark expression gives what the function gives in Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rebalance
from rebalance.errors import SourceError
from rebalance.partition import Key, KeyType, PartitionFunction, Share, consistent_ring
from rebalance.partition.hashing import hash_longs
from rebalance.spark.lookup import numbers, texts
from rebalance.spark.routing import (
    channel_of,
    is_split,
    key_column,
    mark_split,
    one_channel_of,
    ring_channel,
    to_one_channel,
)
from tests.support.budget import cases

RANDOM = random.Random(7)
ALPHABETS = ("abcdefgh", "0123456789", "äöüßéñ", "日本語文字", "🦉🐝🪲", "\x00\n\t '\"\\", "aä日🦉")
TEXTS = sorted(
    {
        "",
        "x" * 5000,
        "null",
        *(
            "".join(RANDOM.choices(RANDOM.choice(ALPHABETS), k=RANDOM.randrange(1, 20)))
            for _ in range(cases(4000, 100_000))
        ),
    }
)
NUMBERS = sorted(
    {
        0,
        -1,
        2**63 - 1,
        -(2**63),
        *(RANDOM.randrange(-(2**63), 2**63) for _ in range(cases(2000, 100_000))),
        *range(-50, 50),
    }
)


@pytest.mark.parametrize(
    ("keys", "key_type", "column"),
    [
        pytest.param(TEXTS, "string", "k string", id="texts of every kind"),
        pytest.param(NUMBERS, "long", "k bigint", id="integers"),
    ],
)
def test_spark_sends_every_key_where_python_does(
    spark: SparkSession, keys: list[Key], key_type: KeyType, column: str
) -> None:
    ring = consistent_ring(7)
    routes = {key: index % 7 for index, key in enumerate(keys[::5])}
    function = PartitionFunction(version=0, channels=7, slots=ring, key_type=key_type, routes=routes)
    df = spark.createDataFrame([(key,) for key in keys], column)
    routed = {row["k"]: row["channel"] for row in rebalance.route(df, function, "k").collect()}
    assert routed == dict(zip(keys, function.channel_of(keys).tolist(), strict=True))


def test_a_literal_array_holds_every_text_and_every_number(spark: SparkSession) -> None:
    wholes, reals = np.array(NUMBERS), np.array([0.1, -0.0, 5e-324, 1.7976931348623157e308])
    row = spark.range(1).select(
        texts(TEXTS).alias("texts"),
        numbers(wholes).alias("longs"),
        numbers(wholes.astype(np.int32)).alias("ints"),
        numbers(reals).alias("doubles"),
    )
    assert dict(row.dtypes) == {
        "texts": "array<string>",
        "longs": "array<bigint>",
        "ints": "array<int>",
        "doubles": "array<double>",
    }
    found = row.first()
    assert found is not None
    assert found["texts"] == TEXTS
    assert found["longs"] == NUMBERS
    assert found["ints"] == wholes.astype(np.int32).tolist()
    assert found["doubles"] == reals.tolist()


def test_a_hundred_thousand_routes_are_as_right_as_one(spark: SparkSession) -> None:
    routes: dict[Key, int] = {f"k-{number}": number % 5 for number in range(100_000)}
    function = PartitionFunction(version=0, channels=5, slots=consistent_ring(5), routes=routes)
    df = spark.range(0, 130_000, 1, 2).select(F.concat(F.lit("k-"), F.col("id").cast("string")).alias("k"))
    routed = {row["k"]: row["channel"] for row in rebalance.route(df, function, "k").collect()}
    assert list(routed.values()) == function.channel_of(routed).tolist()


def test_keys_of_the_same_hash_are_told_apart(spark: SparkSession) -> None:
    many = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 600_000)
    hashes = hash_longs(many)
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    pairs = [(int(many[order[i]]), int(many[order[i + 1]])) for i in same]
    assert len(pairs) > 20
    routes: dict[Key, int] = {}
    for number, (one, other) in enumerate(pairs):
        # Both routed, one of them, or none.
        routes |= {one: 1} if number % 3 else {}
        routes |= {other: 2} if number % 3 == 1 else {}
    slots = np.zeros_like(consistent_ring(3))
    function = PartitionFunction(version=0, channels=3, slots=slots, key_type="long", routes=routes)
    keys = sorted({key for pair in pairs for key in pair})
    df = spark.createDataFrame([(key,) for key in keys], "k bigint")
    routed = {row["k"]: row["channel"] for row in rebalance.route(df, function, "k").collect()}
    assert routed == {key: routes.get(key, 0) for key in keys}
    assert {1, 2} <= set(routed.values())


def test_small_integers_are_hashed_as_long_ones(spark: SparkSession) -> None:
    function = PartitionFunction(version=0, channels=5, slots=consistent_ring(5), key_type="long")
    df = spark.createDataFrame([(number,) for number in range(-100, 100)], "k smallint")
    routed = {row["k"]: row["channel"] for row in rebalance.route(df, function, "k").collect()}
    assert list(routed.values()) == function.channel_of(list(routed)).tolist()


def test_routing_keeps_the_other_columns_and_adds_one(spark: SparkSession) -> None:
    function = PartitionFunction(version=0, channels=2, slots=consistent_ring(2), routes={"a": 1})
    df = spark.createDataFrame([("a", 1.5), ("b", 2.5)], "user string, price double")
    assert rebalance.route(df, function, "user").columns == ["user", "price", "channel"]


def test_a_null_key_goes_nowhere(spark: SparkSession) -> None:
    function = PartitionFunction(version=0, channels=2, slots=consistent_ring(2))
    df = spark.createDataFrame([("a",), (None,)], "k string")
    with pytest.raises(PySparkException, match="null key"):
        rebalance.route(df, function, "k").collect()


@pytest.mark.parametrize(
    ("column", "message"),
    [("nothing", "no key column 'nothing'"), ("n", "is long but the function was made for string")],
)
def test_a_key_column_that_does_not_fit_is_refused(spark: SparkSession, column: str, message: str) -> None:
    function = PartitionFunction(version=0, channels=2, slots=consistent_ring(2))
    with pytest.raises(SourceError, match=message):
        rebalance.route(spark.createDataFrame([(1,)], "n int"), function, column)


SHARES = {
    "even": (Share(2, 0.5), Share(0, 0.5)),
    "uneven": (Share(3, 0.6), Share(1, 0.25), Share(2, 0.1), Share(0, 0.05)),
    "all on one": (Share(1, 1.0),),
}
SPLITTING = PartitionFunction(version=0, channels=4, slots=consistent_ring(4), routes={"routed": 3}, splits=SHARES)
PER_KEY = 40_000


def many_tuples(spark: SparkSession) -> DataFrame:
    keys = F.array(*(F.lit(key) for key in (*SHARES, "routed", "hashed")))
    return spark.range(PER_KEY).select(F.explode(keys).alias("k"), F.col("id").alias("n"), F.col("id").cast("string"))


def test_tuples_of_a_split_key_meet_its_shares(spark: SparkSession) -> None:
    routed = rebalance.route(many_tuples(spark), SPLITTING, "k")
    counts = {(row["k"], row["channel"]): row["count"] for row in routed.groupBy("k", "channel").count().collect()}
    for key, shares in SHARES.items():
        assert sum(counts.get((key, channel), 0) for channel in range(4)) == PER_KEY
        for part in shares:
            # Five standard deviations of a binomial.
            off = 5 * (PER_KEY * part.share * (1 - part.share)) ** 0.5
            assert abs(counts[key, part.channel] - PER_KEY * part.share) <= off
    assert counts["routed", 3] == counts["hashed", int(SPLITTING.channel_of(["hashed"])[0])] == PER_KEY


def test_the_same_tuple_goes_to_the_same_channel_whatever_comes_with_it(spark: SparkSession) -> None:
    once = {
        (row["k"], row["n"]): row["channel"] for row in rebalance.route(many_tuples(spark), SPLITTING, "k").collect()
    }
    some = many_tuples(spark).where("n % 7 = 3").repartition(3).orderBy(F.desc("n"))
    again = {(row["k"], row["n"]): row["channel"] for row in rebalance.route(some, SPLITTING, "k").collect()}
    assert again == {tuple_: channel for tuple_, channel in once.items() if tuple_[1] % 7 == 3}


def test_a_salt_of_one_s_own_decides_alone_and_is_kept(spark: SparkSession) -> None:
    salted = many_tuples(spark).withColumn("salt", F.col("n") % 100)
    routed = rebalance.route(salted, SPLITTING, "k")
    assert routed.columns == [*salted.columns, "channel"]
    assert routed.groupBy("k", "salt").agg(F.countDistinct("channel").alias("c")).where("c > 1").count() == 0
    assert routed.where("k = 'uneven'").select("channel").distinct().count() == 4


def test_columns_that_spark_cannot_hash_do_not_take_part(spark: SparkSession) -> None:
    tagged = many_tuples(spark).withColumn("tags", F.create_map("k", "n"))
    assert rebalance.route(tagged, SPLITTING, "k").where("k = 'uneven'").select("channel").distinct().count() == 4


def test_a_split_key_has_its_first_channel_as_its_one_channel(spark: SparkSession) -> None:
    keys = [*SHARES, "routed", "hashed"]
    rows = spark.createDataFrame([(key, 9) for key in keys], "key string, channel int")
    channel_of = {row["key"]: row["channel"] for row in to_one_channel(rows, SPLITTING).collect()}
    assert channel_of == dict(zip(keys, SPLITTING.channel_of(keys).tolist(), strict=True))
    marked = {row["key"]: row["is_split"] for row in mark_split(rows, SPLITTING).collect()}
    assert marked == {key: key in SHARES for key in keys}


def test_without_a_salt_a_split_key_goes_to_its_first_channel_whole(spark: SparkSession) -> None:
    rows = many_tuples(spark).where("n < 50")
    key = F.col("k")
    found = rows.select(
        "k",
        channel_of(SPLITTING, key).alias("unsalted"),
        one_channel_of(SPLITTING, key).alias("one"),
        is_split(SPLITTING, key).alias("split"),
        ring_channel(SPLITTING, key).alias("ring"),
    ).distinct()
    keys = [*SHARES, "routed", "hashed"]
    one, ring = SPLITTING.channel_of(keys).tolist(), SPLITTING.hash_channel_of(keys).tolist()
    wanted = {(k, c, c, k in SHARES, h) for k, c, h in zip(keys, one, ring, strict=True)}
    assert {tuple(row) for row in found.collect()} == wanted
    plain = PartitionFunction(version=0, channels=4, slots=consistent_ring(4), routes={"routed": 3})
    assert not rows.where(is_split(plain, key)).count()


@pytest.fixture
def placed_and_rows(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Rows of routed, split and other keys placed without a column for their channel, and the rows alone."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    rows = many_tuples(spark).where("n < 2000").select("k", "n")
    yield rows.repartitionById(4, channel_of(SPLITTING, F.col("k"), F.col("n"))), rows
    spark.conf.unset("spark.sql.adaptive.enabled")


Placed = tuple[DataFrame, DataFrame]


def test_rows_lie_in_the_partition_of_their_channel_without_carrying_it(placed_and_rows: Placed) -> None:
    placed, rows = placed_and_rows
    lying = {(row["k"], row["n"]): row["p"] for row in placed.withColumn("p", F.spark_partition_id()).collect()}
    salted = rebalance.route(rows.withColumn("salt", F.col("n")), SPLITTING, "k")
    assert lying == {(row["k"], row["n"]): row["channel"] for row in salted.collect()}
    assert set(lying.values()) == {0, 1, 2, 3}


def test_only_the_rows_themselves_are_exchanged(placed_and_rows: Placed) -> None:
    placed, rows = placed_and_rows
    carried = rows.withColumn("channel", F.lit(1)).repartitionById(4, F.col("channel"))
    alone = exchanged_bytes(rows.repartition(4, "k"))
    assert exchanged_bytes(placed) == alone
    assert exchanged_bytes(carried) > alone


def exchanged_bytes(placed: DataFrame) -> int:
    plan = placed._jdf.queryExecution().executedPlan()
    plan.execute().count()
    return int(plan.metrics().apply("dataSize").value())


def test_nothing_of_the_placing_expression_is_interpreted_or_left_to_be_folded(
    spark: SparkSession, placed_and_rows: Placed
) -> None:
    placed, _ = placed_and_rows
    expression = placed._jdf.queryExecution().executedPlan().outputPartitioning().expr()
    of = spark._jvm.java.lang.Class.forName  # type: ignore[union-attr]
    interpreted = of("org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback")
    nodes = list(every_node(expression))
    assert any(node.nodeName() == "CaseWhen" for node in nodes)
    assert [node.nodeName() for node in nodes if interpreted.isInstance(node)] == []
    assert {node.nodeName() for node in nodes if node.foldable()} == {"Literal"}


def every_node(expression: Any) -> Iterator[Any]:
    yield expression
    children = expression.children()
    for number in range(children.size()):
        yield from every_node(children.apply(number))


def test_a_row_s_key_is_hashed_once_however_many_entries_it_is_compared_with(spark: SparkSession) -> None:
    routes: dict[Key, int] = {f"k-{number}": number % 4 for number in range(3000)}
    function = PartitionFunction(version=0, channels=4, slots=consistent_ring(4), routes=routes, splits=SHARES)
    plan = rebalance.route(many_tuples(spark), function, "k")._jdf.queryExecution().executedPlan()
    code = spark._jvm.org.apache.spark.sql.execution.debug.package.codegenString(plan)  # type: ignore[union-attr]
    assert code.count("binaryEquals") >= 2
    assert code.count("Murmur3_x86_32.hash") == 1


def test_keys_of_several_columns_never_collide(spark: SparkSession) -> None:
    rows = [("a\x1fb", "c"), ("a", "b\x1fc"), ("a\\", "b"), ("a", "\\b"), ("a\\s", "b"), ("a\x1f", "b"), ("a", "b")]
    df = spark.createDataFrame(rows, "one string, two string")
    keys = [row["key"] for row in df.select(key_column(df, ("one", "two"), "string").alias("key")).collect()]
    assert len(set(keys)) == len(rows)
    assert keys[-1] == "a\x1fb"
