"""Commits that somebody else made to the state: adopted if they changed no data, refused otherwise, never undone without a word.

What follows the newest published version is ours, left by a step that died, or foreign. Ours carries the verb that made it. A foreign
OPTIMIZE or VACUUM says itself that it changed no data.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from rebalance.errors import ForeignCommitError
from rebalance.storage import control
from rebalance.storage.control import open_table, table_path, version
from rebalance.storage.delta_log import Action, TableFiles, identity
from rebalance.storage.epochs import Epoch, publish

log = logging.getLogger("rebalance")


def adopted(root: str, epoch: Epoch, *, dry_run: bool = False) -> Epoch:
    """The epoch to build on: a new one if somebody has rewritten the state without changing data since.

    Refuses state that somebody has changed. What we have left ourselves is for `roll_back`. The caller holds the writer lock.
    """
    published = control.largest(root, "epochs", "state_version")
    head = version(root, "state")
    if epoch.state_version < 0 or head <= published:
        return epoch
    found = TableFiles(root, "state")
    entries = {number: found.actions(number) for number in range(published + 1, head + 1)}
    foreign = {number: actions for number, actions in entries.items() if not is_ours(actions)}
    if not foreign or _same_content(found, epoch.state_version, head):
        return epoch
    changing = [number for number, actions in foreign.items() if _changes_data(actions)]
    if changing:
        raise _refusal(root, epoch, changing[0], foreign[changing[0]])
    if len(foreign) < len(entries) or published != epoch.state_version:
        log.warning(
            "the state is taken back from version %d to %d, and with it what somebody else did on top of an unfinished step: %s. "
            "It changed no data",
            head,
            epoch.state_version,
            "; ".join(history_line(number, actions) for number, actions in foreign.items()),
        )
        return epoch
    if dry_run:
        return epoch
    return publish(
        root,
        epoch,
        kind="maintain",
        interval_id=epoch.interval_id,
        function_version=epoch.function_version,
        state_version=head,
    )


def is_ours(actions: list[Action]) -> bool:
    """Whether a commit names the verb that made it: delta-rs stores it as it is, Spark as a text."""
    info = _info(actions)
    try:
        said = json.loads(info.get("userMetadata") or "{}")
    except ValueError:
        said = {}
    return "verb" in info or (isinstance(said, dict) and "verb" in said)


def _same_content(found: TableFiles, one: int, other: int) -> bool:
    """Whether two versions have the same columns, properties and rows in the same files: somebody has put back what was changed."""
    tables = [open_table(found.root, found.table, at) for at in (one, other)]
    if len({(table.schema().to_json(), str(sorted(table.metadata().configuration.items()))) for table in tables}) > 1:
        return False
    first, second = ({identity(add) for add in found.files_at(at).values()} for at in (one, other))
    return first == second


def _changes_data(actions: list[Action]) -> bool:
    """Whether a commit says that it changes rows, or what is asked of readers and writers."""
    return any(
        action.get(kind, {}).get("dataChange", False) for action in actions for kind in ("add", "remove")
    ) or any(kind in action for action in actions for kind in ("metaData", "protocol"))


def _info(actions: list[Action]) -> dict[str, Any]:
    return next((dict(action["commitInfo"]) for action in actions if "commitInfo" in action), {})


def history_line(number: int, actions: list[Action]) -> str:
    """A commit as the table's history shows it: version, time, operation, who."""
    info = _info(actions)
    at = datetime.fromtimestamp(info.get("timestamp", 0) / 1000, UTC)
    who = info.get("userName") or info.get("engineInfo") or "unknown"
    return f"version {number}, {at:%Y-%m-%d %H:%M:%S} UTC, {info.get('operation', 'unknown operation')}, by {who}"


def _refusal(root: str, epoch: Epoch, number: int, actions: list[Action]) -> ForeignCommitError:
    return ForeignCommitError(
        f"somebody else has changed the state after epoch {epoch.epoch} (version {epoch.state_version}): "
        f"{history_line(number, actions)}. Nothing was done, and nothing of it undone. To take it back: "
        f"RESTORE TABLE delta.`{table_path(root, 'state')}` TO VERSION AS OF {epoch.state_version} in Spark SQL, then run again. "
        "If events were wrong, correct them at their source and use `rebalance rewind`. To keep the change, start with an empty table root."
    )
