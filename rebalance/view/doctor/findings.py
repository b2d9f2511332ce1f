"""What a check finds, and how checks are run: side by side, none of them able to stop or to hold up another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rebalance.errors import RebalanceError

State = Literal["ok", "warn", "fail", "skipped"]
#: Seconds after which a check is given up. Those that ask over a network have shorter limits of their own.
PATIENCE = 15.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: State
    #: What was seen.
    seen: str
    #: How to mend it, where there is something to mend.
    mend: str = ""


@dataclass(frozen=True)
class Check:
    """Something to look at; it may find several things."""

    name: str
    look: Callable[[], Sequence[Finding]]


def run_checks(checks: Sequence[Check], hide: Sequence[str] = (), patience: float = PATIENCE) -> list[Finding]:
    """Run all checks at once; findings in the order of the checks, with every one of the words to hide taken out."""
    found: dict[int, Sequence[Finding]] = {}

    def run(number: int, check: Check) -> None:
        try:
            found[number] = check.look()
        except Exception as error:
            found[number] = [_broken(check.name, error)]

    # Daemons, because what hangs must not keep the command from ending.
    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(checks)]
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answers = [found.get(number, [_silent(check.name, patience)]) for number, check in enumerate(checks)]
    return [_without(finding, hide) for findings in answers for finding in findings]


def _broken(name: str, error: Exception) -> Finding:
    """What a check that did not get to its end says."""
    said = str(error).strip().partition("\n")[0][:400]
    if isinstance(error, RebalanceError):
        # Our own errors say first what is wrong, then what to change.
        seen, _, mend = said.partition(". ")
        return Finding(name, "fail", seen, mend)
    return Finding(
        name, "fail", f"{type(error).__name__}: {said}", "The check itself could not be done; what it says tells why."
    )


def _silent(name: str, patience: float) -> Finding:
    return Finding(
        name,
        "fail",
        f"no answer within {patience:g} s",
        "Something hangs: a network, a mounted disk, a program. Steps would hang there too.",
    )


def _without(finding: Finding, hide: Sequence[str]) -> Finding:
    seen, mend = finding.seen, finding.mend
    for word in filter(None, hide):
        seen, mend = seen.replace(word, "***"), mend.replace(word, "***")
    return Finding(finding.name, finding.state, seen, mend)
