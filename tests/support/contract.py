"""The laws every planner keeps: one `check_*` per law, its docstring is the law.

A check takes a planner and any request. To hold a planner of your own to the contract, run `CHECKS` on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from rebalance.partition import PartitionFunction
from rebalance.planning.decide import decide
from rebalance.planning.exact import TOLERANCE, clearly_less
from rebalance.planning.interface import Aiming, Planner, RingOwner
from rebalance.planning.model import Decision, KeyStats, Plan, Request
from tests.support.strategies import active_function


def check_same_request_gives_the_same_proposal(planner: Planner, request: Request) -> None:
    """The same request gives the same proposal."""
    one, two = planner.propose(request), planner.propose(request)
    assert one.channel.tolist() == two.channel.tolist()
    assert (one.splits, one.notes) == (two.splits, two.notes)
    assert (one.ring is None) == (two.ring is None) or np.array_equal(one.ring, two.ring)


def check_request_is_not_changed(planner: Planner, request: Request) -> None:
    """A planner does not change its request."""
    arrays = [*_arrays(request.stats), *_arrays(request)]
    copies = [array.copy() for array in arrays]
    planner.propose(request)
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, copies, strict=True))


def check_keys_are_only_compared(planner: Planner, request: Request) -> None:
    """What a key is called does not matter."""
    names = np.array([f"k{index:05d}" for index in range(len(request.stats))])
    renamed = replace(request, stats=replace(request.stats, keys=names))
    assert planner.propose(renamed).channel.tolist() == planner.propose(request).channel.tolist()


def check_order_of_keys_does_not_matter(planner: Planner, request: Request) -> None:
    """Where no two keys are alike, the order of the keys does not matter (where they are, the smaller key comes first)."""
    rng = np.random.default_rng(len(request.stats))
    load = rng.integers(1, 2**40, len(request.stats)).astype(float)
    request = replace(request, stats=replace(request.stats, tuples=load, cost=load, state=rng.permutation(load)))
    order = rng.permutation(len(request.stats))
    shuffled = replace(
        request,
        stats=KeyStats(np.arange(len(order)), *(column[order] for column in _arrays(request.stats)[1:])),
        current=request.current[order],
        pinned=None if request.pinned is None else request.pinned[order],
        splits={new: request.splits[old] for new, old in enumerate(order.tolist()) if old in request.splits},
    )
    assert planner.propose(shuffled).channel.tolist() == planner.propose(request).channel[order].tolist()


def check_cost_has_no_unit(planner: Planner, request: Request) -> None:
    """Only ratios of costs matter."""
    doubled = replace(
        request, stats=replace(request.stats, cost=request.stats.cost * 2, tuples=request.stats.tuples * 2)
    )
    assert planner.propose(doubled).channel.tolist() == planner.propose(request).channel.tolist()


def check_every_key_has_a_channel_that_may_hold_it(planner: Planner, request: Request) -> None:
    """Every key ends on an existing channel, and an excluded one ends empty but for pinned keys."""
    proposal = planner.propose(request)
    assert proposal.channel.shape == (len(request.stats),)
    assert proposal.channel.dtype == np.int32
    assert proposal.channel.min() >= 0
    assert proposal.channel.max() < request.channels
    if request.excluded is not None:
        left = request.excluded[proposal.channel]
        assert not (left if request.pinned is None else left & ~request.pinned).any()
        assert proposal.ring is None or not request.excluded[proposal.ring].any()


def check_pinned_keys_stay(planner: Planner, request: Request) -> None:
    """A pinned key stays, unless its channel is no more."""
    if request.pinned is not None:
        stays = request.pinned & (request.current < request.channels)
        assert np.array_equal(planner.propose(request).channel[stays], request.current[stays])


def check_keys_are_split_only_where_states_merge(planner: Planner, request: Request) -> None:
    """Only a planner that says so splits keys, only if the operator's states merge."""
    for mergeable in (request.mergeable, False):
        splits = planner.propose(replace(request, mergeable=mergeable)).splits
        assert not splits or (planner.splits_keys and mergeable)


def check_a_split_is_over_several_open_channels(planner: Planner, request: Request) -> None:
    """Shares are positive, sum to 1, are on different channels that may hold keys, and the first is where the key's state goes. Pinned keys stay whole."""
    proposal = planner.propose(replace(request, mergeable=True))
    for k, shares in proposal.splits.items():
        channels = [share.channel for share in shares]
        assert len(set(channels)) == len(channels) > 1
        assert channels[0] == proposal.channel[k]
        assert all(0 <= d < request.channels and request.open_capacity[d] > 0 for d in channels)
        assert min(share.share for share in shares) > 0
        assert abs(sum(share.share for share in shares) - 1) <= TOLERANCE
        assert request.pinned is None or not request.pinned[k] or request.current[k] >= request.channels


