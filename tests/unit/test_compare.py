"""What readj would have planned, by the best of several σ."""

from __future__ import annotations

import pytest

from rebalance.documents.trial import newest_counted, with_knobs
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planners.gedik.readj import Readj
from rebalance.planners.gedik.several import SIGMAS
from rebalance.planning.decide import decide
from rebalance.planning.model import Decision, Plan
from rebalance.storage.epochs import load_function
from rebalance.storage.plans import plans_of
from rebalance.storage.statistics import make_request
from rebalance.view.compare import best_readj


def of_each_sigma(pipeline: Pipeline) -> dict[float, Plan]:
    interval = newest_counted(pipeline)
    function = load_function(pipeline.tables, plans_of(pipeline.tables, interval.id)[-1]["base_function"])
    request = make_request(with_knobs(pipeline, planner="readj"), function, interval.id, mergeable=False)
    return {sigma: decide(Readj(sigma=sigma), request, function) for sigma in SIGMAS}


@pytest.mark.parametrize(
    "theta_max", [0.0001, 0.4], ids=["where none is within θ_max", "where several are within θ_max"]
)
def test_the_best_sigma_comes_within_theta_max_with_the_least_state_moved_or_nearest_to_it(
    own: Pipeline, theta_max: float
) -> None:
    own.file.write_text(own.file.read_text() + f"theta_max = {theta_max}\n")
    pipeline = load_pipeline(own.file)
    plans, best = of_each_sigma(pipeline), best_readj(pipeline, newest_counted(pipeline))
    said, sigma = best.planner.split(": ")
    assert said == f"readj, best of {len(SIGMAS)} σ"
    assert plans[float(sigma)].moved.tolist() == best.moved.tolist()
    assert {plan.decision for plan in plans.values()} == {Decision.APPLY}
    assert len({plan.after.theta for plan in plans.values()}) > 1
    within = [plan for plan in plans.values() if plan.after.theta <= theta_max]
    assert bool(within) == (theta_max > 0.1)
    if within:
        assert best.moved_bytes == min(plan.moved_bytes for plan in within)
    else:
        assert best.after.theta == min(plan.after.theta for plan in plans.values())
