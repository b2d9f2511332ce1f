"""The function as a Spark expression gives what the function gives in Python."""

from __future__ import annotations

import random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rebalance
from rebalance.errors import SourceError
from rebalance.partition import Key, KeyType, PartitionFunction, consistent_ring

RANDOM = random.Random(7)
ALPHABETS = ("abcdefgh", "0123456789", "äöüßéñ", "日本語文字", "🦉🐝🪲", "\x00\n\t '\"\\", "aä日🦉")
TEXTS = sorted(
    {
        "",
        "x" * 5000,
        "null",
        *("".join(RANDOM.choices(RANDOM.choice(ALPHABETS), k=RANDOM.randrange(1, 20))) for _ in range(4000)),
    }
)
NUMBERS = sorted(
    {0, -1, 2**63 - 1, -(2**63), *(RANDOM.randrange(-(2**63), 2**63) for _ in range(2000)), *range(-50, 50)}
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
