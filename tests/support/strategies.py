"""Hypothesis strategies: small requests with everything a planner may meet, and the function they come from."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rebalance.partition import SLOTS, PartitionFunction, Share
from rebalance.planning.model import KeyStats, Limits, Request

#: What a request that is not plain may have besides; at most three at a time.
TRAITS = ("capacities", "excluded", "max_bytes", "max_routes", "pinned", "split", "vanished")


def request_of(
    *,
    cost: list[float],
    home: list[int],
    current: list[int] | None = None,
    state: list[float] | None = None,
    capacity: list[float] | None = None,
    theta_max: float = 0.08,
    max_routes: int = 3000,
    max_bytes: float | None = None,
    pinned: list[int] | None = None,
    excluded: list[int] | None = None,
    channels: int | None = None,
    mergeable: bool = False,
    splits: dict[int, tuple[Share, ...]] | None = None,
) -> Request:
    """A literal request: key k owns ring slot k, so `home` can be anything. State is the cost unless given.

    Slots that no key owns belong to the first key's home.
    """
    keys = len(cost)
    channels = channels or (len(capacity) if capacity else max([*home, *(current or [])], default=0) + 1)
    ring = np.full(SLOTS, home[0] if home else 0, dtype=np.int32)
    ring[:keys] = home
    costs = np.array(cost, dtype=float)
    return Request(
        stats=KeyStats(
            keys=np.arange(keys),
            slots=np.arange(keys, dtype=np.int32),
            tuples=costs,
            cost=costs,
            state=costs if state is None else np.array(state, dtype=float),
        ),
        current=np.array(home if current is None else current, dtype=np.int32),
        ring=ring,
        capacity=np.ones(channels) if capacity is None else np.array(capacity, dtype=float),
        limits=Limits(theta_max=theta_max, max_routes=max_routes, max_bytes=max_bytes),
        pinned=None if pinned is None else np.isin(np.arange(keys), pinned),
        excluded=None if excluded is None else np.isin(np.arange(channels), excluded),
        mergeable=mergeable,
        splits=splits or {},
    )


def active_function(request: Request) -> PartitionFunction:
    """A function under which the request's keys are where it says they are."""
    keys, home = request.stats.keys.tolist(), request.home.tolist()
    routes = {
        k: c for k, c, h in zip(keys, request.current.tolist(), home, strict=True) if c != h and k not in request.splits
    }
    parts = [share.channel for shares in request.splits.values() for share in shares]
    channels = max(request.channels, int(request.current.max(initial=0)) + 1, max(parts, default=0) + 1)
    return PartitionFunction(
        version=1, channels=channels, slots=request.ring, key_type="long", routes=routes, splits=dict(request.splits)
    )


def _costs(kind: str, drawn: NDArray[np.uint8]) -> list[int]:
    """Ties everywhere, a few heavy ones, all on one key, none at all."""
    if kind == "mixed":
        return np.where(drawn < 128, drawn % 5, drawn - 127).tolist()
    if kind == "alike":
        return [int(drawn[0] % 4)] * len(drawn)
    return [1000 * (k == drawn[0] % len(drawn)) for k in range(len(drawn))]


@st.composite
def requests(
    draw: st.DrawFn, max_keys: int = 20, max_channels: int = 5, *, plain: bool = False, mergeable: bool = False
) -> Request:
    """Any small request; a `plain` one has equal capacities and nothing pinned, excluded, split or vanished.

    Columns are drawn as bytes, which is ten times faster than drawing lists.
    """
    size, channels = draw(st.integers(1, max_keys)), draw(st.integers(1, max_channels))
    drawn = np.frombuffer(draw(st.binary(min_size=5 * size, max_size=5 * size)), dtype=np.uint8)
    columns = (drawn + 37 * np.arange(5 * size)).astype(np.uint8).reshape(5, size)  # so that zeros are not all alike
    traits: set[str] = set() if plain else draw(st.sets(st.sampled_from(TRAITS), max_size=3))

    excluded = draw(st.sets(st.integers(0, channels - 1), max_size=channels - 1)) if "excluded" in traits else None
    open_channels = np.array([d for d in range(channels) if d not in (excluded or ())])
    home = open_channels[columns[0] % len(open_channels)].tolist()
    at_home = draw(st.booleans()) and "vanished" not in traits
    current = home if at_home else (columns[2] % (channels + ("vanished" in traits))).tolist()
    return request_of(
        cost=_costs(draw(st.sampled_from(["mixed", "mixed", "alike", "one heavy"])), columns[1]),
        home=home,
        current=current,
        state=(columns[3] % 10).tolist() if draw(st.booleans()) else None,
        capacity=[1 + d % 3 for d in range(channels)] if "capacities" in traits else None,
        channels=channels,
        theta_max=draw(st.sampled_from([0.0, 0.08, 0.25, 1.0])),
        max_routes=draw(st.sampled_from([3000, 0, 1, size // 2])) if "max_routes" in traits or plain else 3000,
        max_bytes=draw(st.integers(0, 60)) if "max_bytes" in traits else None,
        pinned=np.flatnonzero(columns[4] % 3 == 1).tolist() if "pinned" in traits else None,
        excluded=None if excluded is None else sorted(excluded),
        mergeable=mergeable or "split" in traits or (not plain and draw(st.booleans())),
        splits=_splits(current, columns[0], channels + ("vanished" in traits)) if "split" in traits else None,
    )


def _splits(current: list[int], drawn: NDArray[np.uint8], channels: int) -> dict[int, tuple[Share, ...]]:
    """Every third key or so on two channels, a quarter of it where its state is."""
    splits = {}
    for k in np.flatnonzero(drawn % 3 == 0).tolist():
        other = (current[k] + 1 + int(drawn[k]) % max(channels - 1, 1)) % channels
        if other != current[k]:
            splits[k] = (Share(current[k], 0.25), Share(other, 0.75))
    return splits
