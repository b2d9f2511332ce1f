"""One key: where it goes and why, what it was in the last intervals, and every plan that has moved it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rebalance.documents.plain import Document, document
from rebalance.documents.words import bytes_in_words, percent, several
from rebalance.errors import RebalanceError
from rebalance.partition import Key, PartitionFunction, slots_of
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import parse_start
from rebalance.storage import control
from rebalance.storage.epochs import carried_out
from rebalance.storage.history import IntervalRecord, read_history
from rebalance.storage.reader import open_tables

_HISTORY = ("id", "start", "tuples", "cost", "share", "channel", "held_bytes")


@document
def key_document(pipeline: Pipeline, key_text: str, last: int = 24) -> Document:
    """Everything that is known of a key, given as it stands in the source, with its last processed intervals."""
    root, function = pipeline.tables, open_tables(pipeline.tables).function
    key = _as_key(key_text, function)
    slot = int(slots_of([key], function.key_type)[0])
    found: Document = {
        "name": pipeline.name,
        "key": str(key),
        "slot": slot,
        "channel": int(function.channel_of([key])[0]),
        "ring_channel": int(function.slots[slot]),
        "has_route": key in function.routes,
        "shares": [{"channel": share.channel, "share": share.share} for share in function.splits.get(key, ())],
        "moves": _moves(root, str(key)),
        "history": _history(root, key, slot, read_history(root, last)),
    }
    newest = found["history"]["id"][-1:]
    counted = control.rows(root, "interval_stats", columns=["statistics"], interval_id=newest) if newest else []
    return {**found, "why": " ".join(_why(found, all_named=not counted or counted[-1]["statistics"] == "exact"))}


def _as_key(text: str, function: PartitionFunction) -> Key:
    if function.key_type == "string":
        return text
    try:
        return int(text)
    except ValueError:
        raise RebalanceError(f"{text!r} is not a key of this pipeline: its keys are integers.") from None


def _moves(root: str, key: str) -> list[Document]:
    """Every move of the key that was carried out, oldest first, with what the key was like then and why its plan was made."""
    planned = control.rows(root, "plan_moves", key=key)
    done = {epoch.plan_id: epoch.epoch for epoch in carried_out(root, [move["plan_id"] for move in planned])}
    moves = [move for move in planned if move["plan_id"] in done]
    if not moves:
        return []
    columns, ids = ["plan_id", "planner", "reason"], [move["plan_id"] for move in moves]
    plans = {plan["plan_id"]: plan for plan in control.rows(root, "plans", columns=columns, plan_id=ids)}
    moves.sort(key=lambda move: done[move["plan_id"]])
    return [
        {
            "interval": move["interval_id"],
            "from": move["from_channel"],
            "to": move["to_channel"],
            "cost": move["cost"],
            "state_bytes": move["state_bytes"],
            "planner": plans.get(move["plan_id"], {}).get("planner"),
            "reason": plans.get(move["plan_id"], {}).get("reason"),
        }
        for move in moves
    ]


def _history(root: str, key: Key, slot: int, found: list[IntervalRecord]) -> Document:
    """The key in some intervals, in lists over them; zeros where it had no events and held no state."""
    if not found:
        return {name: [] for name in _HISTORY}
    columns = ["interval_id", "tuples", "cost", "held_bytes"]
    between = (found[0].interval_id, found[-1].interval_id)
    stats = {
        row["interval_id"]: row for row in control.rows(root, "key_stats", columns=columns, between=between, key=key)
    }
    nothing = {"tuples": 0, "cost": 0.0, "held_bytes": 0}
    channels = _channels(root, {record.function_version for record in found}, str(key), slot)
    rows = []
    for record in found:
        row, load = stats.get(record.interval_id, nothing), sum(record.loads)
        rows.append(
            {
                "id": record.interval_id,
                "start": int(parse_start(record.interval_id).timestamp()),
                **{name: row[name] for name in nothing},
                "share": row["cost"] / load if load else None,
                "channel": channels.get(record.function_version),
            }
        )
    return {name: [row[name] for row in rows] for name in _HISTORY}


def _channels(root: str, versions: set[int | None], key: str, slot: int) -> dict[int | None, int]:
    """Where some functions send a key; those that maintenance has removed are left out. Only what concerns the key is taken from them."""
    known = sorted(version for version in versions if version is not None)
    if not known:
        return {}
    columns = ["version", "slots", "routes", "splits"]
    functions = control.read(root, "functions", columns=columns, version=known)
    found: dict[int | None, int] = {}
    for row, version in enumerate(functions["version"].to_pylist()):
        entries = [_entry(functions[name][row].values, key) for name in ("splits", "routes")]
        ring = functions["slots"][row].values[slot].as_py()
        found[version] = next((channel for channel in entries if channel is not None), ring)
    return found


def _entry(entries: Any, key: str) -> int | None:
    """The first channel that a table of routes or splits has for a key."""
    keys = entries.field("key").to_pylist()
    return int(entries.field("channel")[keys.index(key)].as_py()) if key in keys else None


def _why(found: Document, *, all_named: bool) -> Iterator[str]:
    """Where the key goes, why, and what it was in the newest interval, in sentences."""
    key, channel, moves, history = found["key"], found["channel"], found["moves"], found["history"]
    if found["shares"]:
        parts = ", ".join(f"{part['channel']} ({part['share']:.0%})" for part in found["shares"])
        yield f"{key!r} is split over the channels {parts}; its merged state lives on {channel}."
    elif found["has_route"]:
        yield (
            f"{key!r} goes to channel {channel} by a route of its own; the ring alone would send it to {found['ring_channel']} "
            f"(slot {found['slot']})."
        )
    else:
        yield f"{key!r} goes to channel {channel} by the ring (slot {found['slot']}); it has no route of its own."
    if moves:
        newest = moves[-1]
        last = f", the last of {len(moves):,} moves" if len(moves) > 1 else ""
        yield f"The plan for {newest['interval']} moved it from {newest['from']} to {newest['to']}{last}."
    else:
        yield f"It has been on channel {channel} since the pipeline started: no plan has moved it."
    if history["id"]:
        tuples, cost, held = (history[name][-1] for name in ("tuples", "cost", "held_bytes"))
        share = history["share"][-1]
        of_all = f" ({_small(share)} of all)" if share is not None else ""
        yield (
            f"In interval {history['id'][-1]} it had {several(tuples, 'event')}, load {cost:,.0f}{of_all}, {bytes_in_words(held)} of state."
            if tuples or held
            else f"In interval {history['id'][-1]} it had no events and held no state."
            if all_named
            else f"In interval {history['id'][-1]} it was not among the keys that were counted by name."
        )


def _small(share: float) -> str:
    """Most keys have next to nothing of the load, and none of them has 0.0 %."""
    return percent(share) if share >= 0.001 or share == 0 else "less than 0.1 %"
