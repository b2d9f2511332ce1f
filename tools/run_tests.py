"""`make test`: every test, in two processes side by side, because one alone leaves half of a small machine idle.

With arguments it is plain pytest: make test ARGS="tests/unit -k ring".
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
#: Shown as they run; they take longest.
SHOWN = ("tests/spark",)
#: Run beside them, shown when they are done.
BESIDE = ("tests/unit", "rebalance", "tests/dags", "tests/faults", "tests/browser")


def main(arguments: list[str]) -> int:
    """Run all tests, or those asked for; 0 if all passed."""
    pytest = [sys.executable, "-m", "pytest"]
    if arguments:
        return subprocess.call([*pytest, *arguments], cwd=PROJECT)
    print(f"{' '.join(SHOWN)} now; beside them, shown at the end: {' '.join(BESIDE)}", flush=True)
    with tempfile.TemporaryFile("w+") as output:
        beside = subprocess.Popen([*pytest, *BESIDE], cwd=PROJECT, stdout=output, stderr=subprocess.STDOUT)
        try:
            shown = subprocess.call([*pytest, *SHOWN], cwd=PROJECT)
            code = beside.wait()
        except BaseException:
            beside.terminate()
            raise
        output.seek(0)
        print(output.read(), flush=True)
    # pytest's 5 says that no test was found, which is no success either.
    return shown or code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
