"""Where a planner starts from: the active assignment, less the channels that may hold nothing any more."""

from __future__ import annotations

import numpy as np

from rebalance.planning.model import Ints, Request


def start_channels(request: Request) -> Ints:
    """The active channel of each key, or the ring's answer where that channel vanished or is to be drained.

    Pinned keys stay even on a drained channel: a person said so, and the plan reports what is left there.
    """
    channel = request.current.astype(np.int32)
    gone = channel >= request.channels
    if request.excluded is not None:
        drained = ~gone & request.excluded[np.where(gone, 0, channel)]
        gone = gone | (drained if request.pinned is None else drained & ~request.pinned)
    channel[gone] = request.home[gone]
    return channel
