"""`sessions`: a key's events cut into sessions wherever it was silent for longer than a gap. Not mergeable.

A session of the interval is one with an event in it; it may have begun in an earlier interval of the window. Besides its start, end and
number of events it counts the switches: how often the kind of event changed from one to the next. That needs the events in their order,
all in one place. State: the window's events.

Events at the same instant are ordered by their kind, so the result does not depend on the order in which rows arrive.
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
class Sessions:
    """Sessions of a key: start, end, events, switches."""

    name: ClassVar[str] = "sessions"
    mergeable: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = True

    #: Column that tells the kind of an event.
    kind: str = "kind"
    #: A session ends where the next event is more than this many seconds away.
    gap: float = 1800.0

    def __post_init__(self) -> None:
        if not self.gap > 0:
            raise ConfigError(f"sessions: gap = {self.gap:g} seconds must be positive.")

    def rows(self, events: DataFrame) -> DataFrame:
        """Time and kind of every event."""
        from pyspark.sql import functions as F

        return events.select("key", "time", F.col(self.kind).cast("string").alias("kind"))

    def results(self, rows: DataFrame) -> DataFrame:
        """One row per session with an event in the interval."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        in_order = Window.partitionBy(*PLACE).orderBy("time", "kind")
        so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        silence = F.unix_micros("time") - F.unix_micros(F.lag("time").over(in_order))
        begins = F.coalesce(silence > F.lit(round(self.gap * 1_000_000)), F.lit(True))
        switches = ~F.col("begins") & ~F.lag("kind").over(in_order).eqNullSafe(F.col("kind"))
        return (
            rows.withColumn("begins", begins)
            .withColumns({"session": F.count_if("begins").over(so_far), "switches": switches})
            .groupBy(*PLACE, "session")
            .agg(
                F.min("time").alias("start"),
                F.max("time").alias("end"),
                F.count(F.lit(1)).alias("events"),
                F.count_if("switches").alias("switches"),
                F.bool_or("is_new").alias("is_new"),
            )
            .where("is_new")
            .select("key", "start", "end", "events", "switches")
        )

    def state(self, rows: DataFrame) -> DataFrame:
        """The interval's events."""
        return rows.select(*PLACE, "time", "kind")

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Every row of the window is sorted and looked at again in each interval."""
        return window_rows
