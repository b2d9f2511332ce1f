"""`naive_bayes`: the counters of a naive Bayes classifier; a key is a feature (a word, a symbol). Mergeable.

State: how often each label came with the feature, one row per feature, label and interval. Counts add up, so a hot feature, the
classic case for splitting keys (Nasir et al. 2015), may be counted on several channels.

Results, for every feature and every declared label: the count, and the smoothed log-likelihood ln((count + α) / (Σ counts + α·L)) of
the label given the feature, L labels. Summed over the features of an item they score its labels. Whoever wants P(feature | label) has
the counts, and divides by a label's own total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rebalance.errors import ConfigError
from rebalance.operators.base import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats


@dataclass(frozen=True)
class NaiveBayes:
    """Counts per label and smoothed log-likelihoods per key over the window."""

    name: ClassVar[str] = "naive_bayes"
    mergeable: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = False

    #: Column with an event's label.
    label: str = "label"
    #: All labels; events with another label, or none, are left out.
    labels: Sequence[str] = ("yes", "no")
    #: α: what is added to each count, so that an unseen pair is not impossible; 1 is Laplace's rule.
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            raise ConfigError(f"naive_bayes: labels = {list(self.labels)} must be two or more different labels.")
        if not self.alpha > 0:
            raise ConfigError(f"naive_bayes: alpha = {self.alpha:g} must be positive; 1 is Laplace's rule.")

    def rows(self, events: DataFrame) -> DataFrame:
        """Every labelled event counts one."""
        from pyspark.sql import functions as F

        label = F.col(self.label).cast("string")
        return events.where(label.isin(*self.labels)).select(
            "key", "salt", label.alias("label"), F.lit(1).cast("bigint").alias("count")
        )

    def results(self, rows: DataFrame) -> DataFrame:
        """One row per key of the window and label."""
        from pyspark.sql import functions as F

        counts = [
            F.struct(
                F.lit(label).alias("label"),
                F.coalesce(F.sum(F.when(F.col("label") == label, F.col("count"))), F.lit(0)).alias("count"),
            )
            for label in self.labels
        ]
        smoothed = (F.col("counted.count") + self.alpha) / (F.col("total") + self.alpha * len(self.labels))
        return (
            rows.groupBy(*PLACE)
            .agg(F.sum("count").alias("total"), F.array(*counts).alias("counts"))
            .select("key", "total", F.explode("counts").alias("counted"))
            .select("key", "counted.label", "counted.count", F.ln(smoothed).alias("log_likelihood"))
        )

    def state(self, rows: DataFrame) -> DataFrame:
        """One row per key and label of the interval."""
        from pyspark.sql import functions as F

        return rows.groupBy(*PLACE, "label").agg(F.sum("count").alias("count"))

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Linear in the events; the few state rows of a key are not worth counting."""
        return new_rows
