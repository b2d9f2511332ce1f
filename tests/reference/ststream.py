"""St-Stream as the spec states it, to be read beside it: plain dictionaries, every channel looked at, no shortcut.

`pieces` maps (key, channel) to a load: one entry per key, several for a split one. The planner must end with the same pieces. Given
numbers whose fractions a float holds exactly, ties below are real ties.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance.planning.exact import TOLERANCE, first_greatest

Pieces = dict[tuple[int, int], float]


@dataclass
class Case:
    """Keys with a cost, the channels they are on, and the nodes that own the channels."""

    cost: list[float]
    current: list[int]
    capacity: list[float]
    #: Channels of each node, and M(S).
    nodes: list[list[int]]
    performance: list[float]
    theta: float = 0.25
    mergeable: bool = True
    #: "room" or "l_max".
    cut: str = "room"
    pinned: set[int] = field(default_factory=set)
    #: Key → share on each channel, the first one where its state is.
    splits: dict[int, dict[int, float]] = field(default_factory=dict)


def plan(case: Case) -> Pieces:
    """Both tiers, again and again until neither finds anything to do."""
    pieces = start(case)
    for _ in range(50):
        before = dict(pieces)
        join(case, pieces)
        for node in case.nodes:
            tier_1(case, pieces, node)
        tier_2(case, pieces)
        if pieces == before:
            break
    return pieces


def start(case: Case) -> Pieces:
    """Where everything is."""
    pieces: Pieces = {}
    for k, cost in enumerate(case.cost):
        if k in case.splits and case.mergeable and cost > 0:
            pieces |= {(k, d): share * cost for d, share in case.splits[k].items()}
        else:
            pieces[k, case.current[k]] = cost
    return pieces


def load_on(pieces: Pieces, channels: list[int]) -> float:
    """L of these channels."""
    return sum(load for (_, d), load in pieces.items() if d in channels)


def give(pieces: Pieces, k: int, d: int, load: float) -> None:
    """More of a key for a channel."""
    pieces[k, d] = pieces.get((k, d), 0.0) + load


def largest_first(case: Case, pieces: Pieces, channels: list[int]) -> list[tuple[float, int, int]]:
    """(load, key, channel) of what may move from these channels."""
    found = [(c, k, d) for (k, d), c in pieces.items() if d in channels and c > 0 and k not in case.pinned]
    return sorted(found, key=lambda piece: (-piece[0], piece[1], piece[2]))


def join(case: Case, pieces: Pieces) -> None:
    """A split key inside one node is whole again where its state is, if that channel has room for it."""
    for k in range(len(case.cost)):
        where = [d for (key, d) in sorted(pieces) if key == k]
        node = next((node for node in case.nodes if where[0] in node), [])
        if len(where) == 1 or k in case.pinned or not all(d in node for d in where):
            continue
        most = where[first_greatest([pieces[k, d] for d in where])]
        first = case.current[k] if case.current[k] in where else most
        level = load_on(pieces, node) / sum(case.capacity[d] for d in node)
        whole = sum(pieces[k, d] for d in where)
        after = load_on(pieces, [first]) + whole - pieces[k, first]
        if after <= (1 + case.theta) * level * case.capacity[first] * (1 + TOLERANCE):
            for d in where:
                del pieces[k, d]
            pieces[k, first] = whole


def tier_1(case: Case, pieces: Pieces, node: list[int]) -> None:
    """Direct move out, direct move in, split; kept if the fullest channels are lower for it."""
    level = load_on(pieces, node) / sum(case.capacity[d] for d in node)
    l_max = {d: (1 + case.theta) * level * case.capacity[d] for d in node}
    after = dict(pieces)
    r = move_out(case, after, l_max)
    r = [entry for entry in sorted(r, key=order) if not move_in(case, after, l_max, entry)]
    if case.mergeable and case.cut == "l_max" and r:
        cut_at(l_max[lowest_first(case, after, node)[0]], case, after, node, r)
        r = []
    while r:
        r.sort(key=order)
        c, k, d = r.pop(0)
        lowest = lowest_first(case, after, node)[0]
        free = l_max[lowest] - load_on(after, [lowest])
        if case.mergeable and move_in(case, after, l_max, (c, k, d)):
            continue
        if case.mergeable and free > TOLERANCE * l_max[lowest]:
            give(after, k, lowest, free)
            r.append((c - free, k, d))
        else:
            give(after, k, lowest, c)
    if lower(*(sorted((load_on(x, [d]) / case.capacity[d] for d in node), reverse=True) for x in (after, pieces))):
        pieces.clear()
        pieces |= after


def cut_at(l_max: float, case: Case, pieces: Pieces, node: list[int], r: list[tuple[float, int, int]]) -> None:
    """Equation 10: k - L_max and L_max, again and again; equation 12: the parts in ascending order."""
    parts = []
    while r:
        c, k, d = r.pop()
        if c > l_max * (1 + TOLERANCE):
            r.append((c - l_max, k, d))
            c = l_max
        parts.append((c, k, d))
    for c, k, _ in sorted(parts):
        give(pieces, k, lowest_first(case, pieces, node)[0], c)


def order(entry: tuple[float, int, int]) -> tuple[float, int, int]:
    """Largest first, then the smaller key, then the smaller channel."""
    return -entry[0], entry[1], entry[2]


def lowest_first(case: Case, pieces: Pieces, node: list[int]) -> list[int]:
    """A node's channels by load for their capacity."""
    return sorted(node, key=lambda d: (load_on(pieces, [d]) / case.capacity[d], d))


