"""The splitting schemes tuple by tuple, as their papers state them, and the pairing of Consistent Grouping; no thought for speed.

The planners pour a key's tuples as a fluid. Here every tuple is one unit of load and comes by itself, so the two agree up to a tuple per bin.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from math import ceil

from rebalance.planning.exact import TOLERANCE, clearly_less, first_greatest, first_least

Loads = list[float]
#: Tuples of each key in each bin.
Placed = list[dict[int, int]]
MASK = (1 << 64) - 1


def choice(slot: int, salt: int, bins: int) -> int:
    """hash(slot, salt) mod bins."""
    h = (slot * 0x9E3779B97F4A7C15 + salt * 0xD1B54A32D192ED03) & MASK
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK
    return (h ^ (h >> 31)) % bins


def choices_of(slot: int, first: int, d: int, bins: list[int]) -> list[int]:
    """The bins a key with d choices may use."""
    if d >= len(bins):
        return bins
    return [first] + [bins[choice(slot, salt, len(bins))] for salt in range(1, d)]


def least_loaded(load: Loads, keys: list[tuple[int, list[int]]]) -> Placed:
    """PKG, D-Choices, W-Choices: each tuple of a key (tuples, its bins) to the bin with least load so far."""
    placed: Placed = []
    for tuples, bins in keys:
        where: dict[int, int] = {}
        for _ in range(tuples):
            d = bins[first_least([load[d] for d in bins])]
            load[d] += 1
            where[d] = where.get(d, 0) + 1
        placed.append(where)
    return placed


def bounded(load: Loads, bound: Loads, keys: list[tuple[int, list[int]]]) -> Placed:
    """PoRC and CH: each tuple to the first of its key's bins, in the order in which they are probed, with load < bound.

    One tuple in a hundred of each key comes to its first bin before all others, the last key's first.
    """
    placed: Placed = [{} for _ in keys]

    def put(k: int, d: int) -> None:
        load[d] += 1
        placed[k][d] = placed[k].get(d, 0) + 1

    early = [0] * len(keys)
    for k in reversed(range(len(keys))):
        tuples, bins = keys[k]
        for _ in range(tuples // 100):
            if load[bins[0]] < bound[bins[0]]:
                put(k, bins[0])
                early[k] += 1
    for k, (tuples, bins) in enumerate(keys):
        for _ in range(tuples - early[k]):
            put(k, next(d for d in bins if load[d] < bound[d]))
    return placed


def probes_of_porc(slot: int, first: int, bins: list[int]) -> list[int]:
    """hash(key + 1), hash(key + 2), …, where the first hash is the ring's; then the bins in their order."""
    return [first] + [bins[choice(slot, salt, len(bins))] for salt in range(1, 8 * len(bins))] + bins


def probes_of_ch(slot: int, ring: list[int], bins: list[int]) -> list[int]:
    """Clockwise from the key; then the bins in their order."""
    return ring[slot:] + ring[:slot] + bins


def two_random(load: Loads, keys: list[tuple[int, int]], bins: list[int]) -> Placed:
    """PoTC: each tuple of a key (tuples, slot) to the less loaded of two bins of its own; as many tuples as eight times the bins."""
    placed: Placed = []
    for tuples, slot in keys:
        where: dict[int, int] = {}
        for t in range(tuples):
            a, b = (bins[choice(slot, 2 * t + i, len(bins))] for i in (1, 2))
            d = b if clearly_less(load[b], load[a]) else a
            load[d] += 1
            where[d] = where.get(d, 0) + 1
        placed.append(where)
    return placed


def enough_choices(p: list[float], n: int, epsilon: float) -> int:
    """D-Choices: the least d with which every prefix of the head fits the bins it is expected to reach."""
    tail = 1 - sum(p)
    for d in range(max([2] + [ceil(share * n * (1 - TOLERANCE)) for share in p]), n):
        fits = True
        for h in range(1, len(p) + 1):
            b = n - n * ((n - 1) / n) ** (h * d)
            expected = sum(p[:h]) + (b / n) ** d * sum(p[h:]) + (b / n) ** 2 * tail
            fits = fits and not clearly_less(b * (1 / n + epsilon), expected)
        if fits:
            return d
    return n


