"""Token halving and doubling as the paper states them, and its run of actors: plain lists, every token looked at.

Token j = 1, 2, ... of channel d is the string `token-{d}-{j}`; a key belongs to the first token clockwise of the start of its slot. The planners must
end with the same tokens and place every key exactly as `plan` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from rebalance.partition.hashing import ring_points
from rebalance.planning.exact import clearly_less, first_greatest


@dataclass
class Case:
    """Keys with a slot and a cost, and the tokens each channel has now (none for an excluded one)."""

    slots: list[int]
    cost: list[float]
    tokens: list[int]
    capacity: list[float]
    method: str
    tau: float = 0.2
    rounds: int = 1
    #: Key → the channel it has to stay on.
    pinned: dict[int, int] = field(default_factory=dict)


def ring_with(tokens: list[int]) -> list[tuple[int, int]]:
    """All tokens in clockwise order, each with its channel; equal points belong to the smaller channel."""
    return sorted((point_of(d, j), d) for d, count in enumerate(tokens) for j in range(1, count + 1))


def key_lookup(slot: int, ring: list[tuple[int, int]]) -> int:
    """Walk the ring clockwise to the first token."""
    return next((d for point, d in ring if point >= slot << 16), ring[0][1])


POINTS: dict[tuple[int, int], int] = {}


def point_of(channel: int, j: int) -> int:
    """The token's place on the ring."""
    if (channel, j) not in POINTS:
        POINTS[channel, j] = int(ring_points([f"token-{channel}-{j}"])[0])
    return POINTS[channel, j]


def redistribute(method: str, tokens: list[int], x: int) -> list[int]:
    """Halving: half of the tokens of x go, never the last. Doubling: all but x get twice as many."""
    if method == "halving":
        return [count // 2 if d == x and count > 1 else count for d, count in enumerate(tokens)]
    return [count if d == x else 2 * count for d, count in enumerate(tokens)]


def join_and_leave(tokens: list[int], is_open: list[bool], start: int) -> list[int]:
    """Tokens when these channels are open: who leaves gives all up; a newcomer claims the power of two nearest to the mean of who stays."""
    stay = [count for count, here in zip(tokens, is_open, strict=False) if here and count]
    mean = Fraction(sum(stay), len(stay)) if stay else Fraction(start)
    claim = min((2**i for i in range(13)), key=lambda power: max(mean / power, power / mean))
    had = tokens + [0] * len(is_open)
    return [(had[d] or claim) if here else 0 for d, here in enumerate(is_open)]


def trigger(q: dict[int, float], tau: float) -> int | None:
    """x with Q_x > Q_s (1 + τ), if there is one."""
    if len(q) < 2:
        return None
    x = list(q)[first_greatest(list(q.values()))]
    second = max(load for d, load in q.items() if d != x)
    return x if clearly_less(second * (1 + tau), q[x]) else None


def plan(case: Case) -> tuple[list[int], list[int]]:
    """The channel of each key and the tokens, after as many rounds as the trigger and the limit allow."""
    tokens, done = list(case.tokens), [0] * len(case.tokens)
    while True:
        ring = ring_with(tokens)
        channel = [case.pinned.get(k, key_lookup(slot, ring)) for k, slot in enumerate(case.slots)]
        q = {
            d: sum(c for c, on in zip(case.cost, channel, strict=True) if on == d) / case.capacity[d]
            for d, count in enumerate(tokens)
            if count
        }
        x = trigger(q, case.tau)
        if x is None or done[x] == case.rounds:
            return channel, tokens
        changed = redistribute(case.method, tokens, x)
        if changed == tokens:
            return channel, tokens
        tokens, done[x] = changed, done[x] + 1


def run_of_actors(
    letters: str,
    slot_of: Callable[[str], int],
    method: str,
    *,
    reducers: int = 4,
    mappers: int = 4,
    rounds: int = 1,
    tau: float = 0.2,
    every: int = 10,
) -> list[int]:
    """Tuples each reducer processed in a run with queues, in ticks.

    In a tick every mapper sends one letter to the queue of the letter's reducer and every reducer takes one from its queue: it counts it
    or, if the ring changed since, forwards it. Every so many ticks the load balancer looks at the queues; a reducer may
    cause at most `rounds` changes of the ring. With `rounds` = 0 there is no load balancing.
    """
    tokens, done = [64 if method == "halving" else 1] * reducers, [0] * reducers
    ring = ring_with(tokens)
    owner = {letter: key_lookup(slot_of(letter), ring) for letter in set(letters)}
    waiting = deque(letters)
    queues: list[deque[str]] = [deque() for _ in range(reducers)]
    processed = [0] * reducers
    tick = 0
    while waiting or any(queues):
        tick += 1
        for _ in range(min(mappers, len(waiting))):
            letter = waiting.popleft()
            queues[owner[letter]].append(letter)
        for d in range(reducers):
            if queues[d]:
                letter = queues[d].popleft()
                if owner[letter] == d:
                    processed[d] += 1
                else:
                    queues[owner[letter]].append(letter)
        x = trigger({d: float(len(queue)) for d, queue in enumerate(queues)}, tau) if tick % every == 0 else None
        if x is not None and done[x] < rounds:
            tokens, done[x] = redistribute(method, tokens, x), done[x] + 1
            ring = ring_with(tokens)
            owner = {letter: key_lookup(slot_of(letter), ring) for letter in owner}
    return processed