def move_out(case: Case, pieces: Pieces, l_max: dict[int, float]) -> list[tuple[float, int, int]]:
    """Into R: the costliest of every channel above L_max until it is not."""
    r = []
    for d in l_max:
        for c, k, _ in largest_first(case, pieces, [d]):
            if load_on(pieces, [d]) > l_max[d] * (1 + TOLERANCE):
                del pieces[k, d]
                r.append((c, k, d))
    return r


def move_in(case: Case, pieces: Pieces, l_max: dict[int, float], entry: tuple[float, int, int]) -> bool:
    """To the lowest channel that stays within L_max; False if none does."""
    c, k, _ = entry
    for d in lowest_first(case, pieces, list(l_max)):
        if load_on(pieces, [d]) + c <= l_max[d] * (1 + TOLERANCE):
            give(pieces, k, d, c)
            return True
    return False


def lower(new: list[float], old: list[float]) -> bool:
    """Whether the first that differs got smaller."""
    different = [(a, b) for a, b in zip(new, old, strict=True) if abs(a - b) > TOLERANCE * max(a, b)]
    return bool(different) and different[0][0] < different[0][1]


def tier_2(case: Case, pieces: Pieces) -> None:
    """Pair the emptiest with the fullest, pass after pass."""
    every = range(len(case.nodes))
    mean = sum(load_on(pieces, node) for node in case.nodes) / sum(case.performance)
    l_min = [(1 - case.theta) * mean * m for m in case.performance]
    l_max = [(1 + case.theta) * mean * m for m in case.performance]

    def load(i: int) -> float:
        return load_on(pieces, case.nodes[i])

    def is_low(i: int) -> bool:
        return load(i) < l_min[i] * (1 - TOLERANCE)

    moved = True
    while moved:
        moved = False
        low = sorted((i for i in every if is_low(i)), key=lambda i: (load(i) / case.performance[i], i))
        other = sorted((i for i in every if not is_low(i)), key=lambda i: (-load(i) / case.performance[i], i))
        for turn, receiver in enumerate(low):
            for donor in rotated(other, turn):
                least = 0.01 * mean * case.performance[receiver] * (1 - TOLERANCE)
                offered = largest_first(case, pieces, case.nodes[donor])
                for c, k, d in [piece for piece in offered if piece[0] >= least or not is_part(pieces, piece[1])]:
                    high, low = l_max[receiver] * (1 + TOLERANCE), l_min[donor] * (1 - TOLERANCE)
                    fits = load(receiver) + c <= high and load(donor) - c >= low
                    if is_low(receiver) and fits:
                        move(case, pieces, (k, d), receiver)
                        moved = True
        moved |= relieve(case, pieces, l_min, l_max)


def relieve(case: Case, pieces: Pieces, l_min: list[float], l_max: list[float]) -> bool:
    """Ours: a node above L_max gives to the emptiest, too."""
    every = range(len(case.nodes))
    weight = [load_on(pieces, case.nodes[i]) / case.performance[i] for i in every]
    pairs = [
        (donor, receiver)
        for donor in sorted(every, key=lambda i: (-weight[i], i))
        for receiver in sorted(every, key=lambda i: (weight[i], i))
        if donor != receiver
    ]
    moved = False
    for donor, receiver in pairs:
        least = 0.01 * (l_min[receiver] + l_max[receiver]) / 2 * (1 - TOLERANCE)
        for c, k, d in largest_first(case, pieces, case.nodes[donor]):
            gives, takes = (load_on(pieces, case.nodes[i]) for i in (donor, receiver))
            fits = takes + c <= l_max[receiver] * (1 + TOLERANCE) and gives - c >= l_min[donor] * (1 - TOLERANCE)
            worth = c >= least or not is_part(pieces, k)
            if gives > l_max[donor] * (1 + TOLERANCE) and fits and worth:
                move(case, pieces, (k, d), receiver)
                moved = True
    return moved


def move(case: Case, pieces: Pieces, piece: tuple[int, int], receiver: int) -> None:
    """To the lowest channel of the node."""
    target = lowest_first(case, pieces, case.nodes[receiver])[0]
    load = pieces.pop(piece)
    give(pieces, piece[0], target, load)


def is_part(pieces: Pieces, k: int) -> bool:
    """Whether a key is split."""
    return sum(key == k for key, _ in pieces) > 1


def rotated(donors: list[int], turn: int) -> list[int]:
    """More low nodes than donors: these are used again in turn."""
    turn %= len(donors)
    return donors[turn:] + donors[:turn]
