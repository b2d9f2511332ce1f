"""An answer to a plan: the one act of a person that has a document, because what was shown is what was answered."""

from __future__ import annotations

from rebalance.documents.plain import Document, document
from rebalance.documents.planned import plan_of
from rebalance.pipeline.file import Pipeline
from rebalance.storage.approvals import Answer, answer, find_plan, pending, plan_in_words
from rebalance.storage.history import read_past


@document
def answer_plan(pipeline: Pipeline, plan_id: str | None, given: Answer, who: str) -> Document:
    """Record an answer to a plan, the waiting one unless it is named, for the very function that is shown."""
    root = pipeline.tables
    plan = find_plan(root, plan_id) if plan_id else pending(root)
    if plan is None:
        said = "No plan waits for an answer. `rebalance status` shows what was planned."
        return {"name": pipeline.name, "plan": None, "words": None, "said": said}
    answer(root, plan["plan_id"], plan["digest"], given, who)
    return {
        "name": pipeline.name,
        "plan": plan_of(pipeline, plan, read_past(root)),
        "words": plan_in_words(plan),
        "said": f"{'Approved' if given == 'approve' else 'Rejected'} by {who}. {_what_follows(pipeline, given)}",
    }


def _what_follows(pipeline: Pipeline, given: Answer) -> str:
    if given == "reject":
        return "It will not be carried out; the next interval is planned anew."
    if pipeline.planning.mode != "approve":
        return (
            f"planning.mode is {pipeline.planning.mode!r}, which asks nobody: the answer counts once it is 'approve'."
        )
    return "The next migrate_state carries it out, unless another function has become the active one by then."
