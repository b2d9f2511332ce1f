"""The form of a run by hand: limits that Airflow's own API enforces, and what a run makes of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance.airflow.form import as_asked
from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.planners.registry import PLANNERS
from rebalance.steps import Insist
from tests.dags.conftest import WritePipeline
from tests.dags.test_rules import FIRST, SECOND, recorded
from tests.dags.test_time import trigger

FILE = 'planner = "mixed"\nparameters = { r = 3 }\ntheta_max = 0.2\n'


def write(write_pipeline: WritePipeline, name: str) -> Pipeline:
    """A pipeline whose file says something of its own about planning."""
    file = write_pipeline(name)
    file.write_text(file.read_text().replace("[planning]\n", f"[planning]\n{FILE}"))
    return load_pipeline(file)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, SimpleNamespace]:
    """What each step was given last."""
    given: dict[str, SimpleNamespace] = {}

    def function_of(step: str) -> Callable[..., str]:
        def run(pipeline: Pipeline, interval: Interval, insist: Insist) -> str:
            planning = pipeline.planning
            given[step] = SimpleNamespace(**{**planning.model_dump(), "asked": insist.asked})
            return f"{step} done"

        return run

    monkeypatch.setattr("rebalance.steps.function_of", function_of)
    return given


# Airflow's own page of a DAG's details.
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_the_form_offers_what_the_file_says_within_limits(
    write_pipeline: WritePipeline, airflow: Any, api: Callable[[str], Any]
) -> None:
    dag_id = write(write_pipeline, "offered").dag_id
    airflow.load_dag(dag_id)
    vic, ann = api("vic"), api("ann")
    params = vic.get(f"/api/v2/dags/{dag_id}/details").json()["params"]
    assert {name: param["value"] for name, param in params.items()} == {
        "skip": False,
        "now": False,
        "planner": "mixed",
        "theta_max": 0.2,
        "dry_run": False,
    }
    assert params["planner"]["schema"]["enum"] == sorted(PLANNERS)
    assert (params["theta_max"]["schema"]["minimum"], params["theta_max"]["schema"]["maximum"]) == (0, 1.0)
    assert all(param["description"] for param in params.values())
    runs = f"/api/v2/dags/{dag_id}/dagRuns"
    for conf in ({"theta_max": -0.1}, {"theta_max": 1.5}, {"planner": "best"}, {"dry_run": "perhaps"}):
        assert ann.post(runs, json={"logical_date": None, "conf": conf}).status_code == 400, conf


def test_what_is_asked_of_a_run_reaches_its_planning_alone_and_is_told(
    write_pipeline: WritePipeline, airflow: Any, seen: dict[str, SimpleNamespace]
) -> None:
    dag = airflow.load_dag(write(write_pipeline, "asked").dag_id)
    run = trigger(airflow, dag, FIRST.end + timedelta(minutes=1), planner="frugal", theta_max=0.05, dry_run=True)
    assert run.state == "success"
    told = "asked of this run alone: planner = frugal (the file says mixed), theta_max = 0.05 (the file says 0.2), dry_run, so nothing is moved"
    for step in ("make_plan", "migrate_state"):
        given = seen[step]
        assert (given.planner, given.parameters, given.theta_max, given.mode) == ("frugal", {}, 0.05, "shadow")
        assert given.asked == told
    for step in ("collect_stats", "check_quality", "process_batch"):
        given = seen[step]
        assert (given.planner, given.theta_max, given.mode, given.asked) == ("mixed", 0.2, "auto", "")
    airflow.run_interval(dag, SECOND)
    assert (seen["make_plan"].planner, seen["make_plan"].theta_max, seen["make_plan"].asked) == ("mixed", 0.2, "")
    assert recorded(dag, SECOND)[1]["make_plan"].note == "make_plan done"


def test_a_run_by_hand_whose_form_was_left_as_it_was_is_like_any_other(write_pipeline: WritePipeline) -> None:
    pipeline = write(write_pipeline, "untouched")
    assert as_asked(pipeline, {"planner": "mixed", "theta_max": 0.2, "dry_run": False}) == (pipeline, "")
    same_planner, _ = as_asked(pipeline, {"theta_max": 0.3})
    assert same_planner.planning.parameters == {"r": 3}, "they are this planner's own"


def test_a_form_that_asks_for_what_the_pipeline_cannot_do_is_refused_and_results_are_made(
    write_pipeline: WritePipeline, airflow: Any, seen: dict[str, SimpleNamespace]
) -> None:
    pipeline = write(write_pipeline, "refused")
    with pytest.raises(ConfigError, match="splits keys, but the states of operator 'latest_match' cannot be merged"):
        as_asked(pipeline, {"planner": "pkg"})
    dag = airflow.load_dag(pipeline.dag_id)
    run = trigger(airflow, dag, FIRST.end + timedelta(minutes=1), planner="pkg")
    assert (run.state, "splits keys" in run.note) == ("failed", True)
    assert run.note.startswith("**Results are complete; the interval was not planned.**")
    assert set(seen) == {"collect_stats", "check_quality", "process_batch"}
