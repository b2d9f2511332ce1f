"""Without Spark: planners over many intervals (`simulate`), grouping schemes tuple by tuple (`simulate_tuples`)."""

from rebalance.simulate.cluster import Cluster
from rebalance.simulate.intervals import Record, simulate
from rebalance.simulate.schemes import SCHEMES, make_scheme
from rebalance.simulate.streams import Stream, drifting_stream, recorded_stream, zipf_stream
from rebalance.simulate.tuples import Outcome, simulate_tuples

__all__ = [
    "SCHEMES",
    "Cluster",
    "Outcome",
    "Record",
    "Stream",
    "drifting_stream",
    "make_scheme",
    "recorded_stream",
    "simulate",
    "simulate_tuples",
    "zipf_stream",
]
