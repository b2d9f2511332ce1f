"""Worker delegation of Consistent Grouping: who asks for fewer or more virtual workers, who waits, and who gives to whom.

Reference: Nasir et al., "Load balancing for skewed streams on heterogeneous cluster", 2017. A channel with U(d) > `busy` asks for fewer, one with
U(d) < `idle` for more. Both wait in first-come-first-served queues, which they leave when they no longer ask; one virtual worker moves
from the head of the one to the head of the other until either is empty. So it stops anywhere inside the band between the thresholds, which with
many virtual workers is several of them, and also where somebody is idle but nobody busy.

`settle` is an addition of this project. All virtual workers are of equal size, so what d can take shows as held(d)/U(d), and

    e(d) = held(d) - V · (held(d)/U(d)) / Σ (held/U)        virtual workers too many, or too few, of V in all

follows from utilisation alone. With it
- a channel also asks when e is above 1 or below -1, whatever the thresholds say;
- the thresholds count only where one virtual worker less (more) would bring the channel nearer, e > 1/2 (e < -1/2). Utilisation whose mean is
  not between the thresholds would make a channel with too few ask for fewer, and one between two numbers go to and fro;
- a threshold that all channels are beyond tells none from another and does not count: where all are idle only |e| > 1 asks. That is the rule in a
  batch, whose work takes seconds of its hour; for noise of half a virtual worker nothing then moves;
- who still waits while the other queue is empty is answered, in order, by the channel with which e(giver) - e(taker) is largest, if that is more
  than 1, among those that are not in a pair of this slot yet and do not ask for the same (they would only pass virtual workers round).

Guarantee: Σ e² falls with every pair, by 2 (e(giver) - e(taker) - 1) > 0, so there is a last one. A channel with |e| > 1 asks, and as Σ e = 0
somebody answers it. So after finitely many slots it rests, and then every channel is within one virtual worker of α*(d) = V cap(d)/Σ cap.
This is for exact utilisation and if all α*(d) ≥ 1. A channel with α*(d) < 1 that must `keep` one has too many for good, and the others too few; one
that gave its last shows nothing any more and is given one again to see: it goes to and fro, and others may be a little further off meanwhile.
Virtual workers that are not quite equal, by PoRC's ε, and noise of the measurement add theirs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planning.exact import TOLERANCE, clearly_less, first_greatest, total
from rebalance.planning.model import Floats, Indices, Mask

#: The least utilisation that is believed, of the mean: who got nothing in one slot is not infinitely strong.
LEAST = 0.01


class Pairing(NamedTuple):
    """What one slot came to."""

    #: Giver and taker of each virtual worker that moves; nobody is in two.
    pairs: list[tuple[int, int]]
    #: Who still waits to have fewer, and to have more.
    giving: list[int]
    taking: list[int]


@dataclass(frozen=True)
class Rule:
    """When channels ask, and who answers."""

    #: Utilisation above which a channel asks for fewer, and below which for more.
    busy: float
    idle: float
    #: Whether to go on until every channel is within one of its optimum; False is the paper to the letter.
    settle: bool
    #: Virtual workers a giver must keep.
    keep: int = 0

    def slot_ends(
        self, utilisation: Floats, held: Indices, giving: Collection[int], taking: Collection[int]
    ) -> Pairing:
        """Queue up and pair off. A channel that has no part in it has a utilisation of NaN."""
        off, gives = excess(utilisation, held), held > self.keep
        fewer, more = self._asks(utilisation, off, held)
        giving, taking = queue(giving, fewer & gives), queue(taking, more)
        pairs = list(zip(giving, taking, strict=False))
        if self.settle:
            met, free = len(pairs), np.isfinite(off)
            free[giving[:met] + taking[:met]] = False
            # At most one of the queues has somebody left.
            pairs += answers(giving[met:], -off, free & ~fewer)
            pairs += [(giver, taker) for taker, giver in answers(taking[met:], off, free & ~more & gives)]
        served = {d for pair in pairs for d in pair}
        return Pairing(pairs, [d for d in giving if d not in served], [d for d in taking if d not in served])

    def _asks(self, utilisation: Floats, off: Floats, held: Indices) -> tuple[Mask, Mask]:
        """Who asks for fewer, and who for more."""
        busy, idle = utilisation > self.busy, utilisation < self.idle
        if not self.settle:
            return busy, idle
        one, half = 1 + TOLERANCE, 0.5 + TOLERANCE
        shows = np.isfinite(utilisation) & (held > 0)
        busy &= not busy[shows].all()
        idle &= ~shows | (not idle[shows].all())  # who holds none is to be given one in any case
        return (off > one) | (busy & (off > half)), (off < -one) | (idle & (off < -half))


def excess(utilisation: Floats, held: Indices) -> Floats:
    """e(d): virtual workers too many, as utilisation shows it; NaN where it is not a number.

    A channel that holds none shows nothing. It counts as one too few: with that one it will.

    >>> excess(np.array([1.0, 0.5, np.nan]), np.array([3, 3, 0]))
    array([ 1., -1., nan])
    """
    known = np.isfinite(utilisation)
    off = np.where(known, np.where(held > 0, 0.0, -1.0), np.nan)
    used = known & (held > 0)
    most = float(utilisation[used].max(initial=0.0))
    if most <= 0:
        return off
    relative = utilisation[used] / most
    strength = held[used] / np.maximum(relative, LEAST * total(relative) / len(relative))
    off[used] = held[used] - held[used].sum() * strength / total(strength)
    return off


def queue(waiting: Collection[int], asks: Mask) -> list[int]:
    """Those who wait and still ask, in their order, and then those who ask anew, in the order of the channels."""
    still = [d for d in waiting if d < len(asks) and asks[d]]
    known = set(still)
    return still + [d for d in np.flatnonzero(asks).tolist() if d not in known]


def answers(waiting: list[int], score: Floats, able: Mask) -> list[tuple[int, int]]:
    """For each who waits, in order, the able channel with the highest score, if that is more than 1 above its own; nobody twice.

    >>> answers([0, 1], np.array([-1.5, -1.2, 1.7]), np.array([False, False, True]))
    [(0, 2)]
    """
    found, left = [], np.flatnonzero(able).tolist()
    for d in waiting:
        above = score[left] - score[d]
        furthest = first_greatest(above) if left else 0
        if left and clearly_less(1.0, float(above[furthest])):
            found.append((d, left.pop(furthest)))
    return found


def check_thresholds(busy: float, idle: float) -> None:
    """Refuse thresholds that cross: a channel would ask for fewer and for more."""
    if not 0 < idle < busy:
        raise ConfigError(f"idle is {idle} and busy is {busy}; idle must be above 0 and below busy")
