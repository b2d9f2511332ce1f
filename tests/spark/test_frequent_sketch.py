"""One look at some rows: sums of every slot, and the keys that may be frequent."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rebalance.spark import frequent


def test_only_summaries_of_partitions_are_exchanged(spark: SparkSession) -> None:
    rows = spark.range(0, 200_000, 1, 8).select((F.col("id") % 50_000).alias("key"), F.lit(1.0).alias("value"))
    found = frequent.summaries(rows.union(rows.where("key = 7")), 0.01)
    plan = found._jdf.queryExecution().executedPlan().toString()
    below = plan[plan.index("Exchange") :]
    # Below the one exchange stand the counters: nothing goes over it that has not been through them.
    assert plan.count("Exchange") == 1
    assert "MapInArrow" in below or "PythonMapInArrow" in below
    keys = found.where("key IS NOT NULL").count()
    assert keys < 16 * 200
    sketch = frequent.sketched(rows.union(rows.where("key >= 0").withColumn("key", F.lit(7).cast("bigint"))), 0.01)
    assert sketch.keys == [7]
    assert sketch.rows.sum() == 400_000
    assert abs(sketch.distinct - 50_000) < 50_000 * 0.1


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_are_looked_at_alike_with_adaptive_plans_and_without_and_where_there_are_none(
    spark: SparkSession, adaptive: str
) -> None:
    was = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        rows = spark.range(3000).select(
            F.concat(F.lit("k"), F.col("id") % 300).alias("key"), F.lit("abc").alias("text")
        )
        found = frequent.sketched(rows.union(rows.where("key = 'k7'")), 0.005)
        nothing = frequent.sketched(rows.limit(0), 0.005)
        filtered = frequent.sketched(rows.where(F.octet_length("key") > 9), 0.005)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", was)
    assert (found.keys, found.least, found.rows.sum()) == (["k7"], 16, 3010)
    # Three letters, one byte for the row, and the key.
    assert found.bytes.sum() == 3010 * 4 + 10 * sum(len(f"k{number}") for number in range(300)) + 10 * 2
    assert abs(found.distinct - 300) <= 30
    for none in (nothing, filtered):
        assert (none.keys, none.least, none.distinct, none.rows.sum()) == ([], 1, 0, 0)
