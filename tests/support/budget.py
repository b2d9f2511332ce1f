"""How many cases a test tries: enough for a change in `make test`, all of them in `make test-long`, few on imitated processors."""

from __future__ import annotations

import os

#: Set to "long" by `make test-long`, to "brief" where the same tests are run once more under other conditions.
VARIABLE = "REBALANCE_TEST_BUDGET"


def is_long() -> bool:
    """Whether the long run was asked for."""
    return os.environ.get(VARIABLE) == "long"


def cases(default: int, long: int) -> int:
    """How many cases to try in this run: examples of hypothesis, seeds of a loop, intervals."""
    if os.environ.get(VARIABLE) == "brief":
        return max(default // 4, 1)
    return long if is_long() else default


#: Of the kills that `make faults` was told to do, how many in a hundred strike whom; the others, a driver.
SHARES = {"worker": 3, "scheduler": 1}
SEED = int(os.environ.get("REBALANCE_KILL_SEED", "20260101"))


def kills(whom: str, default: int) -> int:
    """How many of them to kill: the share of REBALANCE_KILLS, or some for `make test`."""
    if "REBALANCE_KILLS" not in os.environ:
        return default
    every = int(os.environ["REBALANCE_KILLS"])
    parts = {name: -(-every * share // 100) for name, share in SHARES.items()}
    return parts.get(whom, every - sum(parts.values()))


#: Of the rounds that `make faults` was told to run, how many in a hundred a kind of race has: the first on disk and on a store, with the lock
#: and without, the last on both.
ROUNDS = {"race": 20, "stop": 12, "spark": 4, "whole drivers": 2}


def rounds(kind: str, default: int) -> int:
    """How many rounds of a race: its share of REBALANCE_ROUNDS, or some for `make test`."""
    if "REBALANCE_ROUNDS" not in os.environ:
        return default
    return -(-int(os.environ["REBALANCE_ROUNDS"]) * ROUNDS[kind] // 100)