def published_choices(p: list[float], n: int, epsilon: float) -> int:
    """What the authors' simulator checks, in our words: the heaviest key alone and the whole head, each against the part of the bins it reaches."""
    top, head = p[0], sum(p)
    for d in range(round(top * n), n):
        missed = (1 - 1 / n) ** d  # share of the bins that d hashes leave out
        by_one, by_all = 1 - missed, 1 - missed ** len(p)
        one = top + by_one**d * (head - top) + by_one**2 * (1 - head)
        whole = head + by_all**2 * (1 - head)
        if not (clearly_less(by_one + epsilon, one) or clearly_less(by_all + epsilon, whole)):
            return d
    return n


def least_bins(p: float, n: int, epsilon: float) -> int:
    """No key with share p of the load fits into fewer bins."""
    return ceil(p * n / (1 + epsilon) * (1 - TOLERANCE))


class Grouping:
    """Consistent Grouping's virtual workers: how many each channel has, and who waits."""

    def __init__(self, channels: int, alpha: int, keep: int = 1) -> None:
        self.workers = [alpha] * channels
        self.keep = keep
        self.busy: deque[int] = deque()
        self.idle: deque[int] = deque()

    def slot_ends(self, utilisation: list[float], busy: float, idle: float, settle: bool) -> list[tuple[int, int]]:
        """Channels signal, queue, and pair: who gave to whom."""
        off = too_many(utilisation, self.workers)
        fewer, more = [u > busy for u in utilisation], [u < idle for u in utilisation]
        if settle:
            fewer, more = self._settling(off, fewer, more)
        for queue, asks in (
            (self.busy, [asks and w > self.keep for asks, w in zip(fewer, self.workers, strict=True)]),
            (self.idle, more),
        ):
            for d in list(queue):
                if not asks[d]:
                    queue.remove(d)
            for d, signal in enumerate(asks):
                if signal and d not in queue:
                    queue.append(d)
        pairs = []
        while self.busy and self.idle:
            pairs.append((self.busy.popleft(), self.idle.popleft()))
        if settle:
            self._answer(pairs, off, self.busy, fewer)
            self._answer(pairs, off, self.idle, more)
        for giver, taker in pairs:
            self.workers[giver] -= 1
            self.workers[taker] += 1
        return pairs

    def _settling(self, off: list[float], busy: list[bool], idle: list[bool]) -> tuple[list[bool], list[bool]]:
        """Who asks for fewer and for more: beyond 1/2 by a threshold that does not hold for all who have virtual workers, else beyond 1."""
        holding = [d for d, w in enumerate(self.workers) if w > 0]
        all_busy, all_idle = all(busy[d] for d in holding), all(idle[d] for d in holding)
        fewer = [clearly_less(0.5 if busy[d] and not all_busy else 1, e) for d, e in enumerate(off)]
        more = [idle[d] and not (all_idle and d in holding) for d in range(len(off))]
        return fewer, [clearly_less(e, -0.5 if half else -1) for e, half in zip(off, more, strict=True)]

    def _answer(self, pairs: list[tuple[int, int]], off: list[float], queue: deque[int], same: list[bool]) -> None:
        """Whoever waits alone gets the channel furthest from it, if one virtual worker between the two helps and it does not ask for the same."""
        for d in list(queue):
            possible: list[tuple[int, int]] = []
            for other in range(len(off)):
                giver, taker = (d, other) if queue is self.busy else (other, d)
                if self.workers[giver] > self.keep and not same[other] and not any(other in pair for pair in pairs):
                    possible.append((giver, taker))
            gains = [off[giver] - off[taker] for giver, taker in possible]
            if gains and clearly_less(1, gains[first_greatest(gains)]):
                pairs.append(possible[first_greatest(gains)])
                queue.remove(d)


def too_many(utilisation: list[float], workers: list[int]) -> list[float]:
    """By how many virtual workers each channel is off a share as strong as it shows itself."""
    holding = [d for d, w in enumerate(workers) if w > 0]
    exact = {d: Fraction(utilisation[d]) for d in holding}
    mean = sum(exact.values(), Fraction(0)) / len(holding)
    if mean == 0:
        return [0.0 if w else -1.0 for w in workers]
    strength = {d: workers[d] / max(u, mean / 100) for d, u in exact.items()}
    best = {d: sum(workers) * strength[d] / sum(strength.values()) for d in holding}
    return [float(w - best[d]) if w else -1.0 for d, w in enumerate(workers)]
