"""The loops that spend max_bytes and max_routes, as machine code. Read `limits` first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rebalance.compiled import compiled
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.exact_kernel import clearly_less
from rebalance.planning.model import Floats, Indices, Ints
from rebalance.planning.sorting_kernel import pop, push

#: Places in `Ledger.left`.
BYTES, ROUTES = 0, 1


class Ledger(NamedTuple):
    """An assignment while keys are moved, and what is left of the limits."""

    channel: Ints
    current: Ints
    home: Ints
    cost: Floats
    state: Floats
    load: Floats
    fair: Floats
    #: Bytes and routes; routes are negative while the table is too large.
    left: Floats


@compiled
def move(ledger: Ledger, k: int, to: int) -> bool:
    """Move key k if it fits the limits. Its state is paid for once, however often it moves, and not at all if it ends where it was."""
    now, current, home = ledger.channel[k], ledger.current[k], ledger.home[k]
    pay = ledger.state[k] * (int(to != current) - int(now != current))
    routes = int(to != home) - int(now != home)
    if (pay > 0 and pay > ledger.left[BYTES]) or (routes > 0 and routes > ledger.left[ROUTES]):
        return False
    ledger.left[BYTES] -= pay
    ledger.left[ROUTES] -= routes
    ledger.load[now] -= ledger.cost[k]
    ledger.load[to] += ledger.cost[k]
    ledger.channel[k] = to
    return True


@compiled
def send_home(ledger: Ledger, keys: Indices, enough_routes: float) -> None:
    """Move the keys home, one after the other, until that many routes are left."""
    for k in keys:
        if ledger.left[ROUTES] >= enough_routes:
            break
        move(ledger, k, ledger.home[k])


@compiled
def worst_theta(load: Floats, fair: Floats, nothing: float) -> float:
    """max θ(d), a load off by `nothing` being fair; a channel that must be empty counts only when it is not."""
    worst = 0.0
    for d in range(len(load)):
        off = abs(load[d] - fair[d])
        if off > nothing:
            worst = max(worst, off / fair[d] if fair[d] > 0 else np.inf)
    return worst


@compiled
def emptiest(load: Floats, fair: Floats) -> int:
    """The open channel with the least L(d) / fair(d), the smaller one on a tie."""
    best = -1
    for d in range(len(load)):
        if fair[d] > 0 and (best < 0 or clearly_less(load[d] / fair[d], load[best] / fair[best])):
            best = d
    return best


@compiled
def gain(ledger: Ledger, k: int, to: int) -> float:
    """By how much moving k evens out the two channels it touches: the decrease of Σ (L(d) - fair(d))² / fair(d).

    0 if it would leave either of them worse off than the worse of both was.
    """
    now, c = ledger.channel[k], ledger.cost[k]
    if now == to or ledger.fair[to] <= 0:
        return 0.0
    if ledger.fair[now] <= 0:  # nothing may be there at all
        return float(np.inf)
    level_now, level_to = ledger.load[now] / ledger.fair[now], ledger.load[to] / ledger.fair[to]
    after_now, after_to = (ledger.load[now] - c) / ledger.fair[now], (ledger.load[to] + c) / ledger.fair[to]
    if not (clearly_less(after_to, level_now) and clearly_less(level_to, after_now)):
        return 0.0
    return float(c * (level_now + after_now - level_to - after_to))


@compiled
def improve(ledger: Ledger, keys: Indices, target: Ints, price: Floats, worth: Floats, theta_max: float) -> int:
    """Move keys to their targets, most gain per price first, until θ_max is met; returns how many moved.

    A target of -1 is the emptiest channel. `price` is over all keys, `worth` is room for as many numbers. Gains change as others move, so
    each is looked at again before it counts.
    """
    heap, size, moved = np.empty(len(keys), dtype=np.int32), 0, 0
    empty, nothing = emptiest(ledger.load, ledger.fair), TOLERANCE * ledger.load.sum()
    for k in keys:
        worth[k] = gain(ledger, k, target[k] if target[k] >= 0 else empty) / price[k]
        if worth[k] > 0:
            push(heap, size, k, worth)
            size += 1
    while size > 0 and clearly_less(theta_max, worst_theta(ledger.load, ledger.fair, nothing)):
        k = pop(heap, size, worth)
        size -= 1
        to = target[k] if target[k] >= 0 else empty
        worth_now = gain(ledger, k, to) / price[k]
        if worth_now <= 0:
            continue
        if size > 0 and worth_now < worth[heap[0]]:
            worth[k] = worth_now
            push(heap, size, k, worth)
            size += 1
        elif move(ledger, k, to):
            moved += 1
            empty = emptiest(ledger.load, ledger.fair)
    return moved
