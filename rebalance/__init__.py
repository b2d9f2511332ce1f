"""Keeps keyed, stateful batch pipelines on Spark and Delta balanced.

import rebalance

tables = rebalance.open("path/to/tables")      # the active epoch
tables.state(spark)                            # its state, at the version that belongs to it
rebalance.route(df, tables.function, "user")   # any DataFrame with the channel of each row

plan = rebalance.plan(table, channels=8)       # a pandas, polars or Arrow table of keys and costs: who should go where
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from rebalance.notebook import TablePlan
    from rebalance.partition import PartitionFunction
    from rebalance.storage.reader import Opened

__version__ = "0.1.0"


def open(root: str, epoch: int | None = None) -> Opened:  # noqa: A001 - reads as rebalance.open
    """A pipeline's tables at the active epoch, or at an earlier one by its number. Starts no Spark."""
    from pathlib import Path

    from rebalance.storage.reader import open_tables
    from rebalance.stores.places import qualified

    return open_tables(qualified(root, Path.cwd()), epoch)


def route(df: DataFrame, function: PartitionFunction, key: str = "key") -> DataFrame:
    """Add the column `channel`: where the function sends each row of any DataFrame by its key column."""
    from rebalance.errors import extras_named

    with extras_named():
        from rebalance.spark.routing import route

    return route(df, function, key)


def plan(
    table: object,
    *,
    channels: int,
    now: str | PartitionFunction | None = None,
    planner: str = "frugal",
    theta_max: float = 0.08,
    max_routes: int = 3000,
    max_bytes: int | None = None,
    capacities: Sequence[float] = (),
    mergeable: bool = False,
    parameters: Mapping[str, Any] | None = None,
    key: str = "key",
    cost: str = "cost",
    state: str | None = None,
) -> TablePlan:
    """Plan where each key of a table should go, and why. Starts no Spark and writes nothing.

    `table` is a pandas, polars or Arrow table, or a dict of columns, with one row per key: the key (text or whole number), what it costs
    (in any unit: only ratios matter), and, if moving it has a price, the bytes of its state. `key`, `cost` and `state` name the columns;
    a column `state` is used if there is one.

    `now` says where the keys are: the name of a column of channels, or a function, for example that of an earlier plan. A column
    `channel` is used if there is one; without any, keys are where the hash alone puts them.

    The other knobs are those of a pipeline file (docs/planners.md). `mergeable` says that a key's partial results can be merged, so that
    planners may split keys; `parameters` are the planner's own.

    >>> found = plan({"key": ["ann", "bob", "eve", "joe"], "cost": [4, 3, 2, 1], "state": [900, 100, 100, 100]}, channels=2)
    >>> found
    apply by frugal: max/fair load 2.000 → 1.000 by moving 2 keys with 200 bytes of state
    >>> found.loads_before, found.loads
    ([0.0, 10.0], [5.0, 5.0])
    >>> found.moved.select(["key", "from", "to"]).to_pylist()
    [{'key': 'bob', 'from': 1, 'to': 0}, {'key': 'eve', 'from': 1, 'to': 0}]
    >>> found.function.channel_of(["ann", "bob", "eve", "joe"]).tolist()
    [1, 0, 0, 1]

    A later plan starts from there; while all is well it moves nothing:

    >>> plan({"key": ["ann", "bob", "eve", "joe"], "cost": [40, 31, 20, 10]}, channels=2, now=found.function)
    keep by frugal: within θ_max: the largest θ is 0.010 ≤ 0.08

    What cannot be planned on is refused in words:

    >>> plan({"key": ["ann", "ann"], "cost": [4, 3]}, channels=2)
    Traceback (most recent call last):
    rebalance.errors.SourceError: 1 of 2 rows repeat a key in 'key', for example 'ann'. Give one row per key: sum cost and state first.
    """
    from rebalance.notebook import plan_table

    return plan_table(
        table,
        channels=channels,
        now=now,
        planner=planner,
        theta_max=theta_max,
        max_routes=max_routes,
        max_bytes=max_bytes,
        capacities=capacities,
        mergeable=mergeable,
        parameters=parameters,
        key=key,
        cost=cost,
        state=state,
    )


def load_function(file: str | Path) -> PartitionFunction:
    """A function from the file that `function.save(file)` has written."""
    from rebalance.partition import PartitionFunction

    return PartitionFunction.load(file)
