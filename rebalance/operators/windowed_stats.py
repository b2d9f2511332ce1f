"""`windowed_stats`: count, smallest, largest, mean and variance of a value per key over the last w intervals. Mergeable.

State: count, sum, sum of squares, smallest and largest, one row per key and interval. Values are taken as DECIMAL(18,6), so that both
sums are exact and depend neither on the order of the rows nor on how a key was split; the usual running mean and deviation in doubles
would. A value of 10^12 or more, or a sum of squares of 10^26 or more, fails the job rather than being rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rebalance.operators.base import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats


@dataclass(frozen=True)
class WindowedStats:
    """Count, min, max, mean and variance per key over the window."""

    name: ClassVar[str] = "windowed_stats"
    mergeable: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = False

    #: Numeric column to describe; nulls are left out.
    value: str = "value"

    def rows(self, events: DataFrame) -> DataFrame:
        """An event is a statistic of one value."""
        from pyspark.sql import functions as F

        value = F.col(self.value).cast("decimal(18,6)")
        return events.where(value.isNotNull()).select(
            "key",
            "salt",
            F.lit(1).cast("bigint").alias("count"),
            value.cast("decimal(38,6)").alias("sum"),
            (value * value).cast("decimal(38,12)").alias("sum_squares"),
            value.alias("min"),
            value.alias("max"),
        )

    def results(self, rows: DataFrame) -> DataFrame:
        """One row per key of the window; the variance is that of the values themselves (divided by n, not n - 1)."""
        from pyspark.sql import functions as F

        # In 24 digits: Spark then keeps enough of them behind the point to divide and multiply without a visible error.
        total = F.col("sum").cast("decimal(24,6)")
        mean = total / F.col("count")
        deviations = F.col("sum_squares") - total * mean
        return self._merged(rows).select(
            "key",
            "count",
            "min",
            "max",
            mean.cast("double").alias("mean"),
            F.greatest(deviations.cast("double") / F.col("count"), F.lit(0.0)).alias("variance"),
        )

    def state(self, rows: DataFrame) -> DataFrame:
        """One row per key of the interval."""
        return self._merged(rows)

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Linear in the events; the few state rows of a key are not worth counting."""
        return new_rows

    @staticmethod
    def _merged(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return rows.groupBy(*PLACE).agg(
            F.sum("count").alias("count"),
            F.sum("sum").cast("decimal(38,6)").alias("sum"),
            F.sum("sum_squares").cast("decimal(38,12)").alias("sum_squares"),
            F.min("min").alias("min"),
            F.max("max").alias("max"),
        )
