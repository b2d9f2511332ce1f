"""`latest_match`: for every event of one kind the latest earlier event of another kind with the same key. Not mergeable.

For example the buy before each sell. It is ordered work: a key's events must meet on one channel in time order, and Spark cannot
combine anything before the exchange, so a hot key hurts. State: the window's events; or with keep = "latest" one event per key and
interval, with the same results.

"Earlier" is strictly earlier in time. Of several candidates at the same instant the one with the largest value counts, so the result
does not depend on the order in which rows arrive.

Why the latest of each interval is enough: an event of a later interval comes after every event of an earlier one, so all of these are
candidates, and the latest of them is the latest of the intervals' latest. State leaves the window by whole intervals, so each interval's
own latest is what any window can ever ask for. Events of the `later` kind are never looked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rebalance.errors import ConfigError
from rebalance.operators.base import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats


@dataclass(frozen=True)
class LatestMatch:
    """The latest `earlier` event before each `later` event of the same key, within the window."""

    name: ClassVar[str] = "latest_match"
    mergeable: ClassVar[bool] = False

    #: Column that tells the kind of an event.
    kind: str = "kind"
    #: The kind to look for, for example 'buy'.
    earlier: str = "buy"
    #: The kind that looks, for example 'sell'.
    later: str = "sell"
    #: Column reported for both events of a match.
    value: str = "value"
    #: What of an interval's events is kept: all "events", or the "latest" `earlier` one of each key.
    keep: Literal["events", "latest"] = "events"

    def __post_init__(self) -> None:
        if self.keep not in ("events", "latest"):
            raise ConfigError(f"latest_match: keep = {self.keep!r} must be 'events' or 'latest'.")
        if self.earlier == self.later:
            raise ConfigError(
                f"latest_match looks for {self.earlier!r} before {self.later!r}: they must differ. Name two kinds."
            )

    @property
    def keeps_rows(self) -> bool:
        """Only where all events are kept."""
        return self.keep == "events"

    def rows(self, events: DataFrame) -> DataFrame:
        """Only events of the two kinds matter."""
        from pyspark.sql import functions as F

        kind = F.col(self.kind)
        return events.where(kind.isin(self.earlier, self.later)).select(
            "key", "time", (kind == self.earlier).alias("is_earlier"), F.col(self.value).alias("value")
        )

    def results(self, rows: DataFrame) -> DataFrame:
        """One row per `later` event of the interval; match_* are null where there was nothing to match."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        instant = F.unix_micros("time")
        before = Window.partitionBy(*PLACE).orderBy(instant).rangeBetween(Window.unboundedPreceding, -1)
        candidate = F.when(F.col("is_earlier"), F.struct("time", "value"))
        return (
            rows.withColumn("match", F.max(candidate).over(before))
            .where(F.col("is_new") & ~F.col("is_earlier"))
            .select(
                "key",
                "time",
                "value",
                F.col("match.time").alias("match_time"),
                F.col("match.value").alias("match_value"),
            )
        )

    def state(self, rows: DataFrame) -> DataFrame:
        """The interval's events, or the one of each key that a later interval may ask for."""
        from pyspark.sql import functions as F

        if self.keeps_rows:
            return rows.select(*PLACE, "time", "is_earlier", "value")
        latest = rows.where("is_earlier").groupBy(*PLACE).agg(F.max(F.struct("time", "value")).alias("latest"))
        return latest.select(*PLACE, "latest.time", F.lit(True).alias("is_earlier"), "latest.value")

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Every row of the window is sorted and looked at again in each interval."""
        return window_rows
