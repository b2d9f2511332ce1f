"""Keeps keyed, stateful batch pipelines on Spark and Delta balanced.

import rebalance

tables = rebalance.open("path/to/tables")      # the active epoch
tables.state(spark)                            # its state, at the version that belongs to it
rebalance.route(df, tables.function, "user")   # any DataFrame with the channel of each row
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
