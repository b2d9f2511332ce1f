"""`rebalance explain`: where a key goes, why, and since when; without a key, what the newest plan is and why."""

from __future__ import annotations

from rich.console import Console

from rebalance.documents.plain import Document
from rebalance.documents.words import bytes_in_words, several
from rebalance.view.words import new_table

#: How many of a plan's moves are shown.
_MOVES = 10


def print_key(found: Document, console: Console) -> None:
    """Show the document of a key."""
    # A key may have brackets of its own.
    console.print(found["why"], markup=False)
    if not found["moves"]:
        return
    table = new_table("since", "from", "to", "its load then", "its state then", "why")
    for move in found["moves"]:
        table.add_row(
            move["interval"],
            str(move["from"]),
            str(move["to"]),
            f"{move['cost']:,.0f}",
            bytes_in_words(move["state_bytes"]),
            f"{move['planner']}: {move['reason']}" if move["planner"] else "its plan is no longer stored",
        )
    console.print(table)


def print_plan(found: Document, console: Console) -> None:
    """Show the document of a plan."""
    console.print(f"[bold]{found['decision']}[/], plan {found['plan_id']} by {found['planner']}", highlight=False)
    for sentence in found["considered"]:
        console.print(f"- {sentence}", markup=False)
    if not found["moves"]:
        return
    total, moves = found["moves_total"], found["moves"][:_MOVES]
    title = f"{several(total, 'key')} in all; the {len(moves)} heaviest" if total > len(moves) else None
    table = new_table("key", "from", "to", "load", "state", title=title)
    for move in moves:
        state = bytes_in_words(move["state_bytes"])
        table.add_row(move["key"], str(move["from"]), str(move["to"]), f"{move['cost']:,.0f}", state)
    console.print(table)
