"""Whatever becomes of the plan, the interval's results are there and right; and plans that wait for a person are carried out later."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from rebalance.cli import main
from rebalance.errors import MigrationError, PlannerError
from rebalance.pipeline.file import Pipeline
from rebalance.planners.registry import PLANNERS
from rebalance.spark import move
from rebalance.steps.migrate_state import migrate_state
from rebalance.steps.process_batch import process_batch
from rebalance.steps.run import run_interval, run_intervals
from rebalance.storage import control
from rebalance.storage.approvals import pending
from rebalance.storage.epochs import all_epochs, current_epoch, load_function
from rebalance.storage.history import read_history
from rebalance.storage.statistics import loads_under
from tests.support.world import Stages, expected_matches, first_interval, stored, stored_results

#: Two intervals are through, nothing is known of the third.
BEFORE_THIRD = "2 collect_stats"


def check_results(pipeline: Pipeline, *numbers: int) -> None:
    for number in numbers:
        interval = first_interval(pipeline).shifted(number)
        assert_frame_equal(stored_results(pipeline, interval), expected_matches(pipeline, interval), check_dtypes=False)


def run_third(pipeline: Pipeline) -> str:
    """Take the third interval through all steps; returns why it was not planned."""
    return run_interval(pipeline, first_interval(pipeline).shifted(2), say=lambda _: None)


def test_a_failed_check_leaves_the_active_function_in_force(matches: Stages, tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(
        "from great_expectations import expectations as gxe\n\n\ndef key_stats():\n"
        '    return [gxe.ExpectColumnMaxToBeBetween(column="tuples", max_value=1)]\n'
    )
    pipeline = matches.copy(tmp_path, BEFORE_THIRD, becomes='[quality]\nexpectations = "checks.py"\n')
    before = current_epoch(pipeline.tables)
    assert run_third(pipeline).startswith("check_quality: QualityError: 1 of ")
    after = current_epoch(pipeline.tables)
    assert before is not None
    assert after is not None
    assert (after.kind, after.function_version) == ("process", before.function_version)
    check_results(pipeline, 2)


@pytest.mark.parametrize("error", [PlannerError("no plan today"), ZeroDivisionError("a bug")], ids=["refusal", "bug"])
def test_a_planner_that_fails_leaves_the_active_function_in_force(
    matches: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def propose(self: object, request: object) -> object:
        raise error

    monkeypatch.setattr(PLANNERS["mixed"], "propose", propose)
    pipeline = matches.copy(tmp_path, BEFORE_THIRD)
    assert run_third(pipeline) == f"make_plan: {type(error).__name__}: {error}"
    check_results(pipeline, 2)


def test_a_migration_that_does_not_verify_leaves_the_state_as_it_was(
    matches: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = matches.copy(tmp_path, BEFORE_THIRD)
    epoch = current_epoch(pipeline.tables)
    assert epoch is not None

    def refuse(*_: object) -> object:
        raise MigrationError("the rows differ after the move")

    with monkeypatch.context() as patched:
        # The commit is made and then found wrong.
        patched.setattr(move._Move, "verify", refuse)
        assert run_third(pipeline) == "migrate_state: MigrationError: the rows differ after the move"
    after = current_epoch(pipeline.tables)
    assert after is not None
    assert after.function_version == epoch.function_version
    check_results(pipeline, 2)


def test_a_plan_of_an_interval_that_was_processed_without_it_can_be_carried_out_late(
    matches: Stages, tmp_path: Path
) -> None:
    """As when a failed task is cleared in Airflow after its run: the plan then serves the next interval."""
    pipeline = matches.copy(tmp_path, "1 migrate_state")
    second = first_interval(pipeline).shifted(1)
    process_batch(pipeline, second)
    said = migrate_state(pipeline, second)
    assert "moved to other channels" in said
    newest = current_epoch(pipeline.tables)
    assert newest is not None
    assert (newest.kind, newest.interval_id) == ("migrate", second.id)
    function = load_function(pipeline.tables, newest.function_version)
    state = stored(pipeline, "state", version=newest.state_version)
    assert state["channel"].to_list() == function.channel_of(state["key"].to_list()).tolist()
    assert run_intervals(pipeline, count=1, say=lambda _: None) == 1
    check_results(pipeline, 1, 2)


def test_without_approval_results_are_there_and_an_approved_plan_is_carried_out_by_the_next_interval(
    matches: Stages, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = matches.copy(tmp_path, "1 collect_stats", 'planner = "mixed"', 'planner = "mixed"\nmode = "approve"')
    said: list[str] = []
    run_interval(pipeline, first_interval(pipeline).shifted(1), said.append)
    assert "waits for approval (rebalance approve world)" in said[3]
    check_results(pipeline, 1)
    waiting = pending(pipeline.tables)
    assert waiting is not None
    assert main(["approve", str(pipeline.file), "--who", "ann"]) == 0
    assert waiting["plan_id"] in capsys.readouterr().out
    run_interval(pipeline, first_interval(pipeline).shifted(2), said.append)
    epochs = all_epochs(pipeline.tables)
    assert [epoch.plan_id for epoch in epochs if epoch.kind == "migrate"][-1] == waiting["plan_id"]
    function = load_function(pipeline.tables, epochs[-1].function_version)
    state = stored(pipeline, "state", version=epochs[-1].state_version)
    assert state["channel"].to_list() == function.channel_of(state["key"].to_list()).tolist()
    check_results(pipeline, 1, 2)


def test_planned_after_the_work_the_plan_serves_the_next_interval(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "0 collect_stats", 'planner = "mixed"', 'planner = "mixed"\nwhen = "after"')
    said: list[str] = []
    assert run_intervals(pipeline, count=3, say=said.append) == 3
    assert [line.split()[1] for line in said[:2]] == ["process_batch", "collect_stats"]
    check_results(pipeline, 0, 1, 2)
    kinds = [epoch.kind for epoch in all_epochs(pipeline.tables)]
    assert kinds == ["start", *["process", "migrate"] * 3]
    records = read_history(pipeline.tables)
    assert records[0].reached == records[0].without
    assert all(record.reached == record.before for record in records), "nothing was planned for the interval itself"
    root, third = pipeline.tables, first_interval(pipeline).shifted(2)
    stats = control.read(root, "key_stats", interval_id=third.id)
    # Counted behind the work, what a key holds has the interval's own rows in it.
    assert sum(stats["held_rows"].to_pylist()) == sum(stats["tuples"].to_pylist()) == 3000
    (plan,) = control.rows(root, "plans", interval_id=third.id)
    assert plan["loads_after"] == loads_under(load_function(root, plan["function_version"]), stats).tolist()
