"""`windowed_sum`: how many events a key had in the last w intervals, and their sum. Mergeable.

State: one row per key and interval. Values are summed as DECIMAL(38,6), so that the sum does not depend on the order of the rows
and a re-run gives the same result to the last digit; doubles would not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rebalance.operators.base import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats


@dataclass(frozen=True)
class WindowedSum:
    """Count and sum per key over the window."""

    name: ClassVar[str] = "windowed_sum"
    mergeable: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = False

    #: Numeric column to sum.
    value: str = "value"

    def rows(self, events: DataFrame) -> DataFrame:
        """Every event counts one."""
        from pyspark.sql import functions as F

        return events.select(
            "key",
            "salt",
            F.lit(1).cast("bigint").alias("count"),
            F.col(self.value).cast("decimal(38,6)").alias("sum"),
        )

    def results(self, rows: DataFrame) -> DataFrame:
        """One row per key of the window, also for keys without events in the interval itself."""
        return self._total(rows).drop("channel")

    def state(self, rows: DataFrame) -> DataFrame:
        """One row per key of the interval."""
        return self._total(rows)

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Linear in the events; the few state rows of a key are not worth counting."""
        return new_rows

    @staticmethod
    def _total(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return rows.groupBy(*PLACE).agg(F.sum("count").alias("count"), F.sum("sum").cast("decimal(38,6)").alias("sum"))
