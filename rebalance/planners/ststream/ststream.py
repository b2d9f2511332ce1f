"""St-Stream: balance inside each node, then between nodes.

Reference: Sun et al., "A two-tier coordinated load balancing strategy over skewed data streams", 2023, sections 3.3 and 4.2, algorithms 1 and 2.

A node S owns channels and has the performance M(S) = p·u·f + (1-p)·m (u cores of f GHz, m GiB). Its weight is W = L(S)/M(S), L(S) the
load of its channels. With L_avg the mean, loads up to L_min = (1-θ)·L_avg are low and above L_max = (1+θ)·L_avg high.

Tier 1, inside each node, to the node's own mean; nothing crosses nodes:
1. Direct move out: from channels above L_max the costliest keys until not above, into a table R.
2. Direct move in: entries of R, largest first, to the lowest channel that stays within L_max with them.
3. Split: what fits nowhere is cut at the free room, so that the first part fills the lowest channel up to L_max and the rest goes back to R,
   until R is empty. If states do not merge, the key goes whole to the lowest channel and the plan says so.

Tier 2, between nodes: low nodes ascending and the others descending by weight are paired first with first, second with second, and so on. A pair
moves the costliest keys that neither lift the receiver above L_max nor drop the donor below L_min, until the receiver is at L_min. One
that is still low then tries the next donor; with more low nodes than donors these are used again in turn; a node that became
normal is a donor in the next pass. It ends when no node is low or nothing moves.

Guarantees: after tier 1 no channel is above its node's L_max if states merge, no key is pinned and keys are cut at the room. No move makes another node low or high.
Run on its own output it changes nothing: the tiers are repeated until neither finds anything to do.

Readings of the paper where it is open:

- A node exactly at L_min is not low: with θ = 0 a perfect balance would be.
- A move that would lift the receiver above L_max is left out and the donor's next smaller key tried; the donor is given up when none fits.
- Where a key is cut (equations 10 and 11): read with k_i as the load of a channel once the key has come, k_i1 = k_i - L_max is what is too much there and
  k_i2 = L_max less its other keys, the room: step 3 above, `cut = "room"`. Read with k_i as the key's own load, it is cut into k - L_max and L_max, the
  first again while it is above, and the parts go out in ascending order (equation 12): `cut = "l_max"`. Then a key that is not above
  L_max but fits nowhere cannot be cut and goes whole, and a part of L_max fits on an empty channel only, so channels may stay above L_max.
- Tier 2 never splits a key, but moves parts that tier 1 made.
- What a key uses of a channel's processor is its cost, of its memory its state: L = q·cost + (1-q)·state, both as shares of the total. Where no key
  has state L is the cost.

Ours, beyond the paper:

- Without nodes in the request one node owns all channels: tier 1 then balances them all and tier 2 has nothing to do. (With one node per
  channel tier 1 would be empty and no hot channel ever relieved.)
- Channels of a node have their share of its mean by capacity. Excluded channels belong to no node, pinned keys stay.
- The paper relieves a high node only while another one is low, and may leave it above L_max. Here a pass ends with the nodes that are still high: the
  fullest first, each gives to the emptiest, then to the next, by the same rule, until it is at L_max or nothing fits.
- Tier 1 is undone in a node if it does not lower the fullest channels (of equal ones the next), so that no key moves for nothing.
- Tier 2 leaves parts of split keys alone that are less than 1 % of what the receiver should have.
- A split key whose parts are all in one node is made whole again where its state is, once that channel has room for all of it.

Cost: one sort of the keys of each channel above L_max and of each donor; then O(log) per key moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance.errors import ConfigError
from rebalance.planners.ststream.layout import Layout, Step
from rebalance.planners.ststream.metrics import Balance, Change, balance_of, changes_of, restoration_rate
from rebalance.planners.ststream.tiers import CUTS, JOINED, SPLIT, UNCUT, WHOLE, balance_between, balance_inside, join
from rebalance.planning.model import Proposal, Request

#: How often both tiers are gone through at most; two or three times is the rule.
_PASSES = 50


@dataclass(frozen=True)
class StStream:
    """Two tiers: inside nodes, between nodes."""

    name: ClassVar[str] = "ststream"
    splits_keys: ClassVar[bool] = True
    #: Where states do not merge it moves whole keys.
    whole_keys_too: ClassVar[bool] = True

    #: θ: how far from the mean a load may be, 0.3 = 30 %.
    theta: float = 0.3
    #: p: weight of computation in a node's performance, 0 to 1; the rest is memory.
    p: float = 0.5
    #: q: weight of cost in a key's load, 0 to 1; the rest is its state. 1 = cost alone, which is what θ_max and max/mean are measured in.
    q: float = 0.5
    #: Where a key that fits on no channel is cut: "room", at the free room of the lowest channel; "l_max", at L_max as equation 10 has it to the letter.
    cut: str = "room"

    def __post_init__(self) -> None:
        if not 0 <= self.theta < 1:
            raise ConfigError(f"theta is {self.theta}; it must be at least 0 and below 1, for example 0.3")
        for name, weight in (("p", self.p), ("q", self.q)):
            if not 0 <= weight <= 1:
                raise ConfigError(f"{name} is {weight}; it must be from 0 to 1")
        if self.cut not in CUTS:
            raise ConfigError(f"cut is {self.cut!r}; it must be one of {', '.join(CUTS)}")

    def propose(self, request: Request) -> Proposal:
        """Both tiers."""
        layout = self._balanced(request)
        channel, splits = layout.result()
        before = balance_of(request, request.current, request.splits, self.p)
        after = balance_of(request, channel, splits, self.p)
        changes = changes_of(request, channel, splits, self.p, self.q)
        return Proposal(
            channel=channel, splits=splits, notes=(*_told(layout), _restored(before, after), *_shifted(changes))
        )

    def account(self, request: Request) -> tuple[Step, ...]:
        """Every step of the plan in order: which key, how much of it, from where to where, by which tier and why."""
        return tuple(self._balanced(request).steps)

    def _balanced(self, request: Request) -> Layout:
        layout = Layout(request, self.p, self.q)
        for _ in range(_PASSES):
            changed = join(layout, self.theta)
            for machine in layout.machines:
                changed |= balance_inside(layout, machine, self.theta, self.cut)
            changed |= balance_between(layout, self.theta)
            if not changed:
                break
        return layout


def _told(layout: Layout) -> tuple[str, ...]:
    """The account for a person: how many keys by which tier and why."""
    notes = []
    for tier, place in ((1, "inside"), (2, "between")):
        steps = [step for step in layout.steps if step.tier == tier]
        if not steps:
            notes.append(f"tier {tier}: nothing to move {place} nodes")
            continue
        nodes = {int(layout.node_of[d]) for step in steps for d in (step.source, step.target)}
        names = ", ".join(layout.machines[i].name for i in sorted(nodes - {-1})[:5]) + (" …" if len(nodes) > 5 else "")
        notes.append(f"tier {tier}: {_keys(steps)} moved {place} nodes ({names})")
    for why, told in (
        (SPLIT, "fit on no channel and split"),
        (WHOLE, "fit on no channel and, because states do not merge, moved whole to the lowest"),
        (UNCUT, "fit on no channel and, not above L_max, moved whole to the lowest"),
        (JOINED, "made whole again"),
    ):
        steps = [step for step in layout.steps if step.why == why]
        if steps:
            notes.append(f"tier 1: {_keys(steps)} {told}")
    return tuple(notes)


def _restored(before: Balance, after: Balance) -> str:
    """Both tiers in one figure; of one node alone only the offset says something."""
    if len(before.offsets) == 1:
        return f"offset {before.offsets[0]:.3f} → {after.offsets[0]:.3f}"
    rate = restoration_rate(before, after)
    return f"balance degree {before.degree:.3f} → {after.degree:.3f}, restoration rate {rate:.1%}"


def _shifted(changes: tuple[Change, ...]) -> tuple[str, ...]:
    """What the nodes give up and take; of one node nothing can be said."""
    if len(changes) == 1:
        return ()
    least, most = min(c.load for c in changes), max(c.load for c in changes)
    slots = max(c.slots for c in changes)
    return (
        f"nodes give up (ΔL) {least:+.1%} to {most:+.1%} of all load; "
        f"their usage changes (δ) by up to {slots:.0%} of the mean",
    )


def _keys(steps: list[Step]) -> str:
    count = len({step.key for step in steps})
    return "1 key" if count == 1 else f"{count:,} keys"
