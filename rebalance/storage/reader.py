"""What a reader may see: the active epoch, its function, and the state at the version that belongs to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalance.errors import RebalanceError
from rebalance.partition import PartitionFunction
from rebalance.storage.control import table_path
from rebalance.storage.epochs import Epoch, current_epoch, find_epoch, load_function
from rebalance.stores.places import for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Opened:
    """A pipeline's tables at one epoch; what is published later does not change it."""

    root: str
    epoch: Epoch
    function: PartitionFunction

    @property
    def state_path(self) -> str:
        """Path of the state table; read it at `state_version`, with any client that knows deletion vectors."""
        return table_path(self.root, "state")

    @property
    def state_version(self) -> int:
        """The Delta version of the state that belongs to this epoch."""
        return self.epoch.state_version

    def state(self, spark: SparkSession) -> DataFrame:
        """The state: interval_id, channel, key and the operator's columns."""
        from rebalance.storage.state import read_state

        if self.state_version < 0:
            raise RebalanceError(
                f"epoch {self.epoch.epoch} of {self.root} has no state: with a window of 1 none is kept."
            )
        return read_state(spark, self.root, self.state_version)

    def results(self, spark: SparkSession) -> DataFrame:
        """The results of all intervals that this epoch has seen."""
        found = spark.read.format("delta").load(for_spark(table_path(self.root, "results")))
        return found.where(found.interval_id <= self.epoch.interval_id)


def open_tables(root: str, epoch: int | None = None) -> Opened:
    """The active epoch of a pipeline's tables, or an earlier one by its number."""
    newest = current_epoch(root)
    chosen = newest if epoch is None or newest is None else find_epoch(root, epoch)
    if chosen is None:
        known = f"the epochs are 0..{newest.epoch}" if newest else "no interval was processed yet"
        raise RebalanceError(
            f"there is no {'epoch ' + str(epoch) if epoch is not None else 'epoch'} in {root}: {known}."
        )
    return Opened(root, chosen, load_function(root, chosen.function_version))
