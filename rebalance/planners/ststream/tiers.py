"""The two tiers of St-Stream on a `Layout`: inside each node, then between nodes. Steps and readings: `ststream`."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from rebalance.planners.ststream.layout import Layout, Machine, Step
from rebalance.planning.exact import TOLERANCE, total

#: Why a piece changed its channel.
MOVE_IN, SPLIT, WHOLE, JOINED, PAIRED = "moved in", "split", "fits nowhere, moved whole", "joined", "paired"
UNCUT = "fits nowhere and is not above L_max, moved whole"
#: Tier 2 leaves parts of split keys alone that are less than this share of what the receiver should have: cutting a key and moving the part
#: lowers the mean of its node, so the next part to be cut is smaller, and so on without end.
WORTH_MOVING = 0.01
#: A piece that waits in R: less its load, its key, the channel it came from, the piece; sorted, the largest comes first.
Entry = tuple[float, int, int, int]


@dataclass
class Room:
    """The channels of one node as tier 1 fills them: lowest relative load first, none above its L_max."""

    loads: dict[int, float]
    capacity: dict[int, float]
    theta: float
    most: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self.mean = sum(self.loads.values()) / sum(self.capacity.values())
        self.most = {d: (1 + self.theta) * self.mean * cap for d, cap in self.capacity.items()}

    @classmethod
    def of(cls, layout: Layout, machine: Machine, theta: float) -> Room:
        """A node's channels as they are."""
        channels = machine.channels
        return cls(
            {d: float(layout.loads[d]) for d in channels}, {d: float(layout.capacity[d]) for d in channels}, theta
        )

    def above(self, d: int) -> bool:
        """Whether a channel is above L_max."""
        return self.loads[d] > self.most[d] * (1 + TOLERANCE)

    def fits(self, d: int, load: float) -> bool:
        """Whether a channel stays within L_max with this load more."""
        return self.loads[d] + load <= self.most[d] * (1 + TOLERANCE)

    def relative(self) -> list[float]:
        """Loads by capacity, largest first."""
        return sorted((load / self.capacity[d] for d, load in self.loads.items()), reverse=True)

    def start_filling(self) -> None:
        """From now on loads only grow."""
        self._lowest = [(load / self.capacity[d], d) for d, load in self.loads.items()]
        heapify(self._lowest)

    def lowest(self) -> int:
        """The channel with the least load for its capacity (ties: the smaller channel)."""
        return self._lowest[0][1]

    def add(self, load: float) -> int:
        """Put a load on the lowest channel."""
        d = heappop(self._lowest)[1]
        self.loads[d] += load
        heappush(self._lowest, (self.loads[d] / self.capacity[d], d))
        return d

    def add_where_it_fits(self, load: float) -> int | None:
        """Put a load on the lowest channel that stays within L_max, if there is one."""
        passed = []
        found = None
        while self._lowest and found is None:
            level, d = heappop(self._lowest)
            if self.fits(d, load):
                self.loads[d] += load
                found, level = d, self.loads[d] / self.capacity[d]
            passed.append((level, d))
        for entry in passed:
            heappush(self._lowest, entry)
        return found


def balance_inside(layout: Layout, machine: Machine, theta: float, cut: str) -> bool:
    """Tier 1 in one node. What would not lower its fullest channels is not done; False if nothing was."""
    room = Room.of(layout, machine, theta)
    before = room.relative()
    waiting = move_out(layout, room)
    if not waiting:
        return False
    room.start_filling()
    placed: list[tuple[Entry, int, float, str]] = []
    rest: list[Entry] = []
    for entry in sorted(waiting):
        target = room.add_where_it_fits(-entry[0])
        if target is None:
            rest.append(entry)
        else:
            placed.append((entry, target, -entry[0], MOVE_IN))
    rule = CUTS[cut] if layout.request.mergeable else move_whole
    placed += rule(room, rest)
    if not lower(room.relative(), before):
        return False
    apply(layout, placed)
    return True


