"""What can go wrong, one class per kind of trouble.

Every message has three parts: what is wrong, the numbers, and what to change.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Which extra of this package brings a module.
EXTRAS = {
    "airflow": "airflow",
    "delta": "spark",
    "great_expectations": "quality",
    "matplotlib": "pictures",
    "pandas": "spark",
    "pyspark": "spark",
}


class RebalanceError(Exception):
    """Root of everything this package raises on purpose."""

    #: Whether trying again cannot help: somebody has to change something first.
    final: ClassVar[bool] = False
    #: What a person does about it, for the documentation; the message says it with this case's numbers.
    remedy: ClassVar[str] = "Do what the message says."


class ConfigError(RebalanceError):
    """The pipeline file asks for something that cannot be; nothing was read or written."""

    final = True
    remedy = "Change the knob that the message names; it says what the knob may be."


class SourceError(RebalanceError):
    """The events cannot be used as they are: missing, wrongly typed, null keys."""

    final = True
    remedy = "Correct the source or the section [source]; on_bad_rows = 'quarantine' puts single bad rows aside."


class OrderError(RebalanceError):
    """An interval was asked for that does not follow the ones already processed."""

    final = True
    remedy = "Run the missing intervals first, or leave them out by name: rebalance run --from START --skip."


class SkippedError(OrderError):
    """An interval was asked for that was left out on purpose."""

    remedy = "Nothing, if it was meant. To have its results after all, rewind to before it and run from there."


class NotClosedError(RebalanceError):
    """The interval may still get events: it has not ended, or its grace has not passed. Time alone cures it."""

    remedy = "Wait, or insist with --now, or shorten interval.grace."


class QualityError(RebalanceError):
    """The statistics failed their checks; nothing was planned on them."""

    final = True
    remedy = "Look at the failed expectations in quality_runs. Correct the source and run again, or change the section [quality]."


class PlannerError(RebalanceError):
    """A planner returned something that is not a valid function. This is a bug in the planner."""

    final = True
    remedy = "Use another planner until the bug is mended. Results come all the same."


class StalePlanError(RebalanceError):
    """The plan changes a function that is no longer the active one, or the state has changed since it was counted."""

    final = True
    remedy = "Let the next interval plan again; nothing has to be undone."


class OvertakenError(RebalanceError):
    """Another process has published since this one began: what this one did counts for nothing."""

    final = True
    remedy = "Look at rebalance status; run the step again only if the interval is not done."


class ForeignCommitError(RebalanceError):
    """Somebody else has changed the state; it is neither used nor undone before a person has looked at it."""

    final = True
    remedy = "Look at the commit that the message names; the message says how to take it back."


class DamagedError(RebalanceError):
    """A file of the events or of the tables is cut off, overwritten or gone; nothing was built on it."""

    final = True
    remedy = "Bring the file that the message names back from a copy; the message says what else helps."


class MigrationError(RebalanceError):
    """The moved state did not verify; the old epoch is still the active one."""

    remedy = "Nothing: the next try starts from the old epoch. If it stays, use planning.mode = 'shadow' and look at the state's history."


class OperatorError(RebalanceError):
    """An operator broke the contract of `rebalance.operators`."""

    final = True
    remedy = "Correct the operator; the message says which rule it broke."


class LockedError(RebalanceError):
    """Another process is writing to the same tables."""

    remedy = "Wait for the other process, or end it."


class StoreError(RebalanceError):
    """An object store does not answer, or does not let us in."""

    remedy = "Look at the network, the store and the credentials; the step goes on where it was."


class EnvironmentMissingError(RebalanceError):
    """Something outside Python is missing: Java, Delta's jars, disk space."""

    remedy = "Install what the message names."


@contextmanager
def extras_named() -> Iterator[None]:
    """Where a module is missing that an extra brings, say which extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        raise EnvironmentMissingError(
            f"{module} is not installed, and this needs it. Install rebalance with the extra '{EXTRAS[module]}', from where you have it: "
            f"pip install 'PATH[{EXTRAS[module]}]', with the checkout or the wheel as PATH."
        ) from None
