"""The epoch pointer: which function and which version of the state belong together.

Delta has no transaction over several tables. So whatever a step writes stays invisible until one appended row, the epoch, names the
function version and the state version that go together. Readers take the highest epoch. A crash leaves the old epoch; the
leftovers of the crashed step are rolled back by the next writer (`rebalance.storage.state.roll_back`).

An epoch is published by compare-and-swap: as the very next version of its table, or not at all. So of two writers only one wins, on any
store, lock or no lock, and one that wakes up after its retry is through changes nothing.

A rewind is an epoch too. It makes an earlier one count again, with its function and its state, and undoes those in between
(`in_force`); rewinding to one of them brings it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

from rebalance.errors import OvertakenError, RebalanceError
from rebalance.partition import PartitionFunction
from rebalance.storage import control

Kind = Literal["start", "process", "migrate", "rewind", "adopt", "maintain"]


@dataclass(frozen=True)
class Epoch:
    """One published state of a pipeline."""

    epoch: int
    #: What published it: the first start, an interval's processing, a migration, a person who rewound or adopted, or maintenance.
    kind: Kind
    #: The newest interval whose rows are in the state; empty before the first.
    interval_id: str
    function_version: int
    #: Version of the Delta table `state`; -1 before it exists.
    state_version: int
    #: The plan a `migrate` epoch carried out; empty otherwise.
    plan_id: str
    #: The epoch that a `rewind` goes on from; -1 otherwise.
    rewound_to: int
    #: Of a `process` epoch: the first of the intervals that were left out on purpose just before its own; empty if none was.
    skipped_from: str
    #: What the state means: key, interval, operator, as JSON (`rebalance.storage.meaning`).
    meaning: str
    published_at: datetime


def all_epochs(root: str) -> list[Epoch]:
    """Every epoch, oldest first."""
    return sorted((Epoch(**row) for row in control.rows(root, "epochs")), key=lambda e: e.epoch)


def current_epoch(root: str) -> Epoch | None:
    """The active epoch, or None before the first interval."""
    newest = newest_epochs(root, 1)
    return newest[-1] if newest else None


def find_epoch(root: str, number: int) -> Epoch | None:
    """An epoch by its number."""
    found = control.rows(root, "epochs", epoch=number)
    return Epoch(**found[-1]) if found else None


def newest_epochs(root: str, count: int) -> list[Epoch]:
    """The newest epochs, oldest first; the last one is active."""
    newest = control.largest(root, "epochs", "epoch")
    numbers = [] if newest is None else list(range(max(newest + 1 - count, 0), newest + 1))
    found = control.rows(root, "epochs", epoch=numbers) if numbers else []
    return sorted((Epoch(**row) for row in found), key=_number)


def in_force(root: str) -> list[Epoch]:
    """The epochs that led to the active one, oldest first; those that a rewind has undone are left out."""
    epochs = all_epochs(root)
    return line_to(epochs, epochs[-1]) if epochs else []


def line_to(epochs: Sequence[Epoch], last: Epoch) -> list[Epoch]:
    """The epochs that led to one of them, oldest first, and that one."""
    by_number = {epoch.epoch: epoch for epoch in epochs}
    line: list[Epoch] = []
    found: Epoch | None = last
    while found is not None:
        line.append(found)
        found = by_number.get(found.rewound_to if found.kind == "rewind" else found.epoch - 1)
    return line[::-1]


def before_interval(line: Sequence[Epoch], interval_id: str) -> list[Epoch]:
    """The part of a line of epochs before anything was done for an interval, its plan included, which is made anew."""
    at = next(
        (
            number
            for number, epoch in enumerate(line)
            if epoch.interval_id >= interval_id or (epoch.kind == "migrate" and epoch.plan_id.startswith(interval_id))
        ),
        len(line),
    )
    return list(line[:at])


def newest_act(epochs: Sequence[Epoch]) -> Epoch:
    """The newest epoch that means something else than the one before it: maintenance changes no row."""
    return next((epoch for epoch in reversed(epochs) if epoch.kind != "maintain"), epochs[-1])


def processed(root: str, interval_id: str) -> Epoch | None:
    """The epoch that the interval's processing published, if it did and counts."""
    return _newest_in_force(root, kind="process", interval_id=interval_id)


def processed_ids(root: str, among: Sequence[str] | None = None) -> list[str]:
    """The intervals whose processing counts, or those of them that are asked for, oldest first."""
    if among is None:
        return [epoch.interval_id for epoch in in_force(root) if epoch.kind == "process"]
    return sorted({epoch.interval_id for epoch in _in_force(root, kind="process", interval_id=list(among))})