def move_out(layout: Layout, room: Room) -> list[Entry]:
    """Direct move out: from channels above L_max the costliest pieces until not above, into R."""
    out: list[Entry] = []
    for d in room.loads:
        if not room.above(d):
            continue
        pieces = layout.pieces_on([d])
        left = room.loads[d] - np.cumsum(layout.load[pieces])
        enough = int(np.count_nonzero(left > room.most[d] * (1 + TOLERANCE))) + 1
        taken = pieces[:enough]
        if len(taken):
            room.loads[d] = float(left[len(taken) - 1])
            out += zip(
                (-layout.load[taken]).tolist(),
                layout.key[taken].tolist(),
                [d] * len(taken),
                taken.tolist(),
                strict=True,
            )
    return out


def split(room: Room, rest: list[Entry]) -> list[tuple[Entry, int, float, str]]:
    """Cut what fits nowhere at the free room of the lowest channel; the rest of it goes back to R."""
    placed: list[tuple[Entry, int, float, str]] = []
    heapify(rest)
    while rest:
        entry = heappop(rest)
        load, lowest = -entry[0], room.lowest()
        free = room.most[lowest] - room.loads[lowest]
        target = room.add_where_it_fits(load)
        if target is not None:
            placed.append((entry, target, load, SPLIT))
        elif free <= TOLERANCE * room.most[lowest]:
            placed.append((entry, room.add(load), load, SPLIT))  # what rounding left over
        else:
            placed.append((entry, room.add(free), free, SPLIT))
            heappush(rest, (free - load, *entry[1:]))
    return placed


def split_above(room: Room, rest: list[Entry]) -> list[tuple[Entry, int, float, str]]:
    """Equation 10 to the letter: of a key k above L_max, L_max is cut off until k - L_max is not above it; the parts, smallest first, each to the
    lowest channel. What is not above L_max is not cut."""
    if not rest:
        return []
    most = room.most[room.lowest()]
    parts: list[tuple[float, Entry, str]] = []
    for entry in rest:
        left, why = -entry[0], UNCUT
        while left > most * (1 + TOLERANCE):
            parts.append((most, entry, SPLIT))
            left, why = left - most, SPLIT
        parts.append((left, entry, why))
    parts.sort(key=lambda part: (part[0], part[1][1:]))
    return [(entry, room.add(load), load, why) for load, entry, why in parts]


#: How keys are cut that fit on no channel: at the room of the lowest one, or at L_max.
CUTS = {"room": split, "l_max": split_above}


def move_whole(room: Room, rest: list[Entry]) -> list[tuple[Entry, int, float, str]]:
    """States do not merge: each to the lowest channel, whole."""
    return [(entry, room.add(-entry[0]), -entry[0], WHOLE) for entry in rest]


def lower(after: list[float], before: list[float]) -> bool:
    """Whether the first of the sorted loads that differs got smaller: so no node goes in circles."""
    for new, old in zip(after, before, strict=True):
        if abs(new - old) > TOLERANCE * max(new, old):
            return new < old
    return False


def apply(layout: Layout, placed: list[tuple[Entry, int, float, str]]) -> None:
    """Carry out what tier 1 placed."""
    layout.steps += [
        Step(1, key, source, target, load, why) for (_, key, source, _), target, load, why in placed if target != source
    ]
    parts: dict[int, dict[int, float]] = {}
    for (_, _, _, piece), target, load, why in placed:
        if why == MOVE_IN:
            layout.channel[piece] = target
        else:
            there = parts.setdefault(piece, {})
            there[target] = there.get(target, 0.0) + load
    for piece, where in parts.items():
        layout.replace(piece, list(where.items()))
    layout.merge_pieces()
    layout.recount()


