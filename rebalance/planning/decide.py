"""From statistics to a Plan: measure every proposal alike, hold it to the limits, say why.

Planners only propose. The moves are the difference of two functions, the metrics are taken here, a proposal beyond a limit is cut
down to it (`limits`) and one that makes the balance worse is refused here, so no planner can forget to report a
move or mark its own work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rebalance.errors import PlannerError
from rebalance.partition import Key, PartitionFunction, Share
from rebalance.planning.bounds import Bound, bound
from rebalance.planning.error import give_or_take
from rebalance.planning.exact import TOLERANCE, clearly_less
from rebalance.planning.interface import RING_OF, TRACKED, Aiming, Balance, Planner, RingOwner, memo_to_build_on
from rebalance.planning.limits import hold
from rebalance.planning.measure import measure
from rebalance.planning.model import Decision, Ints, Measure, Plan, Proposal, Request


def decide(planner: Planner, request: Request, active: PartitionFunction, *, guard: bool = True) -> Plan:
    """Ask the planner for a function and decide whether it is to be applied.

    Within θ_max (or the planner's own aim) and max_routes, with no key on a channel that is gone or to be drained and the ring unchanged,
    nothing is asked at all. `guard=False` applies proposals that make the balance worse; experiments use it to show a published algorithm as it is.
    """
    _check_request(request)
    same_ring = bool(np.array_equal(active.slots, request.ring)) and active.channels == request.channels
    memo = memo_to_build_on(planner, active, request)
    request = replace(request, splits=_splits_by_index(request, active), memo=memo)
    before = measure(request, request.current, home=active.slots[request.stats.slots], splits=request.splits)
    limits = request.limits
    judges_itself = isinstance(planner, RingOwner) and planner.judges_itself
    if (
        same_ring
        and not judges_itself
        and before.routes <= limits.max_routes
        and not _stranded(request, request.current, request.splits)
    ):
        own = _own_balance(planner, request, request.current)
        if reason := _balanced(planner, request, before, own):
            return _kept(planner, request, active, before, own, reason)
    asked = request.settled()
    started = time.perf_counter()
    proposal = planner.propose(asked)
    seconds = time.perf_counter() - started
    _check(planner, asked, proposal)
    if isinstance(planner, RingOwner):
        proposal = replace(proposal, memo={**proposal.memo, RING_OF: planner.name})
    if request.rest and TRACKED in proposal.memo:
        nameless = set(request.stats.keys[request.named :].tolist())
        tracked = [key for key in proposal.memo[TRACKED] if key not in nameless]
        proposal = replace(proposal, memo={**proposal.memo, TRACKED: tracked})
    judge = _Judge(planner, request, asked, active, before, guard and not judges_itself)
    return judge.plan(hold(asked, proposal), seconds)


def _own_balance(planner: Planner, request: Request, channel: Ints) -> Balance | None:
    """An assignment as a planner with an aim of its own sees it."""
    return planner.balance(request, channel) if isinstance(planner, Aiming) else None


def _balanced(planner: Planner, request: Request, before: Measure, own: Balance | None) -> str:
    """Why nothing needs to be asked; nothing if it does."""
    if own:
        return f"within the aim of {planner.name}: {own.brief}" if own.within else ""
    theta_max = request.limits.theta_max
    if clearly_less(theta_max, before.theta):
        return ""
    return f"within θ_max: the largest θ is {before.theta:.3f}{give_or_take(request.error)} ≤ {theta_max:g}"


def function_of(request: Request, proposal: Proposal, active: PartitionFunction) -> PartitionFunction:
    """The partitioning function a proposal stands for; a route equal to the ring's answer is never stored."""
    ring = request.ring if proposal.ring is None else proposal.ring
    routed = proposal.channel != ring[request.stats.slots]
    routed[list(proposal.splits)] = False
    where = np.flatnonzero(routed)
    keys = request.stats.keys[where].tolist()
    all_keys = request.stats.keys
    return PartitionFunction(
        version=active.version + 1,
        channels=request.channels,
        slots=ring,
        key_type=active.key_type,
        routes=dict(zip(keys, proposal.channel[where].tolist(), strict=True)),
        splits={_plain(all_keys[index]): shares for index, shares in proposal.splits.items()},
        memo=proposal.memo,
    )


def _plain(key: object) -> Key:
    return key if isinstance(key, str) else int(key)  # type: ignore[call-overload]


def _splits_by_index(request: Request, active: PartitionFunction) -> dict[int, tuple[Share, ...]]:
    keys = request.stats.keys
    found = {}
    for key, shares in active.splits.items():
        index = int(np.searchsorted(keys[: request.named], key))
        if index < request.named and keys[index] == key:
            found[index] = shares
    return found


def _stranded(request: Request, channel: Ints, splits: Mapping[int, tuple[Share, ...]]) -> int:
    """How many keys that may move are, with any part, on a channel that vanished or is to be drained."""
    stranded = request.stranded(channel)
    stranded[[k for k, shares in splits.items() if not request.is_open(share.channel for share in shares)]] = True
    return int(np.count_nonzero(stranded))


def _check_request(request: Request) -> None:
    """Refuse what no planner could answer."""
    if not request.open.any():
        raise PlannerError(f"no channel is left: all {request.channels} are excluded. Exclude fewer channels.")
    ring = request.ring
    if ring.min() < 0 or ring.max() >= request.channels or not request.open[ring].all():
        raise PlannerError("the ring sends keys to channels that do not exist or are excluded. Build it without them.")


def _check(planner: Planner, request: Request, proposal: Proposal) -> None:
    """Refuse what is not a function at all: that is a bug in the planner, not a plan."""
    channel = proposal.channel
    if request.rest and proposal.ring is not None:
        raise PlannerError(f"{planner.name} changed the ring, by which keys go that it was not told of")
    if channel.shape != request.current.shape:
        raise PlannerError(f"{planner.name} placed {channel.shape} of {len(request.stats)} keys")
    if len(channel) and (channel.min() < 0 or channel.max() >= request.channels):
        raise PlannerError(
            f"{planner.name} used channels {channel.min()}..{channel.max()} of 0..{request.channels - 1}"
        )
    if proposal.splits and not request.mergeable:
        raise PlannerError(f"{planner.name} split {len(proposal.splits)} keys of an operator whose states do not merge")
    for k, shares in proposal.splits.items():
        _check_shares(planner, request, k, int(channel[k]), shares)
    strayed = np.count_nonzero(~request.movable & (channel != request.current))
    if strayed:
        raise PlannerError(f"{planner.name} moved {strayed} pinned keys")


def _check_shares(planner: Planner, request: Request, k: int, first: int, shares: tuple[Share, ...]) -> None:
    """Refuse a split that is none."""
    if not shares or shares[0].channel != first:
        raise PlannerError(
            f"{planner.name} put the first share of key {request.stats.keys[k]!r} not where its state is"
        )
    closed = [share.channel for share in shares if not request.is_open([share.channel])]
    if closed:
        raise PlannerError(f"{planner.name} split a key over channels that do not exist or are excluded: {closed}")
    if min(share.share for share in shares) < 0 or abs(sum(share.share for share in shares) - 1) > TOLERANCE:
        raise PlannerError(f"{planner.name} gave shares that do not sum to 1: {[share.share for share in shares]}")


@dataclass(frozen=True, eq=False)
class _Judge:
    """What a proposal is judged by."""

    planner: Planner
    request: Request
    #: The same as the planner has seen it.
    asked: Request
    active: PartitionFunction
    before: Measure
    guard: bool

    def plan(self, proposal: Proposal, seconds: float) -> Plan:
        """The proposal with its effect, and what is to be done with it."""
        request = self.request
        function = function_of(request, proposal, self.active)
        after = measure(request, proposal.channel, home=function.slots[request.stats.slots], splits=proposal.splits)
        moved = np.flatnonzero(proposal.channel != request.current)
        moved_bytes = float(request.stats.state[moved].sum())
        any_moves, moved = len(moved), moved[moved < request.named]
        guarded = self.guard and not self._asked_for(proposal, after)
        own = self._own(proposal.channel)
        if self._same(function, after, any_moves, guarded):
            decision, reason = (
                Decision.KEEP,
                f"nothing better was found: max/fair load stays {self.before.skewness:.3f}{give_or_take(request.error)}",
            )
        else:
            decision, reason = self._verdict(after, len(moved), moved_bytes, guarded=guarded, own=own)
            if any_moves > len(moved) and decision is Decision.APPLY:
                reason += "; the bytes are also of keys that the new ring moves"
        # The bounds are on whole keys; a split moves load without state, and keys that are not known could move with less.
        unknown = request.rest > 0 or (self.planner.splits_keys and request.mergeable)
        certified = Bound(0.0, 0.0) if unknown else bound(request)
        return Plan(
            decision=decision,
            reason=reason,
            planner=self.planner.name,
            function=function if decision is Decision.APPLY else self.active,
            before=self.before,
            after=after,
            moved=moved,
            moved_from=request.current[moved],
            moved_to=proposal.channel[moved],
            moved_bytes=moved_bytes,
            moved_share=moved_bytes / max(float(request.stats.state.sum()), 1.0),
            notes=(*proposal.notes, *([f"before: {own[0].told}", f"planned: {own[1].told}"] if own else [])),
            seconds=seconds,
            theta_max=request.limits.theta_max,
            bound=certified.bytes,
            bound_theta=certified.theta,
            error=request.error,
        )

    def _own(self, channel: Ints) -> tuple[Balance, Balance] | None:
        """Before and after as a planner with an aim of its own sees it."""
        before, after = (_own_balance(self.planner, self.request, c) for c in (self.request.current, channel))
        return (before, after) if before and after else None

    def _asked_for(self, proposal: Proposal, after: Measure) -> bool:
        """Whether it is asked for, whatever the balance: to empty a channel, to bring the table within its limit, to make keys whole."""
        request = self.request
        stranded = _stranded(request, request.current, request.splits)
        relieves = _stranded(request, proposal.channel, proposal.splits) < stranded
        shrinks = after.routes < self.before.routes > request.limits.max_routes
        return relieves or shrinks or (bool(request.splits) and not self.planner.splits_keys)

    def _same(self, function: PartitionFunction, after: Measure, moved: int, guarded: bool) -> bool:
        """Whether the function does what the active one does, or has only other shares that bring nothing."""
        if _without_tracked(function) == _without_tracked(self.active):
            return True
        idle = guarded and not moved and function.splits != self.active.splits
        return idle and _no_better(self.before, after) and not _worse(self.before, after, 0)

    def _verdict(
        self, after: Measure, moved: int, moved_bytes: float, *, guarded: bool, own: tuple[Balance, Balance] | None
    ) -> tuple[Decision, str]:
        """Decision and reason, the first rule that fits."""
        limits, before = self.request.limits, self.before
        effect = f"max/fair load {before.skewness:.3f} → {after.skewness:.3f}{give_or_take(self.request.error)}"
        refused = ""
        if after.routes > limits.max_routes and after.routes >= before.routes:
            refused = f"{effect}, but it needs {after.routes:,} routes and max_routes is {limits.max_routes:,}"
        elif limits.max_bytes is not None and clearly_less(limits.max_bytes, moved_bytes):
            refused = f"{effect}, but it moves {moved_bytes:,.0f} bytes and max_bytes is {limits.max_bytes:,.0f}"
        elif guarded and own and _further_off(*own, moved):
            refused = f"it would not balance better: {own[0].brief} → {own[1].brief}"
        elif guarded and not own and _worse(before, after, moved):
            refused = f"it would not balance better: {effect}, largest θ {before.theta:.3f} → {after.theta:.3f}"
        if refused:
            return Decision.REJECT, refused
        missed = not own and clearly_less(limits.theta_max, after.theta)
        reached = f"; θ_max {limits.theta_max:g} not reached, largest θ {after.theta:.4f}" if missed else ""
        return Decision.APPLY, f"{effect} by moving {moved:,} keys with {moved_bytes:,.0f} bytes of state{reached}"


def _worse(before: Measure, after: Measure, moved: int) -> bool:
    """More load on the fullest channel, or moves that improve neither it nor the largest θ."""
    if clearly_less(before.skewness, after.skewness):
        return True
    return moved > 0 and _no_better(before, after)


def _without_tracked(function: PartitionFunction) -> str:
    """What the function does; which keys its planner tracked makes no difference to that."""
    memo = {name: value for name, value in function.memo.items() if name != TRACKED}
    return replace(function, memo=memo).digest()


def _further_off(before: Balance, after: Balance, moved: int) -> bool:
    """Further from the planner's own aim, or moves that bring it no nearer."""
    for then, now in zip(after.off, before.off, strict=True):
        if clearly_less(now, then):
            return True
        if clearly_less(then, now):
            return False
    return moved > 0


def _no_better(before: Measure, after: Measure) -> bool:
    return not (clearly_less(after.theta, before.theta) or clearly_less(after.skewness, before.skewness))


def _kept(
    planner: Planner, request: Request, active: PartitionFunction, before: Measure, own: Balance | None, reason: str
) -> Plan:
    none: Ints = np.empty(0, dtype=np.int32)
    return Plan(
        decision=Decision.KEEP,
        reason=reason,
        planner=planner.name,
        function=active,
        before=before,
        after=before,
        moved=np.empty(0, dtype=np.int64),
        moved_from=none,
        moved_to=none,
        moved_bytes=0.0,
        moved_share=0.0,
        notes=(f"as it is: {own.told}",) if own else (),
        theta_max=request.limits.theta_max,
        error=request.error,
    )
