"""`make test`: every test, in two processes side by side, because one alone leaves half of a small machine idle.

Each process takes the next file of tests whenever it is through with one, so that both end at about the same time. Each has one Spark
session, if its files need one. With --quick, only the tests that need neither Spark nor Airflow. With other arguments it is plain
pytest: make test ARGS="tests/unit -k ring".

`make test-long` sets REBALANCE_TEST_BUDGET: the same tests with all of their cases (tests/support/budget.py), every planner through ten
intervals on Spark, and a real kill at every moment of every verb.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
QUICK = ("tests/unit", "rebalance")
#: The files that take longest come first, those of seconds last, to fill what is left.
ALL = (
    "tests/spark/test_planners_in_pipeline.py",
    "tests/faults",
    "tests/stack",
    "tests/cluster",
    "tests/browser",
    "tests/spark/test_splits.py",
    "tests/spark",
    "tests/dags",
    "tests/processors",
    *QUICK,
)
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--durations", "25")


def main(arguments: list[str]) -> int:
    """Run all tests, or those asked for; 0 if all passed."""
    if not arguments:
        arguments = [*SIDE_BY_SIDE, *ALL]
    elif arguments == ["--quick"]:
        arguments = [*SIDE_BY_SIDE, *QUICK]
    return subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=PROJECT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
