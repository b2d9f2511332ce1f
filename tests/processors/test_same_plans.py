"""Every planner plans the same on every processor."""

from __future__ import annotations

import json

import pytest

from tests.support.processors import EVERY_PROCESSOR, FEATURES, NO_MACHINE_CODE, OLDEST, PROCESSORS, run


def digests(sizes: list[str], settings: dict[str, str]) -> dict[str, str]:
    done = run(["-m", "tests.support.plan_digests", *sizes], settings)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    """The plans of this machine as it is."""
    return digests(["few", "tiny", "small", "large"], {})


@EVERY_PROCESSOR
def test_every_planner_plans_the_same(here: dict[str, str], processor: str) -> None:
    sizes = ["few"] if processor == NO_MACHINE_CODE else ["few", "tiny", "small", "large"]
    there = digests(sizes, PROCESSORS[processor])
    assert there
    assert {name for name, digest in there.items() if digest != here[name]} == set()


def test_the_imitations_are_real() -> None:
    """On a processor with more than the least, some of numpy's functions differ in the last bit when it is told to use less."""
    if not FEATURES:
        pytest.skip("this processor has nothing beyond the least that numpy needs, so there is nothing to turn off")
    code = (
        "import numpy as np; rng = np.random.default_rng(0); x = rng.random(10_000);"
        "print(hash(np.power(x, 0.3).tobytes() + np.log1p(x).tobytes() + np.argsort(x.round(2)).tobytes()))"
    )
    found = {run(["-c", code], {"PYTHONHASHSEED": "0", **more}).stdout for more in ({}, PROCESSORS[OLDEST])}
    assert len(found) == 2
