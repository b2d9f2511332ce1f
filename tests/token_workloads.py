"""The five workloads of the token experiments: 100 letters each, given in the paper only by their starting skews.

`search` finds sequences with those skews by local search; the fixture holds the first of each by seed. Nothing but the starting skew
is looked at, so what rebalancing makes of a sequence is not chosen.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

from rebalance.partition import slots_of
from tests.reference.tokens import key_lookup, ring_with

FIXTURE = Path(__file__).parent / "fixtures" / "token_workloads.txt"
ITEMS = 100
#: Latin letters with and without marks: no unmarked one is on the shortest of the four arcs that doubling starts with.
LETTERS = "".join(chr(code) for code in range(ord("A"), 0x180) if chr(code).isalpha())
REDUCERS = 4
START = {"halving": 64, "doubling": 1}
#: Workload → starting skew for halving and doubling.
SKEWS = {"WL1": (0.0, 1.0), "WL2": (0.0, 0.0), "WL3": (1.0, 1.0), "WL4": (0.8, 0.49), "WL5": (0.2, 0.55)}
#: Table 1 of the paper: skew with load balancing, for halving and doubling.
REPORTED = {"WL1": (0.08, 0.20), "WL2": (0.0, 0.08), "WL3": (1.0, 0.75), "WL4": (0.52, 0.11), "WL5": (0.20, 0.12)}


@cache
def slot_of(letter: str) -> int:
    """The ring slot of a letter, as for any key."""
    return int(slots_of([letter], "string")[0])


@cache
def first_owner(letter: str, method: str) -> int:
    """Who has the letter before any rebalancing."""
    return key_lookup(slot_of(letter), ring_with([START[method]] * REDUCERS))


def counts(letters: list[str] | str, method: str) -> list[int]:
    """How many letters each reducer has before any rebalancing."""
    owners = [first_owner(letter, method) for letter in letters]
    return [owners.count(d) for d in range(REDUCERS)]


def search(name: str, seed: int) -> str:
    """A sequence with the starting skews of this workload: change one letter at a time, never for the worse."""
    random = Random(f"{name}-{seed}")
    if name == "WL3":
        return "a" * ITEMS if seed == 0 else random.choice(LETTERS) * ITEMS
    while (letters := _climb(random, name)) is None:
        pass
    random.shuffle(letters)
    return "".join(letters)


def _climb(random: Random, name: str) -> list[str] | None:
    """One attempt; some ways to share the letters out cannot be had, because a short arc has few letters."""
    wanted = {method: _shares(random, skew) for method, skew in zip(START, SKEWS[name], strict=True)}
    letters = random.choices(LETTERS, k=ITEMS)
    have = {method: counts(letters, method) for method in START}
    off = _off(have, wanted)
    for _ in range(20_000):
        if off == 0:
            return letters
        where, new = random.randrange(ITEMS), random.choice(LETTERS)
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


def _shares(random: Random, skew: float) -> list[int]:
    """Letters per reducer with this skew: W on one of them, the rest dealt out at random below W."""
    ideal = ITEMS // REDUCERS
    most = round(ideal + skew * (ITEMS - ideal))
    shares = [0] * REDUCERS
    full = random.randrange(REDUCERS)
    shares[full] = most
    for _ in range(ITEMS - most):
        shares[random.choice([d for d in range(REDUCERS) if shares[d] < most])] += 1
    return shares


def stored() -> dict[str, str]:
    """The fixture."""
    return dict(line.split() for line in FIXTURE.read_text(encoding="utf-8").splitlines())
