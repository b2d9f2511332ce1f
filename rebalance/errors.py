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


class ConfigError(RebalanceError):
    """The pipeline file asks for something that cannot be; nothing was read or written."""

    final = True


class SourceError(RebalanceError):
    """The events cannot be used as they are: missing, wrongly typed, null keys."""

    final = True


class OrderError(RebalanceError):
    """An interval was asked for that does not follow the ones already processed."""

    final = True


class SkippedError(OrderError):
    """An interval was asked for that was left out on purpose."""


class NotClosedError(RebalanceError):
    """The interval may still get events: it has not ended, or its grace has not passed. Time alone cures it."""


class QualityError(RebalanceError):
    """The statistics failed their checks; nothing was planned on them."""

    final = True


class PlannerError(RebalanceError):
    """A planner returned something that is not a valid function. This is a bug in the planner."""

    final = True


class StalePlanError(RebalanceError):
    """The plan changes a function that is no longer the active one, or the state has changed since it was counted."""

    final = True


class OvertakenError(RebalanceError):
    """Another process has published since this one began: what this one did counts for nothing."""

    final = True


class ForeignCommitError(RebalanceError):
    """Somebody else has changed the state; it is neither used nor undone before a person has looked at it."""

    final = True


class DamagedError(RebalanceError):
    """A file of the events or of the tables is cut off, overwritten or gone; nothing was built on it."""

    final = True


class MigrationError(RebalanceError):
    """The moved state did not verify; the old epoch is still the active one."""


class OperatorError(RebalanceError):
    """An operator broke the contract of `rebalance.operators`."""

    final = True


class LockedError(RebalanceError):
    """Another process is writing to the same tables."""


class StoreError(RebalanceError):
    """An object store does not answer, or does not let us in."""


class EnvironmentMissingError(RebalanceError):
    """Something outside Python is missing: Java, Delta's jars, disk space."""


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
