"""How many cases a test tries: enough for a change in `make test`, all of them in `make test-long`."""

from __future__ import annotations

import os

#: Set to 1 by `make test-long`.
VARIABLE = "REBALANCE_LONG_TESTS"


def is_long() -> bool:
    """Whether the long run was asked for."""
    return os.environ.get(VARIABLE) == "1"


def cases(default: int, long: int) -> int:
    """How many cases to try in this run: examples of hypothesis, seeds of a loop, intervals."""
    return long if is_long() else default
