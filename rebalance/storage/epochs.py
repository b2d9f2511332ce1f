"""The epoch pointer: which function and which version of the state belong together.

Delta has no transaction over several tables. So whatever a step writes stays invisible until one appended row, the epoch, names the
function version and the state version that go together. Readers take the highest epoch. A crash leaves the old epoch; the
leftovers of the crashed step are rolled back by the next writer (`rebalance.storage.state.roll_back`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

from rebalance.errors import RebalanceError, StalePlanError
from rebalance.partition import PartitionFunction
from rebalance.storage import control

Kind = Literal["start", "process", "migrate"]


@dataclass(frozen=True)
class Epoch:
    """One published state of a pipeline."""

    epoch: int
    #: What published it: the first start, an interval's processing, or a migration.
    kind: Kind
    #: The newest interval whose rows are in the state; empty before the first.
    interval_id: str
    function_version: int
    #: Version of the Delta table `state`; -1 before it exists.
    state_version: int
    #: The plan a `migrate` epoch carried out; empty otherwise.
    plan_id: str
    published_at: datetime


def all_epochs(root: str) -> list[Epoch]:
    """Every epoch, oldest first."""
    return sorted((Epoch(**row) for row in control.rows(root, "epochs")), key=lambda e: e.epoch)


def current_epoch(root: str) -> Epoch | None:
    """The active epoch, or None before the first interval."""
    epochs = all_epochs(root)
    return epochs[-1] if epochs else None


def processed(root: str, interval_id: str) -> Epoch | None:
    """The epoch that the interval's processing published, if it did."""
    found = control.rows(root, "epochs", interval_id=interval_id, kind="process")
    return Epoch(**found[-1]) if found else None


def carried_out(root: str, plan_ids: Sequence[str]) -> Epoch | None:
    """The epoch of the migration that carried out one of these plans, if one did."""
    found = control.rows(root, "epochs", plan_id=list(plan_ids), kind="migrate") if plan_ids else []
    return Epoch(**found[-1]) if found else None


def publish(
    root: str,
    base: Epoch | None,
    *,
    kind: Kind,
    interval_id: str = "",
    function_version: int,
    state_version: int,
    plan_id: str = "",
) -> Epoch:
    """Make a new epoch the active one, provided that `base` still is. The caller holds the writer lock."""
    current = current_epoch(root)
    if (current and current.epoch) != (base and base.epoch):
        raise StalePlanError(
            f"epoch {base.epoch if base else 'none'} was to be followed, but {current.epoch if current else 'none'} is active now. "
            "Run the step again."
        )
    epoch = Epoch(
        epoch=base.epoch + 1 if base else 0,
        kind=kind,
        interval_id=interval_id,
        function_version=function_version,
        state_version=state_version,
        plan_id=plan_id,
        published_at=datetime.now(UTC),
    )
    control.append(root, "epochs", [asdict(epoch)])
    return epoch


def load_function(root: str, version: int) -> PartitionFunction:
    """A stored function."""
    found = control.rows(root, "functions", version=version)
    if not found:
        raise RebalanceError(
            f"function v{version} is not in {root}/functions: the tables were damaged or belong to another pipeline."
        )
    return PartitionFunction.from_record(found[-1])


def store_function(root: str, function: PartitionFunction, interval_id: str) -> PartitionFunction:
    """Store a function under the next version that no plan or epoch has named yet, and return it."""
    named = [
        version
        for table in ("plans", "epochs")
        for version in control.read(root, table, columns=["function_version"])["function_version"].to_pylist()
    ]
    stored = function.with_version(max(named, default=-1) + 1)
    # Replaces what a crash may have left under this number before anything named it.
    control.replace(root, "functions", [{**stored.to_record(), "interval_id": interval_id}], version=stored.version)
    return stored
