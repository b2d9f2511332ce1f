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
