"""`rebalance plan --dry-run`: what would be planned now, and why."""

from __future__ import annotations

from rich.console import Console

from rebalance.documents.plain import Document
from rebalance.documents.words import bytes_in_words, percent, several
from rebalance.view.words import new_table


def print_trial(found: Document, planners: list[str], console: Console) -> None:
    """Show the document; of two plans the one that was tried, beside what the file says."""
    *others, plan = found["plans"]
    console.print(f"[bold]{plan['decision']}[/] by {plan['planner']}: {plan['reason']}")
    console.print(
        f"on the statistics of {found['interval']} ({several(found['keys'], 'key')}) under function v{found['function_version']}; "
        f"planned in {plan['seconds']:.2f} s; {several(plan['routes'], 'route')}; {several(plan['moved_keys'], 'key')}, "
        f"{bytes_in_words(plan['moved_bytes'])} ({percent(plan['moved_share'])} of the state) would move"
    )
    if plan["certificate"]:
        console.print(f"certified: {plan['certificate']}")
    for note in plan["notes"]:
        console.print(f"note: {note}", markup=False)
    for other in others:
        console.print(f"{other['label']}: {other['decision']} by {other['planner']}: {other['reason']}", markup=False)
    table = new_table("channel", "load now", "load planned", "fair load")
    now = found["now"]["loads"]
    for channel in range(max(len(now), len(plan["loads"]))):
        loads = (now, plan["loads"], plan["fair"])
        table.add_row(str(channel), *(f"{values[channel]:,.0f}" if channel < len(values) else "" for values in loads))
    console.print(table)
    names = ", ".join(name for name in planners if name != plan["planner"])
    console.print(f"Nothing was written. Other planners: {names}.")
