"""What other planners would have made of an interval that was planned: same statistics, same function to start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.table import Table

from rebalance.documents.trial import with_knobs
from rebalance.documents.words import bytes_in_words
from rebalance.errors import RebalanceError
from rebalance.partition import PartitionFunction
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.planners.gedik.readj import Readj
from rebalance.planners.gedik.several import SIGMAS, shortcomings
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, Plan
from rebalance.steps.make_plan import plan_for
from rebalance.storage.epochs import load_function
from rebalance.storage.plans import plans_of
from rebalance.storage.statistics import make_request
from rebalance.view.words import new_table


def compare_planners(pipeline: Pipeline, interval: Interval, planners: Sequence[str]) -> list[Plan]:
    """The plan of each planner for one interval, on the function that was active before the interval was planned; writes nothing."""
    before = _active_before(pipeline, interval)
    return [plan_for(with_knobs(pipeline, planner=planner), interval, before)[1] for planner in planners]


def best_readj(pipeline: Pipeline, interval: Interval) -> Plan:
    """The best plan of readj with several σ for one interval, named after that σ; writes nothing."""
    before, asked = _active_before(pipeline, interval), with_knobs(pipeline, planner=Readj.name)
    request = make_request(asked, before, interval.id, mergeable=asked.states_merge())
    plans = {sigma: decide(Readj(sigma=sigma), request, before) for sigma in SIGMAS}
    sigma, best = min(plans.items(), key=lambda found: _shortcomings(found[1]))
    return replace(best, planner=f"readj, best of {len(SIGMAS)} σ: {sigma:g}")


def _shortcomings(plan: Plan) -> tuple[int, float, float]:
    applied = plan.decision is Decision.APPLY
    return shortcomings(
        [(plan.after if applied else plan.before).theta], plan.moved_bytes if applied else 0.0, plan.theta_max
    )


def _active_before(pipeline: Pipeline, interval: Interval) -> PartitionFunction:
    plans = plans_of(pipeline.tables, interval.id)
    if not plans:
        raise RebalanceError(f"interval {interval.id} was not planned, so there is nothing to compare with.")
    return load_function(pipeline.tables, plans[-1]["base_function"])


def comparison_table(plans: Sequence[Plan], title: str) -> Table:
    """One line per planner: the load it comes to and what that takes."""
    table = new_table(
        "planner",
        "decision",
        "max/mean\nload",
        "θ",
        "keys\nmoved",
        "bytes\nmoved",
        "routes",
        "seconds",
        title=title,
    )
    for column in table.columns[2:]:
        column.justify = "right"
    for plan in plans:
        table.add_row(
            plan.planner,
            str(plan.decision),
            f"{plan.after.skewness:.3f}",
            f"{plan.after.theta:.3f}",
            f"{len(plan.moved):,}",
            bytes_in_words(plan.moved_bytes),
            f"{plan.after.routes:,}",
            f"{plan.seconds:.2f}",
        )
    return table