def join(layout: Layout, theta: float) -> bool:
    """Make split keys whole again where all pieces are in one node and their first channel has room for them."""
    joined = False
    for key, pieces in list(layout.split_keys()):
        nodes = set(layout.node_of[layout.channel[pieces]].tolist())
        if len(nodes) > 1 or -1 in nodes or not layout.movable[pieces[0]]:
            continue
        first = layout.first_of(key, pieces)
        others = [int(i) for i in pieces if layout.channel[i] != first]
        room = Room.of(layout, layout.machines[nodes.pop()], theta)
        if room.fits(first, total(layout.load[others])):
            for i in others:
                layout.steps.append(Step(1, key, int(layout.channel[i]), first, float(layout.load[i]), JOINED))
            layout.channel[pieces] = first
            layout.recount()
            joined = True
    layout.merge_pieces()
    return joined


def balance_between(layout: Layout, theta: float) -> bool:
    """Tier 2: bring low nodes up to L_min and high ones down to L_max, pass after pass, until none is or nothing moved; False if nothing did."""
    machines = layout.machines
    mean = sum(layout.node_load(i) for i in range(len(machines))) / sum(m.performance for m in machines)
    least = [(1 - theta) * mean * m.performance for m in machines]
    most = [(1 + theta) * mean * m.performance for m in machines]
    anything = False
    while True:
        weight = [layout.node_load(i) / m.performance for i, m in enumerate(machines)]
        low = [i for i in range(len(machines)) if layout.node_load(i) < least[i] * (1 - TOLERANCE)]
        donors = sorted(set(range(len(machines))) - set(low), key=lambda i: (-weight[i], i))
        moved = False
        for turn, receiver in enumerate(sorted(low, key=lambda i: (weight[i], i))):
            for donor in (donors[(turn + k) % len(donors)] for k in range(len(donors))):
                need = least[receiver] * (1 - TOLERANCE) - layout.node_load(receiver)
                if need <= 0:
                    break
                moved |= transfer(layout, donor, receiver, need, least, most)
        moved |= relieve(layout, least, most)
        anything |= moved
        if not moved:
            return anything


def relieve(layout: Layout, least: list[float], most: list[float]) -> bool:
    """Nodes above L_max, the fullest first, give to the others, the emptiest first, until they are not; False if nothing moved."""
    machines = layout.machines
    moved = False
    weight = [layout.node_load(i) / m.performance for i, m in enumerate(machines)]
    for donor in sorted(range(len(machines)), key=lambda i: (-weight[i], i)):
        for receiver in sorted(range(len(machines)), key=lambda i: (weight[i], i)):
            excess = layout.node_load(donor) - most[donor] * (1 + TOLERANCE)
            if excess > 0 and receiver != donor:
                moved |= transfer(layout, donor, receiver, excess, least, most)
    return moved


def transfer(layout: Layout, donor: int, receiver: int, need: float, least: list[float], most: list[float]) -> bool:
    """One pair: the costliest pieces that neither lift the receiver above L_max nor drop the donor below L_min, until what is needed has moved."""
    have = layout.node_load(receiver)
    budget = min(most[receiver] * (1 + TOLERANCE) - have, layout.node_load(donor) - least[donor] * (1 - TOLERANCE))
    if budget <= 0:
        return False
    pieces = layout.pieces_on(layout.machines[donor].channels)
    worth = WORTH_MOVING * (least[receiver] + most[receiver]) / 2 * (1 - TOLERANCE)
    pieces = pieces[(layout.load[pieces] >= worth) | ~layout.parts(pieces)]
    room = Room.of(layout, layout.machines[receiver], 0.0)
    room.start_filling()
    less = (-layout.load[pieces]).tolist()  # ascending, to be searched
    at, taken, targets = 0, [], []
    while need > 0:
        at = bisect_left(less, -budget, at)
        if at == len(less):
            break
        taken.append(at)
        targets.append(room.add(-less[at]))
        need, budget, at = need + less[at], budget + less[at], at + 1
    chosen = pieces[taken]
    layout.steps += [
        Step(2, key, source, target, load, PAIRED)
        for key, source, target, load in zip(
            layout.key[chosen].tolist(),
            layout.channel[chosen].tolist(),
            targets,
            layout.load[chosen].tolist(),
            strict=True,
        )
    ]
    layout.channel[chosen] = targets
    layout.recount()
    layout.merge_pieces()
    return bool(taken)
