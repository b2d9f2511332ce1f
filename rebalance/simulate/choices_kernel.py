"""The schemes that choose the least loaded of some channels, as machine code. Read `grouping` first.

Every function routes one run of tuples: tuple number first + i comes to source (first + i) mod s, which knows only what it sent itself:
row `source` of the arrays. Rows are changed in place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalance.compiled import compiled
from rebalance.planning.exact import TOLERANCE
from rebalance.planning.exact_kernel import clearly_less
from rebalance.planning.model import Floats, Indices, Ints
from rebalance.simulate.mixing_kernel import bin_of, two_bins

Hashes = NDArray[np.uint64]
#: Tuples a source must see before it looks again how many choices its head keys need.
LEAST_WAIT = 100
#: Head keys per source whose least loaded choice is remembered; a power of two.
REMEMBERED = 1024
#: So few choices are looked at faster than remembered.
_FEW = 4


@compiled
def key_grouping(keys: Ints, hashes: Hashes, channels: int) -> Ints:
    """KG: the key's hash."""
    out = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        out[i] = bin_of(hashes[keys[i]], 1, channels)
    return out


@compiled
def shuffle_grouping(tuples: int, first: int, sources: int, channels: int) -> Ints:
    """SG: each source goes round the channels, source j beginning with channel j."""
    out = np.empty(tuples, np.int32)
    for i in range(tuples):
        sent, source = divmod(first + i, sources)
        out[i] = (sent + source) % channels
    return out


@compiled
def partial_key_grouping(keys: Ints, first: int, hashes: Hashes, loads: Indices) -> Ints:
    """PKG: of two hashes of the key the channel with less load so far, the first if equal."""
    sources, channels = loads.shape
    out = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        load = loads[(first + i) % sources]
        key = hashes[keys[i]]
        one, two = bin_of(key, 1, channels), bin_of(key, 2, channels)
        chosen = one if load[one] <= load[two] else two
        load[chosen] += 1
        out[i] = chosen
    return out


@compiled
def two_choices(tuples: int, first: int, seed: np.uint64, loads: Indices) -> Ints:
    """PoTC: of two channels drawn for the tuple the one with less load so far, the first if equal."""
    sources, channels = loads.shape
    out = np.empty(tuples, np.int32)
    for i in range(tuples):
        load = loads[(first + i) % sources]
        one, two = two_bins(seed + np.uint64(first + i), channels)
        chosen = one if load[one] <= load[two] else two
        load[chosen] += 1
        out[i] = chosen
    return out


class HeadSources(NamedTuple):
    """What each source of D- and W-Choices knows; rows are by source."""

    #: Tuples sent to each channel.
    loads: Indices
    #: Tuples seen.
    seen: Indices
    #: Tuples of each key.
    counts: Ints
    #: d: choices of a head key.
    choices: Indices
    #: At how many tuples d is computed anew.
    refresh: Indices
    #: The least load, and the first channel that can have it.
    lowest: Indices
    #: The same for the choices of head keys: see `least_of_choices`.
    known: Indices


@compiled
def head_choices(keys: Ints, first: int, hashes: Hashes, theta: float, epsilon: float, sources: HeadSources) -> Ints:
    """D-Choices and, when every `choices` is the number of channels from the start and stays, W-Choices."""
    number, channels = sources.loads.shape
    out = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        source, key = (first + i) % number, keys[i]
        load, counts = sources.loads[source], sources.counts[source]
        sources.seen[source] += 1
        seen = sources.seen[source]
        counts[key] += 1
        if seen >= sources.refresh[source]:
            sources.choices[source] = enough_choices(counts, seen, theta, epsilon, channels)
            sources.refresh[source] = seen + max(seen // 10, LEAST_WAIT)
        d = sources.choices[source] if counts[key] >= theta * seen else 2
        if d >= channels:
            chosen = least_of_all(load, sources.lowest[source])
        else:
            chosen = least_of_choices(key, hashes[key], d, load, sources.known[source, key & (REMEMBERED - 1)])
        load[chosen] += 1
        out[i] = chosen
    return out


@compiled
def least_of_all(load: Indices, lowest: Indices) -> int:
    """The first channel with the least load. Loads only grow, so the search goes on from where it stopped: O(1) in the mean."""
    at = int(lowest[1])
    while load[at] > lowest[0]:
        at += 1
        if at == len(load):
            at = 0
            lowest[0] += 1
    lowest[1] = at
    return at


@compiled
def least_of_choices(key: int, hashed: np.uint64, d: int, load: Indices, known: Indices) -> int:
    """The first of the key's d choices with the least load.

    `known` is a key, a d, a load and a salt: no choice of the key before that salt has that load, and none has less. So a key that comes
    often looks at all its choices once per unit of load, not once per tuple.
    """
    salt, least = d + 1, np.int64(0)
    if known[0] == key and known[1] == d:
        salt, least = known[3], known[2]
        while salt <= d and load[bin_of(hashed, salt, len(load))] > least:
            salt += 1
    if salt > d:
        salt, least = 1, load[bin_of(hashed, 1, len(load))]
        for other in range(2, d + 1):
            there = load[bin_of(hashed, other, len(load))]
            if there < least:
                salt, least = other, there
    if d > _FEW:
        known[0], known[1], known[2], known[3] = key, d, least, salt
    return bin_of(hashed, salt, len(load))


@compiled
def enough_choices(counts: Ints, seen: int, theta: float, epsilon: float, channels: int) -> int:
    """The least d for which no prefix of the head overloads the channels it can reach; the number of channels if there is none.

    b_h = n - n·((n-1)/n)^(h·d) channels are expected to be reached by the h most frequent keys. They get those keys' tuples, and of the
    other keys those whose choices all lie among them; that must be at most b_h·(1/n + ε). The same d as the planner's; see
    `rebalance.planners.splitting.dchoices` for how the authors' own simulator differs.
    """
    p = head(counts, seen, theta)
    if len(p) == 0:
        return 2
    total, n = p.sum(), float(channels)
    d: int = max(2, math.ceil(p[0] * n * (1 - TOLERANCE)))
    while d < channels and not fits(p, total, d, n, epsilon):
        d += 1
    return min(d, channels)


@compiled
def head(counts: Ints, seen: int, theta: float) -> Floats:
    """Frequencies of the keys at or above θ, largest first."""
    found = counts[counts >= max(theta * seen, 1.0)]
    return -np.sort(-(found / seen))


@compiled
def fits(p: Floats, total: float, d: int, n: float, epsilon: float) -> bool:
    """Whether d choices are enough for every prefix of the head."""
    prefix = 0.0
    for h in range(len(p)):
        prefix += p[h]
        b = n - n * math.pow((n - 1.0) / n, float((h + 1) * d))
        load = prefix + math.pow(b / n, float(d)) * (total - prefix) + math.pow(b / n, 2.0) * (1.0 - total)
        if clearly_less(b * (1.0 / n + epsilon), load):
            return False
    return True
