"""One plan: what was asked, what was considered, what stopped what, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rebalance.documents.plain import Document, document
from rebalance.documents.planned import moves_of, plan_of
from rebalance.documents.words import bytes_in_words, percent, several
from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline
from rebalance.planners.registry import PLANNERS
from rebalance.planning.exact import clearly_less
from rebalance.planning.interface import works_towards_theta_max
from rebalance.storage import control
from rebalance.storage.plans import plans_of


@document
def plan_document(pipeline: Pipeline, plan_id: str | None = None) -> Document:
    """A plan by its name, or the newest one."""
    row = _newest(pipeline) if plan_id is None else _named(pipeline, plan_id)
    plan = plan_of(pipeline, row)
    return {
        "name": pipeline.name,
        **plan,
        "interval": row["interval_id"],
        "base_function": row["base_function"],
        "considered": list(_considered(pipeline, row, plan)),
        **moves_of(pipeline.tables, row["plan_id"]),
    }


def _newest(pipeline: Pipeline) -> dict[str, Any]:
    newest = control.largest(pipeline.tables, "plans", "interval_id")
    if newest is None:
        raise RebalanceError(
            f"pipeline {pipeline.name} has no plan yet. Run an interval first: rebalance run {pipeline.name}"
        )
    return plans_of(pipeline.tables, newest)[-1]


def _named(pipeline: Pipeline, plan_id: str) -> dict[str, Any]:
    found = control.rows(pipeline.tables, "plans", plan_id=plan_id)
    if not found:
        newest = control.largest(pipeline.tables, "plans", "plan_id")
        raise RebalanceError(f"pipeline {pipeline.name} has no plan {plan_id!r}. The newest is {newest or 'none'}.")
    return found[-1]


def _considered(pipeline: Pipeline, row: dict[str, Any], plan: Document) -> Iterator[str]:
    """What was seen, what was asked, what the answer was held to, and what became of it, in sentences."""
    planning, interval = pipeline.planning, row["interval_id"]
    yield from _seen(pipeline.tables, row)
    if row["decision"] == "keep" and not row["moved_keys"]:
        yield f"Nothing moves: {row['reason']}."
    else:
        yield (
            f"{row['planner']} proposed to move {several(row['moved_keys'], 'key')} with {bytes_in_words(row['moved_bytes'])} of state "
            f"({percent(row['moved_share'])} of all), which brings the largest θ to {percent(row['theta_after'])} and takes {several(row['routes'], 'route')}."
        )
        yield from _limits(pipeline, row)
        if row["decision"] == "reject":
            yield f"It was refused: {row['reason']}."
    yield from (f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in plan["notes"])
    if plan["certificate"]:
        yield plan["certificate"]
    if row["decision"] == "apply":
        yield _became(planning.mode, pipeline.name, interval, plan)


def _seen(root: str, row: dict[str, Any]) -> Iterator[str]:
    counted = control.rows(root, "interval_stats", columns=["rows", "keys"], interval_id=row["interval_id"])
    size = f"{several(counted[-1]['rows'], 'row')} of {several(counted[-1]['keys'], 'key')}" if counted else "its keys"
    yield (
        f"On the statistics of {row['interval_id']} ({size}) under function v{row['base_function']}, the channel furthest from its fair load "
        f"was {percent(row['theta_before'])} off and the fullest had {row['skewness_before']:.3f} times its own; θ_max is "
        f"{percent(row['theta_max'])}, {_asked(row)}."
    )


def _asked(row: dict[str, Any]) -> str:
    """What followed from θ_max."""
    planner = PLANNERS.get(row["planner"])
    if planner and not works_towards_theta_max(planner):
        return f"but {row['planner']} is asked and judged by measures of its own"
    beyond = clearly_less(row["theta_max"], row["theta_before"])
    return f"so that a better function was {'looked for' if beyond else 'not needed for the balance'}"


def _limits(pipeline: Pipeline, row: dict[str, Any]) -> Iterator[str]:
    """What the proposal was held to."""
    planning = pipeline.planning
    yield f"max_routes allows {several(planning.max_routes, 'route')}{_left(row['routes'], planning.max_routes)}."
    if planning.max_bytes is not None:
        allowed = bytes_in_words(planning.max_bytes)
        yield f"max_bytes allows {allowed} of state to move{_left(row['moved_bytes'], planning.max_bytes)}."
    if planning.pinned:
        yield f"{several(len(planning.pinned), 'key')} may not move (planning.pinned)."
    if pipeline.channels.excluded:
        drained = ", ".join(map(str, pipeline.channels.excluded))
        yield f"Channels to be emptied (channels.excluded): {drained}."


def _left(used: float, allowed: float) -> str:
    if used > allowed:
        return ", which is less than it takes"
    return ", which it uses up" if allowed and used >= 0.99 * allowed else ""


def _became(mode: str, name: str, interval: str, plan: Document) -> str:
    """What happened to a plan that was to be applied."""
    if plan["applied"]:
        return f"It was carried out by epoch {plan['epoch']['epoch']}."
    if mode == "shadow":
        return "Nothing is moved in mode shadow."
    answer = plan["answer"]
    if answer is not None:
        said = "approved" if answer["answer"] == "approve" else "rejected"
        return f"It was {said} by {answer['who']}, and not carried out."
    if plan["pending"]:
        return f"It waits for an answer: rebalance approve {name}"
    return f"It was not carried out: {interval} was processed without it, or its state was not moved yet."
