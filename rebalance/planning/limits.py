"""Hard limits on any planner's proposal: keep what is worth most within them, and say what could not be met.

A planner optimises what its paper asks of it; max_routes and max_bytes come from people and hold for all planners. A proposal that
breaks one is cut down here, the same way for every planner:

0. Splits: a key that the proposal splits and whose state would move keeps it where it is if that is one of its channels. Else its move
   is paid for first, most cost per byte first, for shares move load without state; where bytes do not last, it is split as before or whole.
1. Nothing moves but the keys of channels that vanished: they go home (split ones to their first channel), whatever the limits.
2. Draining: keys of excluded channels go home, most cost per byte first, while bytes last. What is left waits for the next plan.
3. A table that is too large even so: routed keys go home, those the planner itself sends home before others, least state first.
4. The planner's moves, one after the other, the one that evens out the loads most per share of the limits first, as long as it fits
   the limits and makes the two channels it touches more alike (so neither the largest nor the smallest relative load gets
   worse), until θ_max is met. How even loads are is Σ (L(d) - fair(d))² / fair(d).
5. Steps 1 to 4 again with more freedom, and the best result counts. A planner may have chosen a few large keys that do not fit:
   in step 4 any key of a channel above L_max may also move to the emptiest one. Or old routes may be in the way of new
   ones: step 3 sends as many more keys home as the proposal is over max_routes.

Guarantees: bytes moved ≤ max_bytes unless the vanished channels alone hold more; routes ≤ max_routes unless pinned keys or max_bytes
forbid to shrink the table; if both cannot be met, max_bytes is. Time: O(m log m) for m moves.

All of it is ours. Step 4 is greedy and looks at one move at a time, so a pair of moves that only helps together is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rebalance.planning.exact import clearly_less
from rebalance.planning.measure import channel_loads, measure
from rebalance.planning.model import Floats, Indices, Ints, Limits, Mask, Proposal, Request

#: Price of what is free, so that it can be divided by.
_FREE = 1e-12
#: How often step 4 goes over the moves: one that did not help at first may after others.
_PASSES = 10


def hold(request: Request, proposal: Proposal) -> Proposal:
    """The proposal itself if it is within max_routes and max_bytes, else the best part of it that is."""
    asked = usage(request, proposal)
    if asked.within(request.limits):
        return proposal
    notes, proposal = proposal.notes, _with_paid_splits(request, proposal)
    held = _best_cut(request, proposal, asked)
    if proposal.ring is not None and not usage(request, held).within(request.limits):
        # A new ring moves keys by itself; without it more may be within reach. The memo belongs to the ring.
        held = _best_cut(request, replace(proposal, ring=None, memo=request.memo), asked)
    return replace(held, notes=(*notes, *_notes(request.limits, asked, usage(request, held))))


def _with_paid_splits(request: Request, proposal: Proposal) -> Proposal:
    """Step 0."""
    moved = [k for k in proposal.splits if proposal.channel[k] != request.current[k]]
    if not moved:
        return proposal
    stats, channel, splits = request.stats, proposal.channel.copy(), dict(proposal.splits)
    budget = np.inf if request.limits.max_bytes is None else request.limits.max_bytes
    budget -= float(stats.state[request.current >= request.channels].sum())
    keys = np.array(sorted(moved), dtype=np.int64)
    for k in keys[_densest(stats.cost[keys], stats.state[keys])].tolist():
        now = int(request.current[k])
        if now >= request.channels:
            continue
        stays = sorted(splits[k], key=lambda share: share.channel != now)
        if stays[0].channel == now:
            channel[k], splits[k] = now, tuple(stays)
        elif stats.state[k] <= budget:
            budget -= stats.state[k]
        elif k in request.splits and request.is_open(share.channel for share in request.splits[k]):
            channel[k], splits[k] = now, request.splits[k]
        else:
            del splits[k]
    return replace(proposal, channel=channel, splits=splits)


@dataclass(frozen=True)
class Usage:
    """What a proposal takes of the limits."""

    moves: int
    bytes: float
    routes: int

    def within(self, limits: Limits) -> bool:
        """Whether both limits hold."""
        return self.routes <= limits.max_routes and (limits.max_bytes is None or self.bytes <= limits.max_bytes)


def usage(request: Request, proposal: Proposal) -> Usage:
    """Moves, bytes and routes of a proposal."""
    moved = proposal.channel != request.current
    routed = (proposal.channel != _home(request, proposal)) & ~_split_keys(request, proposal)
    return Usage(int(moved.sum()), float(request.stats.state[moved].sum()), int(routed.sum()))


def _home(request: Request, proposal: Proposal) -> Ints:
    return request.home if proposal.ring is None else proposal.ring[request.stats.slots]


def _split_keys(request: Request, proposal: Proposal) -> Mask:
    split = np.zeros(len(request.stats), dtype=np.bool_)
    split[list(proposal.splits)] = True
    return split


def _best_cut(request: Request, proposal: Proposal, asked: Usage) -> Proposal:
    """Step 5: the smallest table, then the best balance, then the fewest bytes."""
    cuts = [_cut(request, proposal), _cut(request, proposal, free_choice=True)]
    room = asked.routes - request.limits.max_routes
    if room > 0:
        cuts += [_cut(request, proposal, room=room), _cut(request, proposal, room=room, free_choice=True)]
    tallest = _balance(request, cuts[0])[1]
    merits = []
    for cut in cuts:
        used, (theta, skewness) = usage(request, cut), _balance(request, cut)
        # Fuller than the plain cut could mean fuller than it is now, and such a plan is refused.
        over = max(used.routes - request.limits.max_routes, 0)
        merits.append((over, clearly_less(tallest, skewness), theta, used.bytes))
    best = list(range(len(cuts)))
    for values in zip(*merits, strict=True):
        least = min(values[i] for i in best)
        best = [i for i in best if not clearly_less(least, values[i])]
    return cuts[best[0]]


def _balance(request: Request, proposal: Proposal) -> tuple[float, float]:
    """max θ(d) and skewness."""
    result = measure(request, proposal.channel, home=_home(request, proposal), splits=proposal.splits)
    return result.theta, result.skewness


def _cut(request: Request, proposal: Proposal, *, room: int = 0, free_choice: bool = False) -> Proposal:
    """Steps 1 to 4, with room for so many routes after step 3. Split keys stay split: they are no routes."""
    from rebalance.planning import limits_kernel as kernel

    stats, limits = request.stats, request.limits
    home, split = _home(request, proposal), _split_keys(request, proposal)
    movable = request.movable & ~split
    channel = np.where(request.current < request.channels, request.current, home).astype(np.int32)
    channel[split] = proposal.channel[split]

    budget = np.inf if limits.max_bytes is None else limits.max_bytes
    spent = stats.state[channel != request.current].sum()
    routes = np.count_nonzero((channel != home) & ~split)
    left = np.array([budget - spent, limits.max_routes - routes], dtype=np.float64)
    load = channel_loads(stats.cost, channel, request.channels, proposal.splits)
    ledger = kernel.Ledger(channel, request.current, home, stats.cost, stats.state, load, request.fair, left)

    if request.excluded is not None:
        drained = np.flatnonzero(request.excluded[channel] & movable)
        kernel.send_home(ledger, drained[_densest(stats.cost[drained], stats.state[drained])], np.inf)
    away = np.flatnonzero((channel != home) & movable)
    away = away[np.lexsort((stats.state[away], proposal.channel[away] != home[away]))]
    kernel.send_home(ledger, away, float(room))

    wanted = channel != proposal.channel
    may_move = wanted | (ledger.load > request.limit)[channel] if free_choice else wanted
    target = np.where(wanted, proposal.channel, np.int32(-1))
    moves = np.flatnonzero(may_move & movable)
    price = _price(ledger.left, np.where(channel == request.current, stats.state, 0.0), channel == home)
    worth = np.empty(len(price))
    for _ in range(_PASSES):
        if not kernel.improve(ledger, moves, target, price, worth, limits.theta_max):
            break
    return replace(proposal, channel=channel)


def _densest(value: Floats, price: Floats) -> Indices:
    """Most value per price first; what is free comes first of all, most value first."""
    free = price <= 0
    density = value / np.where(free, 1.0, price)
    return np.lexsort((-density, ~free))


def _price(left: Floats, state: Floats, at_home: Mask) -> Floats:
    """The share of what is left of both limits that moving each key takes; only a limit that is one has a price."""
    budget, routes = left
    of_bytes = state / budget if 0 < budget < np.inf else np.where(state > 0, budget <= 0, 0.0)
    return np.asarray(of_bytes + at_home / max(routes, 1.0) + _FREE, dtype=np.float64)


def _notes(limits: Limits, asked: Usage, used: Usage) -> tuple[str, ...]:
    """What a person should know: which limit cut what, and what could not be met."""
    notes = []
    if asked.routes > limits.max_routes:
        notes.append(f"the planner asked for {asked.routes:,} routes and max_routes is {limits.max_routes:,}")
    if limits.max_bytes is not None and asked.bytes > limits.max_bytes:
        notes.append(f"the planner asked to move {asked.bytes:,.0f} bytes and max_bytes is {limits.max_bytes:,.0f}")
    notes.append(
        f"held to the limits: {used.moves:,} moves where it asked for {asked.moves:,}, {used.bytes:,.0f} bytes, "
        f"{used.routes:,} routes"
    )
    if limits.max_bytes is not None and used.bytes > limits.max_bytes:
        notes.append(f"max_bytes cannot be met: what has to move holds {used.bytes:,.0f} bytes")
    if used.routes > limits.max_routes:
        notes.append(
            f"max_routes cannot be met: {used.routes:,} routes is the smallest table found within max_bytes and the pins"
        )
    return tuple(notes)
