"""What no planner can be asked for is refused in one sentence: the planner, the parameter, its value and what it may be."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from rebalance.errors import ConfigError
from rebalance.planners.registry import PLANNERS, make_planner

FANG = ("llfd", "mintable", "minmig", "mixed", "mixedbf")
BY_GAMMA = ("minmig", "mixed", "mixedbf")
GEDIK = ("scan", "redist", "readj")
SPLITTING = ("pkg", "dchoices", "wchoices", "porc", "cg", "ch", "potc", "sg")

#: Planners, the parameter that is wrong, and wrong values of it.
WRONG: list[tuple[tuple[str, ...], str, list[Any]]] = [
    (("frugal",), "max_keys", [0]),
    (("frugal",), "effort", ["some", 3]),
    (FANG, "r", [-1, 33, 1.5, "4", True]),
    (BY_GAMMA, "beta", [0, -1.0, float("inf"), float("nan"), "x"]),
    (GEDIK, "alpha", [0.9, [1.2, 1.2], [1.2, 1.2, 0.5], float("inf"), "abc", None]),
    (GEDIK, "sigma", [0, 1.5, float("nan"), "x"]),
    (GEDIK, "resources", ["LL", "LXL", "LLQ", 5]),
    (GEDIK, "utility", ["apm", 1]),
    (("readj",), "c", [0, 2.5]),
    (("halving", "doubling"), "tau", [-0.1, float("nan")]),
    (("halving", "doubling"), "rounds", [0, 101, 1.5]),
    (("halving",), "tokens", [0, 48, "64"]),
    (("ststream",), "theta", [-0.1, 1]),
    (("ststream",), "p", [-1, 2]),
    (("ststream",), "q", [-1, 2]),
    (("ststream",), "cut", ["half", 1]),
    (("hybrid",), "merge_below", [0, 2.0]),
    (("hybrid",), "split_above", [0.1, "x"]),
    (SPLITTING, "max_splits", [0, -1, 2.5]),
    (("dchoices", "porc", "cg", "ch"), "epsilon", [0, -1.0, float("inf")]),
    (("dchoices", "wchoices"), "theta", [0, -1.0]),
    (("cg",), "alpha", [0, 1.5]),
    (("cg",), "idle", [0, 0.9]),
    (("cg",), "busy", [0.5, "x"]),
    (("cg",), "settle", ["yes", 1]),
]


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [(name, parameter, value) for names, parameter, values in WRONG for name in names for value in values],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, parameter: str, value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        make_planner(name, {parameter: value})
    sentence = str(refused.value)
    assert sentence.startswith(f"planner {name!r}: ")
    assert parameter in sentence
    assert str(value) in sentence


def test_every_parameter_of_every_planner_has_values_that_are_refused() -> None:
    tried = {(name, parameter) for names, parameter, _ in WRONG for name in names}
    assert tried == {(name, field.name) for name, planner in PLANNERS.items() for field in fields(planner)}


def test_the_sentence_names_the_planner_once_and_says_what_the_value_may_be() -> None:
    with pytest.raises(ConfigError, match=r"^planner 'readj': c is 0; it must be at least 1"):
        make_planner("readj", {"c": 0})
    with pytest.raises(ConfigError, match=r"^planner 'mixed': r is 'x'; it must be a whole number or left out$"):
        make_planner("mixed", {"r": "x"})
    with pytest.raises(ConfigError, match=r"^planner 'scan': alpha is None; it must be a number or a list of numbers$"):
        make_planner("scan", {"alpha": None})
    with pytest.raises(
        ConfigError, match=r"^planner 'cg': idle is 0.75 and busy is 0.5; idle must be above 0 and below busy"
    ):
        make_planner("cg", {"busy": 0.5})


def test_an_unknown_parameter_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"^planner 'mixed' has no parameter 'bta'. Did you mean 'beta'\?"):
        make_planner("mixed", {"bta": 1})
