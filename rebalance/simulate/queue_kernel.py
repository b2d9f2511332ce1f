"""Channels at work: queues, latencies and the keys they have seen, as machine code. Read `tuples` first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rebalance.compiled import compiled
from rebalance.planning.model import Floats, Indices, Ints

#: Work below this is rounding: a tuple that is finished but for it is finished.
ROUNDING = 1e-6


@compiled
def serve(
    keys: Ints,
    channel: Ints,
    first: int,
    rate: float,
    starts: Indices,
    speed: Floats,
    done_before: Floats,
    busy_until: Floats,
    seen: NDArray[np.uint64],
    distinct: Indices,
    arrived: Indices,
    latency: NDArray[np.float32],
) -> None:
    """Let tuples first, first + 1, … arrive, in order, at their channels.

    A channel's own clock counts the tuples it could have served by now: in phase p, which begins with tuple starts[p], it goes at
    speed[p, d], and it has reached done_before[p, d] when the phase begins. On that clock every tuple takes exactly 1, whatever happens
    to the speed meanwhile, so one number per channel is its whole queue: busy_until, when its last tuple will be finished.
    """
    phases = len(starts)
    phase = 0
    for i in range(len(keys)):
        number, d, key = first + i, channel[i], keys[i]
        while phase + 1 < phases and number >= starts[phase + 1]:
            phase += 1
        now = number / rate
        clock = done_before[phase, d] + speed[phase, d] * (now - starts[phase] / rate)
        finish = max(clock, busy_until[d]) + 1.0
        busy_until[d] = finish
        at = phase
        while at + 1 < phases and finish > done_before[at + 1, d]:
            at += 1
        latency[i] = starts[at] / rate + (finish - done_before[at, d]) / speed[at, d] - now
        arrived[d] += 1
        word, bit = d >> 6, np.uint64(1) << np.uint64(d & 63)
        if not seen[key, word] & bit:
            seen[key, word] |= bit
            distinct[d] += 1


@compiled
def waiting(busy_until: Floats, clock: Floats) -> Indices:
    """Tuples not finished per channel when its own clock shows `clock`: they end at busy_until, busy_until - 1, …"""
    out = np.zeros(len(clock), np.int64)
    for d in range(len(clock)):
        left = busy_until[d] - clock[d]
        if left > ROUNDING:
            out[d] = np.int64(np.ceil(left - ROUNDING))
    return out
