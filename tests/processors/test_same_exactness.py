"""On every processor planners agree with their plain transcriptions, keep every law and reach the figures that tests hold."""

from __future__ import annotations

import pytest

from tests.support.budget import is_long
from tests.support.processors import NO_MACHINE_CODE, OLDEST, PROCESSORS, run

#: Planners against their plain transcriptions, against every law on the corners of the problem, and the figures that tests hold.
FILES = [
    "gedik_exact",
    "llfd",
    "mixed_family",
    "mixed_compact",
    "hlhe",
    "spread",
    "choices",
    "cg",
    "delegation",
    "tokens",
    "ststream",
    "token_results",
    "grouping_results",
    "grouping_schemes",
    "contract",
]


#: Those in between plan the same, which `test_same_plans` shows, so that the two ends are enough but for a long run.
CHOSEN = list(PROCESSORS) if is_long() else [OLDEST, NO_MACHINE_CODE]


@pytest.mark.parametrize("processor", CHOSEN)
def test_every_planner_is_as_exact(processor: str) -> None:
    # Tuple by tuple, without a compiler, the simulations would take minutes.
    chosen = "holds_with or small_cases" if processor == NO_MACHINE_CODE else "not million and not test_law"
    tests = [f"tests/unit/test_{name}.py" for name in FILES]
    done = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *tests], PROCESSORS[processor])
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
