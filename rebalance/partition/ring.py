"""The consistent hash, cut into slots so that a lookup is one array access.

A channel owns `replicas` points on the circle of 32-bit numbers; a point belongs to its clockwise successor. The circle is cut
into `SLOTS` equal slots and a slot belongs to the owner of its first point, so a key's channel is `slots[hash >> 16]`. Cutting
keeps the two laws of consistent hashing: adding a channel only moves slots to it, removing one only moves its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import ConfigError
from rebalance.partition.hashing import ring_points

#: Number of slots; a power of two. 2^16 keeps a slot below 0.2 % of a fair share for up to 100 channels.
SLOTS = 1 << 16
#: A 32-bit hash shifted right by this is its slot.
SLOT_SHIFT = 16
#: Points per channel (Gedik's default).
REPLICAS = 1000
_POINT_BITS = np.uint64(32)
_OWNER = np.uint64(0xFFFFFFFF)


def consistent_ring(channels: int, *, replicas: int = REPLICAS, excluded: Collection[int] = ()) -> NDArray[np.int32]:
    """The slot table of a consistent hash over channels 0..channels-1, none of it owned by `excluded` ones.

    >>> ring = consistent_ring(4)
    >>> ring.shape, sorted(set(ring.tolist()))
    ((65536,), [0, 1, 2, 3])
    """
    owners = [channel for channel in range(channels) if channel not in excluded]
    if not owners:
        raise ConfigError(
            f"no channel is left to own the ring: channels = {channels}, all excluded. Exclude fewer channels."
        )
    return ring_of([(channel, channel_points(channel, replicas)) for channel in owners])


def ring_of(points: Sequence[tuple[int, NDArray[np.uint32]]]) -> NDArray[np.int32]:
    """The slot table of any points: each channel with the points it owns.

    >>> ring_of([(0, np.array([10], dtype=np.uint32)), (7, np.array([3_000_000_000], dtype=np.uint32))])[[0, 1, 60000]]
    array([0, 7, 0], dtype=int32)
    """
    owners = np.repeat(
        np.array([channel for channel, _ in points], dtype=np.uint64), [len(owned) for _, owned in points]
    )
    placed = np.concatenate([owned for _, owned in points]).astype(np.uint64)
    # Point and owner as one number: equal points (rare, but they happen with 10^5 of them) go to the smaller channel whatever
    # the order of insertion, and plain numbers sort faster than pairs.
    clockwise = np.sort((placed << _POINT_BITS) | owners)
    owner = (clockwise & _OWNER).astype(np.int32)
    # A point is the successor of every slot that starts at or before it and after the point before; the last slots wrap around.
    ends = (clockwise >> (_POINT_BITS + np.uint64(SLOT_SHIFT))).astype(np.int64) + 1
    widths = np.diff(ends, prepend=0, append=SLOTS)
    return np.repeat(np.append(owner, owner[0]), widths)


@lru_cache(maxsize=1024)
def channel_points(channel: int, replicas: int) -> NDArray[np.uint32]:
    """The points of one channel; kept, because the next ring mostly has the same channels."""
    points = ring_points(f"channel-{channel}-replica-{j}" for j in range(replicas))
    points.flags.writeable = False
    return points
