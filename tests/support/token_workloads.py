"""The five workloads of the token experiments: 100 letters each, given in the paper only by their starting skews.

`search` finds sequences with those skews by local search and looks at nothing else, so what rebalancing makes of them is not chosen.
`search_alike` goes on from there to a sequence that also ends near the paper's table 1: such sequences exist, and the fixture holds one of each.
Letters are hashed as the tokens are, by canonical MurmurHash3, as in the paper.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from rebalance.partition import SLOTS
from rebalance.partition.hashing import ring_points
from rebalance.planning.measure import skew
from tests.reference.tokens import key_lookup, ring_with, run_of_actors

FIXTURE = Path(__file__).parents[1] / "fixtures" / "token_workloads.txt"
ITEMS = 100
LETTERS = string.ascii_lowercase
REDUCERS = 4
START = {"halving": 64, "doubling": 1}
#: Workload → starting skew for halving and doubling.
SKEWS = {"WL1": (0.0, 1.0), "WL2": (0.0, 0.0), "WL3": (1.0, 1.0), "WL4": (0.8, 0.49), "WL5": (0.2, 0.55)}
#: Table 1 of the paper: skew with load balancing, for halving and doubling.
REPORTED = {"WL1": (0.08, 0.20), "WL2": (0.0, 0.08), "WL3": (1.0, 0.75), "WL4": (0.52, 0.11), "WL5": (0.20, 0.12)}


@cache
def slot_of(letter: str) -> int:
    """The ring slot of a letter: hashed as tokens are."""
    return int(ring_points([letter])[0]) * SLOTS >> 32


@cache
def first_owner(letter: str, method: str) -> int:
    """Who has the letter before any rebalancing."""
    return key_lookup(slot_of(letter), ring_with([START[method]] * REDUCERS))


def counts(letters: list[str] | str, method: str) -> list[int]:
    """How many letters each reducer has before any rebalancing."""
    owners = [first_owner(letter, method) for letter in letters]
    return [owners.count(d) for d in range(REDUCERS)]


def after_run(letters: list[str] | str, method: str, rounds: int = 1) -> float:
    """S of what the reducers processed in a run of actors."""
    return skew(np.array(run_of_actors("".join(letters), slot_of, method, rounds=rounds)))


def search(name: str, seed: int) -> str:
    """A sequence with the starting skews of this workload: change one letter at a time, never for the worse."""
    random = Random(f"{name}-{seed}")
    if name == "WL3":
        return "a" * ITEMS if seed == 0 else random.choice(LETTERS) * ITEMS
    while (letters := _climb(random, name)) is None:
        pass
    random.shuffle(letters)
    return "".join(letters)


def search_alike(name: str, attempts: int = 20, steps: int = 3000) -> str:
    """Of a few climbs from sequences with the starting skews, the one that ends nearest to table 1."""
    found = (_climb_alike(name, seed, steps) for seed in range(attempts))
    return min(found, key=lambda letters: miss(name, letters))


def miss(name: str, letters: list[str] | str) -> float:
    """How far a run with either method ends from table 1, added up."""
    return sum(abs(after_run(letters, m) - wanted) for m, wanted in zip(START, REPORTED[name], strict=True))


def _climb_alike(name: str, seed: int, steps: int) -> str:
    """Change order and letters, among those with the same first owners, never for the worse."""
    random = Random(f"{name}-alike-{seed}")
    letters = list(search(name, seed))
    off = miss(name, letters)
    for _ in range(steps if name != "WL3" else 0):
        changed = random.choice(CHANGES)(random, letters)
        if (now := miss(name, changed)) <= off:
            letters, off = changed, now
    return "".join(letters)


def _swap_places(random: Random, letters: list[str]) -> list[str]:
    i, j = random.randrange(ITEMS), random.randrange(ITEMS)
    changed = list(letters)
    changed[i], changed[j] = changed[j], changed[i]
    return changed


def _change_one(random: Random, letters: list[str]) -> list[str]:
    i = random.randrange(ITEMS)
    return [*letters[:i], random.choice(_alike(letters[i])), *letters[i + 1 :]]


def _change_all(random: Random, letters: list[str]) -> list[str]:
    old = random.choice(letters)
    new = random.choice(_alike(old))
    return [new if letter == old else letter for letter in letters]


CHANGES: tuple[Callable[[Random, list[str]], list[str]], ...] = (_swap_places, _change_one, _change_all)


@cache
def _alike(letter: str) -> str:
    """Letters with the same first owners by both methods."""
    return "".join(x for x in LETTERS if all(first_owner(x, m) == first_owner(letter, m) for m in START))


def _climb(random: Random, name: str) -> list[str] | None:
    """One attempt; many ways to share the letters out cannot be had, because there are only 26."""
    wanted = {method: _shares(random, start) for method, start in zip(START, SKEWS[name], strict=True)}
    usable = [letter for letter in LETTERS if all(wanted[m][first_owner(letter, m)] for m in START)]
    if any(share and d not in {first_owner(x, m) for x in usable} for m in START for d, share in enumerate(wanted[m])):
        return None
    letters = random.choices(usable, k=ITEMS)
    have = {method: counts(letters, method) for method in START}
    off = _off(have, wanted)
    for _ in range(5_000):
        if off == 0:
            return letters
        where, new = random.randrange(ITEMS), random.choice(usable)
        _swap(have, letters[where], new)
        changed = _off(have, wanted)
        if changed <= off:
            letters[where], off = new, changed
        else:
            _swap(have, new, letters[where])
    return None


def _off(have: dict[str, list[int]], wanted: dict[str, list[int]]) -> int:
    return sum(abs(n - w) for method in START for n, w in zip(have[method], wanted[method], strict=True))


def _swap(have: dict[str, list[int]], old: str, new: str) -> None:
    for method in START:
        have[method][first_owner(old, method)] -= 1
        have[method][first_owner(new, method)] += 1


def _shares(random: Random, start: float) -> list[int]:
    """Letters per reducer with this starting skew: W on one of them, the rest dealt out at random below W."""
    ideal = ITEMS // REDUCERS
    most = round(ideal + start * (ITEMS - ideal))
    shares = [0] * REDUCERS
    full = random.randrange(REDUCERS)
    shares[full] = most
    for _ in range(ITEMS - most):
        shares[random.choice([d for d in range(REDUCERS) if shares[d] < most])] += 1
    return shares


def stored() -> dict[str, str]:
    """The fixture."""
    return dict(line.split() for line in FIXTURE.read_text(encoding="utf-8").splitlines())
