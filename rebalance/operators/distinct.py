"""`distinct`: about how many different values a key had in the last w intervals, by HyperLogLog sketches. Mergeable.

State: one sketch per key and interval, whose size does not grow with the values. A row carries either the hash of one value (an event)
or a sketch (a state), so that both have the same columns. The relative standard error is about 1.04 / sqrt(2^lg_k): 1.6 % for 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rebalance.errors import ConfigError
from rebalance.operators.base import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats


@dataclass(frozen=True)
class Distinct:
    """Estimated number of different values per key over the window."""

    name: ClassVar[str] = "distinct"
    mergeable: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = False

    #: Column whose different values are counted; nulls are left out.
    value: str = "value"
    #: Base-2 logarithm of the number of registers of a sketch, 4 to 21: larger is more exact and takes more state.
    lg_k: int = 12

    def __post_init__(self) -> None:
        if not 4 <= self.lg_k <= 21:
            raise ConfigError(f"distinct: lg_k = {self.lg_k} is not within 4..21. 12 is exact to about 1.6 %.")

    def rows(self, events: DataFrame) -> DataFrame:
        """The hash of each value, and no sketch yet."""
        from pyspark.sql import functions as F

        value = F.col(self.value)
        return events.where(value.isNotNull()).select(
            "key", "salt", F.xxhash64(value).alias("hash"), F.lit(None).cast("binary").alias("sketch")
        )

    def results(self, rows: DataFrame) -> DataFrame:
        """One row per key of the window."""
        from pyspark.sql import functions as F

        # A sketch that only ever saw single values is estimated from the order in which it saw them; one that went through a union
        # is estimated from its registers alone. United with itself it is always the latter.
        registers = F.hll_union("sketch", "sketch")
        return self._merged(rows).select("key", F.hll_sketch_estimate(registers).alias("distinct"))

    def state(self, rows: DataFrame) -> DataFrame:
        """One sketch per key of the interval."""
        return self._merged(rows)

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Linear in the events; the few sketches of a key are not worth counting."""
        return new_rows

    def _merged(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        values, sketches = F.hll_sketch_agg("hash", self.lg_k), F.hll_union_agg("sketch")
        return (
            rows.groupBy(*PLACE)
            .agg(
                F.when(F.count("hash") > 0, values).alias("values"),
                F.when(F.count("sketch") > 0, sketches).alias("sketches"),
            )
            .select(
                *PLACE,
                F.lit(None).cast("bigint").alias("hash"),
                F.coalesce(F.hll_union("values", "sketches"), F.col("values"), F.col("sketches")).alias("sketch"),
            )
        )
