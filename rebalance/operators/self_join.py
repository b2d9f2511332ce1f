"""`self_join`: the pairs of a key's events of two kinds that are close in time, counted and summed. Not mergeable.

For example every buy with every sell of the same symbol in the ten minutes after it. The pairs themselves are never made: n buys and n
sells are n² pairs, more than any memory holds for a hot key. One pass in time order keeps how many earlier events are still near and
their sum, which is what a later event needs: an event is counted in when it happens and out again when its time is up.

State: the window's events of the two kinds; or with keep = "earlier" only those that come first in a pair, with the same results. An
event of the other kind finds its partners when its own interval is processed: they all come before it. Later intervals never ask for it.
"Earlier" is strictly earlier in time.
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
class SelfJoin:
    """Pairs of an `earlier` and a `later` event of a key at most `seconds` apart, both within the window."""

    name: ClassVar[str] = "self_join"
    mergeable: ClassVar[bool] = False

    #: Column that tells the kind of an event.
    kind: str = "kind"
    #: The kind that comes first in a pair, for example 'buy'.
    earlier: str = "buy"
    #: The kind that comes second, for example 'sell'.
    later: str = "sell"
    #: Numeric column whose difference, later less earlier, is summed over the pairs.
    value: str = "value"
    #: How far apart the two events of a pair may be, in seconds.
    seconds: float = 600.0
    #: What of an interval's events is kept: all "events", or only those of the `earlier` kind.
    keep: Literal["events", "earlier"] = "events"

    def __post_init__(self) -> None:
        if self.keep not in ("events", "earlier"):
            raise ConfigError(f"self_join: keep = {self.keep!r} must be 'events' or 'earlier'.")
        if self.earlier == self.later:
            raise ConfigError(
                f"self_join pairs {self.earlier!r} with {self.later!r}: they must differ. Name two kinds."
            )
        if not self.seconds > 0:
            raise ConfigError(f"self_join: seconds = {self.seconds:g} must be positive.")

    @property
    def keeps_rows(self) -> bool:
        """Only where all events are kept."""
        return self.keep == "events"

    def rows(self, events: DataFrame) -> DataFrame:
        """Only events of the two kinds matter."""
        from pyspark.sql import functions as F

        kind = F.col(self.kind)
        return events.where(kind.isin(self.earlier, self.later)).select(
            "key",
            "time",
            (kind == self.earlier).alias("is_earlier"),
            F.col(self.value).cast("decimal(18,6)").alias("value"),
        )

    def results(self, rows: DataFrame) -> DataFrame:
        """One row per key with a pair whose later event is in the interval: number of pairs, sum of their differences."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        before = Window.partitionBy(*PLACE).orderBy("instant").rangeBetween(Window.unboundedPreceding, -1)
        near = F.coalesce(F.sum("sign").over(before), F.lit(0))
        near_sum = F.coalesce(F.sum(F.col("sign") * F.col("value")).over(before), F.lit(0))
        difference = F.col("near") * F.col("value") - F.col("near_sum")
        return (
            self._comings_and_goings(rows)
            .withColumns({"near": near, "near_sum": near_sum})
            .where(F.col("is_new") & ~F.col("is_earlier") & (F.col("near") > 0))
            .groupBy(*PLACE)
            .agg(F.sum("near").alias("pairs"), F.sum(difference).cast("decimal(38,6)").alias("difference"))
            .drop("channel")
        )

    def state(self, rows: DataFrame) -> DataFrame:
        """The interval's events, or those of them that a later interval may ask for."""
        kept = rows if self.keeps_rows else rows.where("is_earlier")
        return kept.select(*PLACE, "time", "is_earlier", "value")

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Every row of the window is sorted and looked at again in each interval."""
        return window_rows

    def _comings_and_goings(self, rows: DataFrame) -> DataFrame:
        """Each earlier event twice, +1 at its instant and -1 when its time is up; later events once, with 0."""
        from pyspark.sql import functions as F

        instant = F.unix_micros("time")
        # A pair exactly `seconds` apart counts, so an event goes when that instant is over; `before` looks strictly before.
        gone = instant + F.lit(round(self.seconds * 1_000_000))
        step = F.struct(instant.alias("instant"), F.col("is_earlier").cast("int").alias("sign"))
        leave = F.struct(gone.alias("instant"), F.lit(-1).alias("sign"))
        steps = F.when(F.col("is_earlier"), F.array(step, leave)).otherwise(F.array(step))
        return rows.select(*PLACE, "is_new", "is_earlier", "value", F.inline(steps))
