"""Channels at work: queues, latencies and the keys they have seen, as machine code. Read `tuples` first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints

#: A tuple of which less than this is left is finished. Clocks count up to 10^8 tuples, so the last bit of the work that is left is worth
#: 10^-8 of a tuple: more than the tolerance that loads are compared with.
FINISHED = 1e-6


class Phases(NamedTuple):
    """What a channel's own clock shows: the tuples it could have served by now. Rows are by phase."""

    #: Tuples per unit of time.
    rate: float
    #: The tuple each phase begins with.
    starts: Indices
    #: How fast the clock of each channel goes, and what it shows when the phase begins.
    speed: Floats
    done_before: Floats


class Queues(NamedTuple):
    """What changes as tuples arrive."""

    #: When, on its own clock, each channel will have finished its last tuple.
    busy_until: Floats
    #: Channels each key has been on, as bits.
    seen: NDArray[np.uint64]
    #: Distinct keys of each channel.
    distinct: Indices


@compiled
def serve(
    keys: Ints,
    channel: Ints,
    first: int,
    phases: Phases,
    queues: Queues,
    arrived: Indices,
    latency: NDArray[np.float32],
) -> None:
    """Let tuples first, first + 1, … arrive, in order, at their channels: adds to `arrived`, fills in `latency`.

    On a channel's own clock every tuple takes exactly 1, whatever happens to the speed meanwhile, so one number per channel is its
    whole queue: `busy_until`.
    """
    number_of_phases = len(phases.starts)
    phase = 0
    for i in range(len(keys)):
        number, d, key = first + i, channel[i], keys[i]
        while phase + 1 < number_of_phases and number >= phases.starts[phase + 1]:
            phase += 1
        now = number / phases.rate
        since = now - phases.starts[phase] / phases.rate
        clock = phases.done_before[phase, d] + phases.speed[phase, d] * since
        finish = max(clock, queues.busy_until[d]) + 1.0
        queues.busy_until[d] = finish
        at = phase
        while at + 1 < number_of_phases and finish > phases.done_before[at + 1, d]:
            at += 1
        late = (finish - phases.done_before[at, d]) / phases.speed[at, d]
        latency[i] = phases.starts[at] / phases.rate + late - now
        arrived[d] += 1
        word, bit = d >> 6, np.uint64(1) << np.uint64(d & 63)
        if not queues.seen[key, word] & bit:
            queues.seen[key, word] |= bit
            queues.distinct[d] += 1


@compiled
def waiting(busy_until: Floats, clock: Floats) -> Indices:
    """Tuples not finished per channel when its own clock shows `clock`: they end at busy_until, busy_until - 1, …"""
    out = np.zeros(len(clock), np.int64)
    for d in range(len(clock)):
        left = busy_until[d] - clock[d]
        if left > FINISHED:
            out[d] = np.int64(np.ceil(left - FINISHED))
    return out
