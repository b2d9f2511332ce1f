"""A parameter without a meaning is refused: the error names it, says what it is and what it may be."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from rebalance.errors import ConfigError
from rebalance.planners.registry import make_planner

SPLITTING = ("pkg", "dchoices", "wchoices", "porc", "cg", "ch", "potc", "sg")
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("frugal", {"max_keys": 0}, "max_keys is 0; it must be at least 1"),
    ("hybrid", {"merge_below": 2.0}, "merge_below is 2.0 and split_above is 1.0; merge_below must be above 0"),
    ("hybrid", {"merge_below": 0}, "merge_below is 0 and split_above is 1.0; merge_below must be above 0"),
    *((name, {"max_splits": 0}, "max_splits is 0; it must be at least 1") for name in SPLITTING),
    *((name, {"epsilon": 0}, "epsilon is 0; it must be above 0") for name in ("porc", "ch", "cg", "dchoices")),
    *((name, {"epsilon": inf}, "epsilon is inf; it must be above 0") for name in ("porc", "ch", "cg", "dchoices")),
    *((name, {"theta": 0}, "theta is 0; it must be above 0") for name in ("dchoices", "wchoices")),
    ("cg", {"alpha": 0}, "alpha is 0; it must be at least 1"),
    ("cg", {"busy": 0.5}, "idle is 0.75 and busy is 0.5; idle must be above 0 and below busy"),
    *((name, {"tau": -1}, "tau is -1; it must be a number of at least 0") for name in ("halving", "doubling")),
    *(
        (name, {"rounds": 0}, "rounds is 0; it must be a whole number from 1 to 100")
        for name in ("halving", "doubling")
    ),
    ("halving", {"tokens": 0}, "tokens is 0; it must be a power of two from 1 to 4096"),
    ("halving", {"tokens": 3}, "tokens is 3; it must be a power of two from 1 to 4096"),
    ("doubling", {"tokens": 2}, "no parameter 'tokens'"),
    ("ststream", {"theta": 1.0}, "theta is 1.0; it must be at least 0 and below 1"),
    ("ststream", {"p": 2}, "p is 2; it must be from 0 to 1"),
    ("ststream", {"q": -1}, "q is -1; it must be from 0 to 1"),
]


@pytest.mark.parametrize(("name", "parameters", "message"), BAD)
def test_a_parameter_without_a_meaning_is_refused(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_planner(name, parameters)
