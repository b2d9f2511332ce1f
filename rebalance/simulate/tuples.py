"""Tuple by tuple: sources route a stream to channels with capacities and queues.

The model of the simulations in Nasir et al., "Load Balancing for Skewed Streams on Heterogeneous Cluster":
- Time is measured in the mean service time: a channel of mean capacity serves one tuple per unit. Tuples arrive at even distances, `load`
  of what all channels together can serve; tuple i comes to source i mod s, which sends it on at once (no network delay).
- A channel serves its tuples one after the other in the order of arrival, each in 1/speed. Nothing is lost, queues have no end.
- Capacities may change during the run; a tuple in service goes on at the new speed.
- Time is cut into slots of the same number of tuples. At the end of each, the scheme hears of every channel's utilisation, and what
  `Outcome` holds is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError
from rebalance.planning.model import Floats, Indices, Ints
from rebalance.simulate.cluster import Cluster
from rebalance.simulate.grouping import Grouping, Router, Setting, key_hashes
from rebalance.simulate.streams import Stream

#: Percentiles of latency that are kept per slot.
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run recorded; arrays are by slot, then by channel."""

    scheme: str
    #: Tuples that had arrived by the end of each slot.
    tuples: Indices
    #: Time at the end of each slot.
    time: Floats
    #: L: tuples assigned to each channel by the end of the slot.
    loads: Indices
    #: Tuples waiting or in service at the end of the slot.
    queue: Indices
    #: Distinct keys each channel had met by the end of the slot.
    keys: Indices
    #: Tuples each channel could have served by the end of the slot.
    service: Floats
    #: Mean latency of the tuples that arrived in the slot, by channel; NaN without any.
    channel_latency: Floats
    #: Latency, finish less arrival, of every tuple.
    latency: NDArray[np.float32]
    #: Tuples per slot.
    slot: int
    #: Distinct keys of the whole stream.
    distinct: int
    #: Virtual workers of each channel in force during the slot; None for schemes without.
    virtual_workers: Ints | None

    @cached_property
    def utilisation(self) -> Floats:
        """Tuples assigned in the slot over tuples the channel could have served in it; above 1 its queue grows."""
        return np.asarray(np.diff(self.loads, axis=0, prepend=0) / np.diff(self.service, axis=0, prepend=0))

    @cached_property
    def imbalance(self) -> Floats:
        """I = max U - mean U with U(d) = L(d)/cap(d) from the beginning, in mean loads m/n (so PoRC's is at most ε + n/m).

        cap(d) is what d could have served so far, scaled to a mean of 1: with changing capacities their mean over time.
        """
        relative = self.loads / (self.service / self.service.mean(axis=1, keepdims=True))
        spread = relative.max(axis=1) - relative.mean(axis=1)
        return np.asarray(spread / (self.tuples / self.loads.shape[1]))

    @cached_property
    def slot_imbalance(self) -> Floats:
        """max - mean of the utilisation in each slot."""
        return np.asarray(self.utilisation.max(axis=1) - self.utilisation.mean(axis=1))

    @property
    def final_imbalance(self) -> float:
        """Mean of `slot_imbalance` over the last quarter of the slots: what a scheme that adapts has come to."""
        return float(self.slot_imbalance[-max(len(self.slot_imbalance) // 4, 1) :].mean())

    @property
    def processed(self) -> Indices:
        """Tuples finished by the end of each slot."""
        return np.asarray(self.tuples - self.queue.sum(axis=1))

    @property
    def throughput(self) -> float:
        """Tuples finished over tuples arrived by the end of the stream."""
        return float(self.processed[-1] / self.tuples[-1])

    @property
    def memory(self) -> Indices:
        """Memory footprint at the end of each slot: distinct keys summed over channels."""
        return np.asarray(self.keys.sum(axis=1))

    @property
    def replication(self) -> float:
        """Channels a key was met on, in the mean, at the end."""
        return float(self.memory[-1] / self.distinct)

    @cached_property
    def latency_percentiles(self) -> Floats:
        """By slot, then by `PERCENTILES`, of the tuples that arrived in the slot."""
        cuts = range(0, len(self.latency), self.slot)
        return np.array([np.percentile(self.latency[at : at + self.slot], PERCENTILES) for at in cuts])

    def percentile(self, percent: float) -> float:
        """Of the latency of all tuples."""
        return float(np.percentile(self.latency, percent))


def simulate_tuples(
    scheme: Grouping,
    stream: Stream,
    cluster: Cluster,
    *,
    sources: int = 1,
    load: float = 0.8,
    slot: int | None = None,
    seed: int = 0,
) -> Outcome:
    """Run the stream; `slot` is in tuples, by default a thousandth of the stream and at least 100 for each channel."""
    slot = slot or max(len(stream) // 1000, 100 * cluster.channels)
    if sources < 1 or load <= 0 or slot < 1:
        raise ConfigError(
            f"sources and slot must be at least 1 and load above 0, got sources = {sources}, slot = {slot}, load = {load}"
        )
    setting = Setting(key_hashes(stream.hashes, seed), cluster.channels, sources, seed)
    router, channels = scheme.start(setting), _Channels(cluster, stream, load)
    rows, workers = [], []
    for first in range(0, len(stream), slot):
        if router.virtual_workers:
            workers.append(router.virtual_workers())
        rows.append(channels.slot(router, first, min(first + slot, len(stream))))
        router.end_slot(channels.utilisation())
    loads, queue, keys, service, latency = (np.array(column) for column in zip(*rows, strict=True))
    ends = np.minimum(np.arange(slot, len(stream) + slot, slot), len(stream))
    return Outcome(
        scheme=scheme.name,
        tuples=ends,
        time=ends / channels.rate,
        loads=loads,
        queue=queue,
        keys=keys,
        service=service,
        channel_latency=latency,
        latency=channels.latency,
        slot=slot,
        distinct=channels.distinct,
        virtual_workers=np.array(workers) if workers else None,
    )


class _Channels:
    """The channels of one run."""

    def __init__(self, cluster: Cluster, stream: Stream, load: float) -> None:
        from rebalance.simulate.queue_kernel import Phases, Queues

        n, speed = cluster.channels, cluster.speeds
        self.stream = stream
        #: Tuples per unit of time.
        self.rate = load * n
        starts = np.ceil(np.array(cluster.begins) * len(stream)).astype(np.int64)
        lengths = np.diff(starts)[:, None] / self.rate
        done_before = np.vstack([np.zeros((1, n)), np.cumsum(lengths * speed[:-1], axis=0)])
        self.phases = Phases(self.rate, starts, speed, done_before)
        seen = np.zeros((len(stream.hashes), (n + 63) // 64), np.uint64)
        self.queues = Queues(np.zeros(n), seen, np.zeros(n, np.int64))
        self.loads = np.zeros(n, np.int64)
        self.latency = np.zeros(len(stream), np.float32)
        self._in_slot, self._service = np.zeros(n, np.int64), np.zeros(n)
        self._available = np.ones(n)

    @property
    def distinct(self) -> int:
        """Keys that have come so far."""
        return int(np.count_nonzero(self.queues.seen.any(axis=1)))

    def clock(self, tuples: int) -> Floats:
        """Tuples each channel could have served when so many have arrived."""
        starts = self.phases.starts
        phase = int(np.searchsorted(starts, tuples, side="right")) - 1
        since = (tuples - starts[phase]) / self.rate
        return np.asarray(self.phases.done_before[phase] + self.phases.speed[phase] * since)

    def slot(self, router: Router, first: int, end: int) -> tuple[Indices, Indices, Indices, Floats, Floats]:
        """Route and serve the tuples first..end-1: loads, queues, keys, service and mean latencies at the end of the slot."""
        from rebalance.simulate.queue_kernel import serve, waiting

        keys = self.stream.keys[first:end]
        channel, arrived, latency = router.route(keys, first), np.zeros_like(self.loads), self.latency[first:end]
        serve(keys, channel, first, self.phases, self.queues, arrived, latency)
        self.loads += arrived
        service = self.clock(end)
        self._in_slot, self._available, self._service = arrived, service - self._service, service
        with np.errstate(invalid="ignore"):
            mean = np.bincount(channel, weights=latency, minlength=len(arrived)) / arrived
        left = waiting(self.queues.busy_until, service)
        return self.loads.copy(), left, self.queues.distinct.copy(), service, mean

    def utilisation(self) -> Floats:
        """Of the last slot: tuples assigned over tuples that could have been served."""
        return np.asarray(self._in_slot / self._available)
