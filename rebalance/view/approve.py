"""`rebalance approve`: a plan in words, and what a person says about it."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown

from rebalance.pipeline.file import Pipeline
from rebalance.storage.approvals import Answer, answer, find_plan, pending, plan_in_words


def approve(pipeline: Pipeline, plan_id: str | None, given: Answer, who: str, console: Console) -> None:
    """Show a plan, the waiting one unless it is named, and record the answer for the very function that is shown."""
    root = pipeline.tables
    plan = find_plan(root, plan_id) if plan_id else pending(root)
    if plan is None:
        console.print("No plan waits for an answer. `rebalance status` shows what was planned.")
        return
    answer(root, plan["plan_id"], plan["digest"], given, who)
    console.print(Markdown(plan_in_words(plan)))
    console.print(
        f"{'Approved' if given == 'approve' else 'Rejected'} by {who}. {_what_follows(pipeline, given)}", markup=False
    )


def _what_follows(pipeline: Pipeline, given: Answer) -> str:
    if given == "reject":
        return "It will not be carried out; the next interval is planned anew."
    if pipeline.planning.mode != "approve":
        return (
            f"planning.mode is {pipeline.planning.mode!r}, which asks nobody: the answer counts once it is 'approve'."
        )
    return "The next migrate_state carries it out, unless another function has become the active one by then."