def skipped_by(root: str, interval_id: str) -> Epoch | None:
    """The epoch whose interval was processed without this one, if it was left out on purpose and that counts."""
    over = [epoch for epoch in in_force(root) if epoch.skipped_from and epoch.skipped_from <= interval_id]
    return max((epoch for epoch in over if interval_id < epoch.interval_id), key=_number, default=None)


def carried_out(root: str, plan_ids: Sequence[str]) -> Epoch | None:
    """The epoch of the migration that carried out one of these plans, if one did and counts."""
    return _newest_in_force(root, kind="migrate", plan_id=list(plan_ids)) if plan_ids else None


def _newest_in_force(root: str, **where: str | Sequence[str]) -> Epoch | None:
    """The newest of some epochs that no rewind has undone."""
    return max(_in_force(root, **where), key=_number, default=None)


def _in_force(root: str, **where: str | Sequence[str]) -> list[Epoch]:
    """Those of some epochs that no rewind has undone: the rewinds tell, the other epochs are not read."""
    found = [Epoch(**row) for row in control.rows(root, "epochs", **where)]
    undone = undone_by([Epoch(**row) for row in control.rows(root, "epochs", kind="rewind")]) if found else []
    return [epoch for epoch in found if not any(epoch.epoch in numbers for numbers in undone)]


def _number(epoch: Epoch) -> int:
    return epoch.epoch


def undone_by(rewinds: Sequence[Epoch]) -> list[range]:
    """The epochs that rewinds have undone and that none has brought back."""
    undone: list[range] = []
    for rewind in sorted(rewinds, key=lambda epoch: epoch.epoch, reverse=True):
        if not any(rewind.epoch in numbers for numbers in undone):
            undone.append(range(rewind.rewound_to + 1, rewind.epoch))
    return undone


def require_active(root: str, base: Epoch | None) -> None:
    """Refuse to go on if another epoch has been published since `base`."""
    current = current_epoch(root)
    if (current and current.epoch) != (base and base.epoch):
        raise _overtaken(base, current)


def publish(
    root: str,
    base: Epoch | None,
    *,
    kind: Kind,
    interval_id: str = "",
    function_version: int,
    state_version: int,
    plan_id: str = "",
    rewound_to: int = -1,
    skipped_from: str = "",
    meaning: str | None = None,
) -> Epoch:
    """Make a new epoch the active one, provided that `base` still is. What the state means stays as it was unless it is said."""
    control.create(root, "epochs")
    # Seen first: whatever is published from here on makes the swap fail.
    seen = control.version(root, "epochs")
    require_active(root, base)
    epoch = Epoch(
        epoch=base.epoch + 1 if base else 0,
        kind=kind,
        interval_id=interval_id,
        function_version=function_version,
        state_version=state_version,
        plan_id=plan_id,
        rewound_to=rewound_to,
        skipped_from=skipped_from,
        meaning=meaning if meaning is not None else base.meaning if base else "{}",
        published_at=datetime.now(UTC),
    )
    if not control.append_at(root, "epochs", [asdict(epoch)], seen + 1):
        raise _overtaken(base, current_epoch(root))
    return epoch


def _overtaken(base: Epoch | None, current: Epoch | None) -> OvertakenError:
    return OvertakenError(
        f"epoch {base.epoch if base else 'none'} was to be followed, but {current.epoch if current else 'none'} is active now: another "
        "process was faster. Nothing was published here. Look at `rebalance status`; if the interval is not done, run the step again."
    )


def load_function(root: str, version: int) -> PartitionFunction:
    """A stored function."""
    found = control.rows(root, "functions", version=version)
    if not found:
        raise RebalanceError(
            f"function v{version} is not in {root}/functions: maintenance has removed it ([retention] functions), or the tables were "
            "damaged or belong to another pipeline."
        )
    return PartitionFunction.from_record(found[-1])


def store_function(root: str, function: PartitionFunction, interval_id: str) -> PartitionFunction:
    """Store a function under the next version that no plan or epoch has named yet, and return it."""
    named = [control.largest(root, table, "function_version") for table in ("plans", "epochs")]
    stored = function.with_version(max((version for version in named if version is not None), default=-1) + 1)
    # Replaces what a crash may have left under this number before anything named it.
    control.replace(root, "functions", [{**stored.to_record(), "interval_id": interval_id}], version=stored.version)
    return stored
