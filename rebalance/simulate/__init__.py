"""Many intervals without Spark."""

from rebalance.simulate.intervals import Record, simulate

__all__ = ["Record", "simulate"]
