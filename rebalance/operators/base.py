"""The interface of a stateful operator.

An operator is a frozen dataclass: its fields are its parameters. It says three things about its data, each as a function from
DataFrame to DataFrame:

    rows(events)    what of an event it needs: `key` plus its own columns. The same columns are what its state holds.
    results(rows)   what an interval yields, from all rows of the window. Rows are already placed: all rows of a key are on one
                    channel, so group and window by ("channel", "key") and Spark adds no exchange. Rows of the interval itself
                    have is_new = true.
    state(rows)     what of the interval's own rows must be kept for later intervals, in the same columns.

`channel`, `interval_id` and `is_new` are added for you and must not be returned by `rows`.

A mergeable operator may have a key on several channels at once. There is no method for merging, because rows and states have the
same columns: states of parts are merged by `state` itself. What makes an operator mergeable is this law, for every way to cut a key's
rows into parts:

    state(the parts' states, united) = state(all rows)
    results(the parts' states, united) = results(all rows)

So sums, counts, extremes and sketches merge; medians, or anything that asks which row came next, do not. For a planner that splits
keys, `rows` must also hand on the column `salt`, a number from the whole event, by which the tuples of a split key choose among its
channels; it is taken off before the rows are placed. `results` of a mergeable operator sees states where it else sees rows.

Nothing may be random: a retried Spark task must give the same rows. Import pyspark inside the methods: Airflow reads an operator's declarations without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats

#: How every operator groups and windows, which keeps the placement. The key first: Spark sorts by the first column's first bytes.
PLACE = ("key", "channel")


class Operator(Protocol):
    """Keyed, stateful work on one interval at a time."""

    @property
    def name(self) -> str:
        """The name in a pipeline file and in messages."""
        ...

    @property
    def mergeable(self) -> bool:
        """Whether partial states of one key on several channels can be merged; only then may a planner split keys."""
        ...

    @property
    def keeps_rows(self) -> bool:
        """Whether `state` keeps every row as it is. What was counted of an interval is then what its state holds, and need not be read."""
        ...

    def rows(self, events: DataFrame) -> DataFrame:
        """Events (`key`, `time` and the source's other columns) as rows of this operator's state columns."""
        ...

    def results(self, rows: DataFrame) -> DataFrame:
        """The interval's results, with a column `key`."""
        ...

    def state(self, rows: DataFrame) -> DataFrame:
        """What the interval's own rows leave behind: `channel`, `key` and the state columns."""
        ...

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """c(k): what each key costs to process, from its number of new rows and of rows in the whole window. No unit.

        Arrays over the keys, so plain arithmetic does: `new_rows + 0.1 * window_rows`.
        """
        ...