def check_moves_are_where_the_two_functions_differ(planner: Planner, request: Request) -> None:
    """The moves of a plan are exactly the keys whose channel differs, and without APPLY the function is the active one."""
    active = active_function(request)
    plan = decide(planner, request, active)
    if plan.decision is not Decision.APPLY:
        assert plan.function is active
        return
    after = channels_under(plan.function, request)
    assert plan.moved.tolist() == np.flatnonzero(after != request.current).tolist()
    assert plan.moved_to.tolist() == after[plan.moved].tolist()
    assert plan.moved_from.tolist() == request.current[plan.moved].tolist()
    assert plan.moved_bytes == request.stats.state[plan.moved].sum()


def check_no_route_is_pointless(planner: Planner, request: Request) -> None:
    """A route always differs from the ring's answer."""
    function = decide(planner, request, active_function(request)).function
    home = function.slots[request.stats.slots]
    assert all(home[int(key)] != channel for key, channel in function.routes.items())


def check_limits_hold(planner: Planner, request: Request) -> None:
    """What is applied is within max_bytes, and within max_routes or at least nearer to it than before."""
    plan = decide(planner, request, active_function(request))
    if plan.decision is Decision.APPLY:
        assert request.limits.max_bytes is None or not clearly_less(request.limits.max_bytes, plan.moved_bytes)
        assert plan.after.routes <= request.limits.max_routes or plan.after.routes < plan.before.routes


def check_balance_does_not_get_worse(planner: Planner, request: Request) -> None:
    """What is applied does not put more load on the fullest channel, unless a channel was to be emptied, the table was too large, or a
    planner for whole keys took over from one that splits.

    A planner that judges itself by what is measured knows better than costs and capacities. One with an aim of its own does not get further from that.
    """
    if judges_itself(planner) or (request.splits and not planner.splits_keys):
        return
    plan = decide(planner, request, active_function(request))
    open_now = (request.current < request.channels) & (
        request.open_capacity[np.minimum(request.current, request.channels - 1)] > 0
    )
    parts = [share.channel for shares in request.splits.values() for share in shares]
    open_now = open_now.all() and all(d < request.channels and request.open_capacity[d] > 0 for d in parts)
    if plan.decision is Decision.APPLY and open_now and plan.before.routes <= request.limits.max_routes:
        if isinstance(planner, Aiming):
            now, then = (
                planner.balance(request, c).off for c in (request.current, channels_under(plan.function, request))
            )
            assert not clearly_less(now[0], then[0])
            return
        assert not clearly_less(plan.before.skewness, plan.after.skewness)


def check_within_theta_max_nothing_moves(planner: Planner, request: Request) -> None:
    """Where all is within θ_max and the limits, nothing moves, unless the planner judges itself or has an aim of its own."""
    if judges_itself(planner) or isinstance(planner, Aiming):
        return
    plan = decide(planner, request, active_function(request))
    if plan.decision is Decision.APPLY and plan.after.theta <= request.limits.theta_max:
        again = decide(planner, after(request, plan), plan.function)
        assert (
            again.decision is Decision.KEEP or again.before.routes > request.limits.max_routes or again.moved_bytes == 0
        )


def check_a_second_plan_does_not_make_it_worse(planner: Planner, request: Request) -> None:
    """Planning again on the result never makes it worse, unless the planner judges itself or has an aim of its own."""
    if judges_itself(planner) or isinstance(planner, Aiming):
        return
    plan = decide(planner, request, active_function(request))
    if plan.decision is Decision.APPLY:
        changed = after(request, plan)
        again = decide(planner, changed, plan.function)
        if again.decision is Decision.APPLY and plan.after.routes <= request.limits.max_routes and _all_open(changed):
            assert not clearly_less(plan.after.skewness, again.after.skewness)


def check_function_survives_its_record(planner: Planner, request: Request) -> None:
    """A function read back from its record does the same."""
    function = decide(planner, request, active_function(request)).function
    assert PartitionFunction.from_record(function.to_record()).digest() == function.digest()


def after(request: Request, plan: Plan) -> Request:
    """The request as it is once the plan was applied."""
    return replace(
        request,
        current=channels_under(plan.function, request),
        ring=plan.function.slots,
        memo=plan.function.memo,
        splits={int(key): shares for key, shares in plan.function.splits.items()},
    )


def judges_itself(planner: Planner) -> bool:
    """Whether a planner acts on measured utilisation, so that balance by costs and capacities is not its aim."""
    return isinstance(planner, RingOwner) and planner.judges_itself


def channels_under(function: PartitionFunction, request: Request) -> Any:
    """Where a function puts the request's keys, whose slots need not be those of their hash."""
    channel = function.slots[request.stats.slots]
    for key, target in function.routes.items():
        channel[int(key)] = target
    for key, shares in function.splits.items():
        channel[int(key)] = shares[0].channel
    return channel


def _all_open(request: Request) -> bool:
    return bool((request.open_capacity[request.current] > 0).all())


def _arrays(record: Any) -> list[Any]:
    return [value for f in fields(record) if isinstance(value := getattr(record, f.name), np.ndarray)]


CHECKS: dict[str, Callable[[Planner, Request], None]] = {
    name.removeprefix("check_").replace("_", " "): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}
