"""What would be planned now, as the file says and with other knobs: a dry run, which writes nothing."""

from __future__ import annotations

import re
from typing import Any

from rebalance.documents.plain import Document, document
from rebalance.documents.planned import flows
from rebalance.documents.words import certificate
from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.planners.registry import PLANNERS
from rebalance.planning.model import Plan, Request
from rebalance.storage import control
from rebalance.storage.reader import open_tables


@document
def try_plan(
    pipeline: Pipeline,
    *,
    planner: str | None = None,
    theta_max: float | None = None,
    max_routes: int | None = None,
    channels: int | None = None,
) -> Document:
    """Plan on the newest statistics as the file says, and, if any knob is given, once more with it."""
    from rebalance.steps.make_plan import plan_for

    tried = with_knobs(pipeline, planner=planner, theta_max=theta_max, max_routes=max_routes, channels=channels)
    changed = _knobs(tried) != _knobs(pipeline)
    opened, interval = open_tables(pipeline.tables), newest_counted(pipeline)
    asked = {"as the file says": pipeline, **({"tried": tried} if changed else {})}
    plans = {label: plan_for(one, interval, opened.function) for label, one in asked.items()}
    request, own = plans["as the file says"]
    return {
        "name": pipeline.name,
        "interval": interval.id,
        "keys": request.keys_in_all,
        "function_version": opened.function.version,
        "knobs": _knobs(tried),
        "now": {"skewness": own.before.skewness, "theta": own.before.theta, "loads": own.before.loads},
        "plans": [{"label": label, **_knobs(asked[label]), **_plan(*plans[label])} for label in asked],
    }


def with_knobs(
    pipeline: Pipeline,
    *,
    planner: str | None = None,
    theta_max: float | None = None,
    max_routes: int | None = None,
    channels: int | None = None,
) -> Pipeline:
    """The pipeline with other knobs, checked as if its file said so."""
    planning: dict[str, Any] = {"planner": planner, "theta_max": theta_max, "max_routes": max_routes}
    planning = {knob: value for knob, value in planning.items() if value is not None}
    if planner is not None and planner != pipeline.planning.planner:
        # The file's are those of another planner.
        planning["parameters"] = {}
    return load_pipeline(
        pipeline.file, {"planning": planning, **({} if channels is None else {"channels": {"count": channels}})}
    )


def newest_counted(pipeline: Pipeline) -> Interval:
    """The newest interval that has statistics."""
    newest = control.largest(pipeline.tables, "interval_stats", "interval_id")
    if newest is None:
        raise RebalanceError("no interval has statistics yet. Run one first.")
    return pipeline.interval_at(parse_start(newest))


def known_planners() -> list[Document]:
    """Every planner with what it does, in a sentence."""
    return [{"name": name, "about": first_sentence(kind.__doc__ or "")} for name, kind in PLANNERS.items()]


def first_sentence(text: str) -> str:
    """The first sentence of a docstring.

    >>> first_sentence("Moves e.g. 3.5 keys, one\\n    after the other. More.")
    'Moves e.g. 3.5 keys, one after the other.'
    """
    whole = " ".join(text.split())
    found = re.match(r".*?(?<!e\.g)(?<!i\.e)(?<! al)\.(?= |$)", whole)
    return found[0] if found else whole


def _knobs(pipeline: Pipeline) -> Document:
    planning = pipeline.planning
    return {
        "planner": planning.planner,
        "theta_max": planning.theta_max,
        "max_routes": planning.max_routes,
        "channels": pipeline.channels.count,
    }


def _plan(request: Request, plan: Plan) -> Document:
    return {
        "decision": str(plan.decision),
        "reason": plan.reason,
        "notes": plan.notes,
        "theta": plan.after.theta,
        "skewness": plan.after.skewness,
        "loads": plan.after.loads,
        "fair": plan.after.fair,
        "routes": plan.after.routes,
        "moved_keys": len(plan.moved),
        "moved_bytes": plan.moved_bytes,
        "moved_share": plan.moved_share,
        "seconds": plan.seconds,
        "certificate": certificate(
            theta_max=plan.theta_max,
            theta_after=plan.after.theta,
            moved_bytes=plan.moved_bytes,
            bound_bytes=plan.bound,
            bound_theta=plan.bound_theta,
        ),
        "flows": _flows(request, plan),
    }


def _flows(request: Request, plan: Plan) -> list[Document]:
    import pyarrow as pa

    moved = {
        "key": plan.moved,
        "from": plan.moved_from,
        "to": plan.moved_to,
        "state_bytes": request.stats.state[plan.moved],
        "cost": request.stats.cost[plan.moved],
    }
    return flows(pa.table(moved))
