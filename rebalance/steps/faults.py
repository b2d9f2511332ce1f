"""Named moments inside a step, so that a test can kill the process at each of them.

A test sets REBALANCE_KILL_AT to a moment's name; the process then dies there as if its power were cut. Unset, this does nothing.
"""

from __future__ import annotations

import os
import signal

KILL_AT = "REBALANCE_KILL_AT"


def checkpoint(moment: str) -> None:
    """A moment at which everything written so far must survive the death of the process."""
    if os.environ.get(KILL_AT) == moment:
        os.kill(os.getpid(), signal.SIGKILL)
