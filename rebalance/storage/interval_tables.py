"""Tables that grow by an interval at a time: results, key_counts, key_stats."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance.storage.control import has_interval, table_path


def write_interval(df: DataFrame, root: str, table: str, interval_id: str) -> None:
    """Write an interval's rows in one commit, in the place of any that a killed run has left.

    A plain append where there are none: it costs a third of a replacement.
    """
    writer = df.withColumn("interval_id", F.lit(interval_id)).write.format("delta").partitionBy("interval_id")
    if has_interval(root, table, interval_id):
        writer = writer.mode("overwrite").option("replaceWhere", f"interval_id = '{interval_id}'")
    else:
        writer = writer.mode("append")
    writer.save(table_path(root, table))
