"""What the exit code says: whether it is done, and if not, who can help."""

from __future__ import annotations

from rebalance import errors
from rebalance.errors import RebalanceError

DONE, FAULT, WRONG, LATER, PERSON, INTERRUPTED = 0, 1, 2, 3, 4, 130

#: In words, for `rebalance --help`. A fault of this program itself ends with its traceback and Python's own 1.
CODES = {
    DONE: "done; of run: all results are there, also where an interval was not planned, which it says",
    FAULT: "of doctor: something fails; of all others: a fault of this program, with its traceback",
    WRONG: "asked for what cannot be: a wrong option, pipeline file, interval, key or plan; nothing was changed",
    LATER: "not now: the tables are locked, the interval is not closed, the store does not answer; try again later",
    PERSON: "somebody has to look first: events, tables or checks are not as they should be, or something is missing here",
    INTERRUPTED: "interrupted by Ctrl-C; what was published counts",
}

#: By the kind of error; every other one is a wrong use.
_CODE_OF: dict[type[RebalanceError], int] = {
    **dict.fromkeys((errors.LockedError, errors.NotClosedError, errors.OvertakenError, errors.StoreError), LATER),
    **dict.fromkeys(
        (
            errors.DamagedError,
            errors.EnvironmentMissingError,
            errors.ForeignCommitError,
            errors.MigrationError,
            errors.OperatorError,
            errors.PlannerError,
            errors.QualityError,
            errors.SourceError,
        ),
        PERSON,
    ),
}


def code_of(error: RebalanceError) -> int:
    """The exit code for an error.

    >>> code_of(errors.LockedError()), code_of(errors.ConfigError())
    (3, 2)
    """
    return next((_CODE_OF[kind] for kind in type(error).__mro__ if kind in _CODE_OF), WRONG)
