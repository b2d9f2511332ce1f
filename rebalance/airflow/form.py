"""The form of a run by hand: what a person can ask of this one run, with limits.

Scheduled runs follow the pipeline file. What a form asks of the planning is checked as if the file said so, holds for the two steps that
plan, and is written into the plan's notes, so that nobody wonders later why this plan is unlike the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planners.registry import PLANNERS

#: The steps that follow what the form asks of the planning. The others must not depend on it: results never wait for a plan.
PLANNING = ("make_plan", "migrate_state")
#: The knobs of [planning] that are in the form.
_KNOBS = ("planner", "theta_max")


def run_form(pipeline: Pipeline) -> dict[str, Any]:
    """The fields, as Airflow shows and checks them."""
    planning = pipeline.planning
    return {
        "skip": _switch(
            "skip",
            "Leave out the intervals between the newest processed one and this run's, for good; it is recorded. Without it, a run that "
            "does not follow the newest processed interval is refused.",
        ),
        "now": _switch(
            "now",
            "Take the interval though interval.grace has not passed since its end; events that come later are in no result until a rewind. "
            "Without it, the run waits for that. Airflow itself starts no run before its interval has ended.",
        ),
        "planner": Param(
            planning.planner,
            type="string",
            enum=sorted(PLANNERS),
            title="planner",
            description=f"Who plans in this run. The pipeline file says {planning.planner}; another planner runs with its defaults.",
        ),
        "theta_max": Param(
            planning.theta_max,
            type="number",
            minimum=0,
            maximum=max(1.0, planning.theta_max),
            title="theta_max",
            description="θ_max of this run: how far a channel may be from its fair load before a plan is made, as a share. The pipeline "
            f"file says {planning.theta_max:g}; 0 plans always.",
        ),
        "dry_run": _switch(
            "dry_run",
            "Plan, and show the plan, but move nothing in this run and ask nobody. The interval is processed by the function that is active.",
        ),
    }


def as_asked(pipeline: Pipeline, params: Mapping[str, Any]) -> tuple[Pipeline, str]:
    """The pipeline with the planning that a run's form asks for, and in words what of it is unlike the file; no words if nothing is."""
    planning = pipeline.planning
    changes = {
        knob: params[knob] for knob in _KNOBS if params.get(knob, getattr(planning, knob)) != getattr(planning, knob)
    }
    said = [f"{knob} = {value} (the file says {getattr(planning, knob)})" for knob, value in changes.items()]
    if "planner" in changes:
        # The file's are those of another planner.
        changes["parameters"] = {}
    if params.get("dry_run"):
        changes["mode"] = "shadow"
        said.append("dry_run, so nothing is moved")
    if not said:
        return pipeline, ""
    return load_pipeline(pipeline.file, {"planning": changes}), f"asked of this run alone: {', '.join(said)}"


def _switch(name: str, description: str) -> Any:
    return Param(False, type="boolean", title=name, description=description)
