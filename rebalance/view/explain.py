"""`rebalance explain`: where a key goes, why, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from rebalance.errors import RebalanceError
from rebalance.partition import Key, PartitionFunction, Share, slots_of
from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from rebalance.storage.epochs import carried_out
from rebalance.storage.history import read_history
from rebalance.storage.reader import open_tables
from rebalance.view.words import bytes_in_words, new_table


@dataclass(frozen=True)
class KeyMove:
    """A move of the key that was carried out, with what the key was like then and why its plan was made."""

    interval_id: str
    from_channel: int
    to_channel: int
    cost: float
    state_bytes: float
    planner: str
    reason: str


@dataclass(frozen=True)
class KeyLoad:
    """The key in the newest interval; all zero where it had no events and held no state."""

    interval_id: str
    tuples: int = 0
    cost: float = 0.0
    #: Of its channel's load.
    share: float = 0.0
    held_bytes: int = 0


@dataclass(frozen=True)
class Explanation:
    """Where a key goes; `shares` are those of a split key, `load` is None before the first statistics."""

    key: Key
    slot: int
    channel: int
    ring_channel: int
    has_route: bool
    shares: Sequence[Share]
    moves: Sequence[KeyMove]
    load: KeyLoad | None


def explain(pipeline: Pipeline, text: str) -> Explanation:
    """Everything that is known of a key, given as it stands in the source."""
    root, function = pipeline.tables, open_tables(pipeline.tables).function
    key = _as_key(text, function)
    slot = int(slots_of([key], function.key_type)[0])
    return Explanation(
        key=key,
        slot=slot,
        channel=int(function.channel_of([key])[0]),
        ring_channel=int(function.slots[slot]),
        has_route=key in function.routes,
        shares=function.splits.get(key, ()),
        moves=_moves(root, str(key)),
        load=_newest_load(root, key, function),
    )


def _as_key(text: str, function: PartitionFunction) -> Key:
    if function.key_type == "string":
        return text
    try:
        return int(text)
    except ValueError:
        raise RebalanceError(f"{text!r} is not a key of this pipeline: its keys are integers.") from None


def _moves(root: str, key: str) -> list[KeyMove]:
    """Every move of the key that was carried out, oldest first."""
    planned = control.rows(root, "plan_moves", key=key)
    done = {epoch.plan_id: epoch.epoch for epoch in carried_out(root, [move["plan_id"] for move in planned])}
    moves = [move for move in planned if move["plan_id"] in done]
    if not moves:
        return []
    plans = {plan["plan_id"]: plan for plan in control.rows(root, "plans", plan_id=[move["plan_id"] for move in moves])}
    moves.sort(key=lambda move: done[move["plan_id"]])
    return [
        KeyMove(
            interval_id=move["interval_id"],
            from_channel=move["from_channel"],
            to_channel=move["to_channel"],
            cost=move["cost"],
            state_bytes=move["state_bytes"],
            planner=plans[move["plan_id"]]["planner"],
            reason=plans[move["plan_id"]]["reason"],
        )
        for move in moves
    ]


def _newest_load(root: str, key: Key, function: PartitionFunction) -> KeyLoad | None:
    records = read_history(root, last=1)
    if not records:
        return None
    newest = records[-1]
    found = control.rows(root, "key_stats", interval_id=newest.interval_id, key=key)
    if not found:
        return KeyLoad(newest.interval_id)
    (stats,) = found
    load = newest.loads[int(function.channel_of([key])[0])] if newest.loads else 0.0
    share = stats["cost"] / load if load else 0.0
    return KeyLoad(newest.interval_id, stats["tuples"], stats["cost"], share, stats["held_bytes"])


def print_explanation(found: Explanation, console: Console) -> None:
    """Show it."""
    console.print(_where(found))
    if found.moves:
        console.print(_moves_table(found.moves))
    else:
        console.print(f"It has been on channel {found.channel} since the pipeline started: no plan has moved it.")
    if found.load is not None:
        console.print(_load_in_words(found.load))


def _where(found: Explanation) -> str:
    if found.shares:
        parts = ", ".join(f"{share.channel} ({share.share:.0%})" for share in found.shares)
        return f"[bold]{found.key!r}[/] is split over the channels {parts}; its merged state lives on {found.channel}."
    goes = f"[bold]{found.key!r}[/] goes to channel [bold]{found.channel}[/]"
    if found.has_route:
        return (
            f"{goes} by a route of its own; the ring alone would send it to {found.ring_channel} (slot {found.slot})."
        )
    return f"{goes} by the ring (slot {found.slot}); it has no route of its own."


def _moves_table(moves: Sequence[KeyMove]) -> Table:
    table = new_table("since", "from", "to", "its load then", "its state then", "why")
    for move in moves:
        table.add_row(
            move.interval_id,
            str(move.from_channel),
            str(move.to_channel),
            f"{move.cost:,.0f}",
            bytes_in_words(move.state_bytes),
            f"{move.planner}: {move.reason}",
        )
    return table


def _load_in_words(load: KeyLoad) -> str:
    if not (load.tuples or load.held_bytes):
        return f"In interval {load.interval_id} it had no events and held no state."
    return (
        f"In interval {load.interval_id}: {load.tuples:,} events, load {load.cost:,.0f} ({load.share:.1%} of its channel's), "
        f"{bytes_in_words(load.held_bytes)} of state."
    )
