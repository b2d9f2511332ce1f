"""`rebalance plan --dry-run`: what would be planned now, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval, parse_start
from rebalance.planners.registry import PLANNERS
from rebalance.planning.model import Plan
from rebalance.steps.make_plan import plan_for
from rebalance.storage import control
from rebalance.storage.reader import open_tables
from rebalance.view.words import bytes_in_words, new_table


@dataclass(frozen=True)
class DryRun:
    """A plan that was not stored, and what it was made on."""

    interval_id: str
    keys: int
    function_version: int
    plan: Plan


def dry_run(pipeline: Pipeline, *, planner: str | None = None, theta_max: float | None = None) -> DryRun:
    """Plan on the newest statistics and write nothing; with another planner or θ_max than the pipeline's, if given."""
    asked = with_planning(pipeline, planner=planner, theta_max=theta_max)
    opened = open_tables(pipeline.tables)
    interval = newest_counted(pipeline)
    request, plan = plan_for(asked, interval, opened.function)
    return DryRun(interval.id, len(request.stats), opened.function.version, plan)


def with_planning(pipeline: Pipeline, *, planner: str | None = None, theta_max: float | None = None) -> Pipeline:
    """The pipeline with another planner or θ_max, checked as if its file said so."""
    changes: dict[str, Any] = {}
    if planner is not None:
        changes["planner"] = planner
        if planner != pipeline.planning.planner:
            # The file's are those of another planner.
            changes["parameters"] = {}
    if theta_max is not None:
        changes["theta_max"] = theta_max
    return load_pipeline(pipeline.file, {"planning": changes})


def newest_counted(pipeline: Pipeline) -> Interval:
    """The newest interval that has statistics."""
    newest = control.largest(pipeline.tables, "interval_stats", "interval_id")
    if newest is None:
        raise RebalanceError("no interval has statistics yet. Run one first.")
    return pipeline.interval_at(parse_start(newest))


def print_dry_run(found: DryRun, console: Console) -> None:
    """Show it."""
    plan = found.plan
    console.print(f"[bold]{plan.decision}[/] by {plan.planner}: {plan.reason}")
    console.print(
        f"on the statistics of {found.interval_id} ({found.keys:,} keys) under function v{found.function_version}; planned in {plan.seconds:.2f} s; "
        f"{plan.after.routes:,} routes; {len(plan.moved):,} keys, {bytes_in_words(plan.moved_bytes)} ({plan.moved_share:.1%} of the state) would move"
    )
    if plan.gap is not None and len(plan.moved):
        console.print(
            f"certified: no plan that balances as well moves less than {bytes_in_words(plan.bound)}; this one is {plan.gap:.1%} above"
        )
    for note in plan.notes:
        console.print(f"note: {note}")
    table = new_table("channel", "load now", "load planned", "fair load")
    after = plan.after.loads
    for channel, load in enumerate(plan.before.loads):
        planned = f"{after[channel]:,.0f}" if channel < len(after) else ""
        table.add_row(str(channel), f"{load:,.0f}", planned, f"{plan.before.fair[channel]:,.0f}")
    console.print(table)
    console.print(
        f"Nothing was written. Other planners: {', '.join(name for name in PLANNERS if name != plan.planner) or 'none'}."
    )
