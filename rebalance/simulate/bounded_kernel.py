"""The schemes with a bound on a bin's load, as machine code. Read `grouping` first.

A bin takes a tuple while its load is below (1+ε)·m/n, with m the source's tuples so far and this one. Loads are whole numbers, so the
bound that counts is the `level` ceil((1+ε)·m/n), which rises once in about n tuples, and while it stands a full bin stays full. Both
kernels remember which bins they found full at a level and do not ask them again. That changes no choice, only the time: a key with
half of all tuples and a thousand bins would otherwise try hundreds of them for every tuple.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rebalance.compiled import compiled
from rebalance.planning.model import Indices, Ints
from rebalance.simulate.mixing_kernel import bin_of

Hashes = NDArray[np.uint64]
#: Keys per source for which the salt reached is remembered; a power of two.
REMEMBERED = 1024
#: Salts worth remembering: shorter searches are repeated faster than looked up.
_LONG = 4


@compiled
def random_choices(
    keys: Ints, first: int, hashes: Hashes, epsilon: float, loads: Indices, seen: Indices, reached: Indices
) -> Ints:
    """PoRC: bins H(key + 1), H(key + 2), … until one has room. `reached` holds key, level and salt per source and place.

    It ends: the mean of a source's loads is below m/n, so a bin with room exists, and each salt finds it with probability 1/n.
    """
    sources, bins = loads.shape
    out = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        source, key = (first + i) % sources, keys[i]
        load, known = loads[source], reached[source, key & (REMEMBERED - 1)]
        seen[source] += 1
        bound = (1.0 + epsilon) * seen[source] / bins
        level = math.ceil(bound)
        salt = known[2] if known[0] == key and known[1] == level else 1
        chosen = bin_of(hashes[key], salt, bins)
        while load[chosen] >= bound:
            salt += 1
            chosen = bin_of(hashes[key], salt, bins)
        if salt > _LONG:
            known[0], known[1], known[2] = key, level, salt
        load[chosen] += 1
        out[i] = chosen
    return out


@compiled
def bounded_ring(
    keys: Ints,
    first: int,
    home: Ints,
    owner: Ints,
    epsilon: float,
    loads: Indices,
    seen: Indices,
    levels: Indices,
    jump: Ints,
) -> Ints:
    """CH: from the key's point of the ring (`home`) clockwise to the first whose channel has room.

    `jump` leads from a point to a later one, over points that are full at the source's level: a union-find with halved paths.
    """
    sources, channels = loads.shape
    points = len(owner)
    out = np.empty(len(keys), np.int32)
    for i in range(len(keys)):
        source = (first + i) % sources
        load, skip = loads[source], jump[source]
        seen[source] += 1
        bound = (1.0 + epsilon) * seen[source] / channels
        level = math.ceil(bound)
        if level != levels[source]:
            levels[source] = level
            for point in range(points):
                skip[point] = point
        at = home[keys[i]]
        while skip[at] != at or load[owner[at]] >= bound:
            if skip[at] == at:
                skip[at] = (at + 1) % points
            else:
                skip[at] = skip[skip[at]]
            at = skip[at]
        chosen = owner[at]
        load[chosen] += 1
        out[i] = chosen
    return out
