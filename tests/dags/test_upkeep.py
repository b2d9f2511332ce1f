"""The DAGs that act on a pipeline's past, run by a real Airflow on real tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import pytest

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs, current_epoch, publish
from tests.dags.conftest import WritePipeline
from tests.dags.test_rules import FIRST


@pytest.fixture
def pipeline(write_pipeline: WritePipeline, airflow: Any, request: pytest.FixtureRequest) -> Pipeline:
    """A pipeline of the test's own name whose tables know six intervals, without state."""
    file = write_pipeline(f"p{crc32(request.node.name.encode())}", more="[retention]\nstatistics = 1\nepochs = 1\n")
    pipeline = load_pipeline(file)
    publish(pipeline.tables, None, kind="start", function_version=0, state_version=-1)
    for number in range(6):
        interval_id = FIRST.shifted(number).id
        control.append(pipeline.tables, "batches", [{"interval_id": interval_id, "rows": 1}])
        base = current_epoch(pipeline.tables)
        publish(pipeline.tables, base, kind="process", interval_id=interval_id, function_version=0, state_version=-1)
    return pipeline


def run(airflow: Any, dag_id: str, conf: dict[str, Any]) -> tuple[str, Any]:
    """Trigger a DAG as a person does; returns the state of its only task and what its note says, which is the run's too."""
    from airflow.models.dagbag import DBDagBag
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    dag = airflow.load_dag(dag_id)
    now = datetime.now(UTC)
    with create_session() as session:
        known: Any = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
        run = known.create_dagrun(
            run_id=f"manual__{now.isoformat()}",
            logical_date=None,
            data_interval=None,
            run_after=now,
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            conf=conf,
            start_date=now,
            session=session,
        )
        airflow.finish(dag, run, session)
        (ti,) = run.get_task_instances(session=session)
        assert ti.note in run.note
        return str(ti.state), ti.note


def test_maintenance_is_scheduled_daily_or_as_the_pipeline_says_and_the_rewind_never(
    write_pipeline: WritePipeline, dag_file: Callable[[], ModuleType]
) -> None:
    write_pipeline("daily")
    write_pipeline("nightly", more='maintain = "30 3 * * *"\n')
    write_pipeline("byhand", more='maintain = "none"\n')
    write_pipeline("wrong", more='maintain = "now and then"\n')
    dags = dag_file()
    assert [dag.schedule for dag in (dags.rebalance_daily_maintain, dags.rebalance_nightly_maintain)] == [
        "@daily",
        "30 3 * * *",
    ]
    assert dags.rebalance_byhand_maintain.schedule is dags.rebalance_daily_rewind.schedule is None
    assert (dags.rebalance_daily_maintain.catchup, dags.rebalance_daily_maintain.max_active_runs) == (False, 1)
    assert "airflow.maintain" in dags.rebalance_wrong.doc_md
    # As for every DAG, Airflow's own setting decides: paused until a person has looked at it.
    assert dags.rebalance_daily_maintain.is_paused_upon_creation is None


def test_maintenance_by_airflow_does_what_the_command_does_and_returns_what_that_was(
    airflow: Any, pipeline: Pipeline
) -> None:
    state, said = run(airflow, f"{pipeline.dag_id}_maintain", {"dry_run": True})
    assert (state, said) == ("success", f"would do: batches: 1 rows of intervals before {FIRST.shifted(1).id} removed")
    assert control.read(pipeline.tables, "batches").num_rows == 6
    state, said = run(airflow, f"{pipeline.dag_id}_maintain", {})
    assert (state, said) == ("success", f"batches: 1 rows of intervals before {FIRST.shifted(1).id} removed")
    assert control.read(pipeline.tables, "batches").num_rows == 5


def test_a_rewind_by_airflow_takes_an_interval_and_can_be_taken_back(airflow: Any, pipeline: Pipeline) -> None:
    dag_id = f"{pipeline.dag_id}_rewind"
    state, said = run(airflow, dag_id, {"to": FIRST.shifted(5).id})
    assert state == "success"
    assert said.startswith("rewound to epoch 5, before interval 20260101T0500Z")
    assert [epoch.kind for epoch in all_epochs(pipeline.tables)][-2:] == ["process", "rewind"]
    state, said = run(airflow, dag_id, {"undo": True})
    assert (state, said.startswith("the rewind of epoch 7 is taken back")) == ("success", True)
    before = all_epochs(pipeline.tables)
    for conf in ({}, {"to": FIRST.id, "undo": True}, {"to": "20300101T0000Z"}, {"undo": True}):
        assert run(airflow, dag_id, conf)[0] == ("success" if conf == {"undo": True} else "failed")
        assert len(all_epochs(pipeline.tables)) == len(before) + (conf == {"undo": True})


def test_a_damaged_table_is_named_by_the_tasks_and_not_tried_again(pipeline: Pipeline) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from rebalance.airflow.tasks import run_task
    from rebalance.airflow.upkeep import run_maintain, run_rewind

    entry = sorted(Path(pipeline.tables, "epochs", "_delta_log").glob("*.json"))[-1]
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
    file = str(pipeline.file)
    named = r"DamagedError: the log of the table \S+/epochs cannot be read"
    with pytest.raises(AirflowFailException, match=named):
        run_maintain(file, {"dry_run": False})
    with pytest.raises(AirflowFailException, match=named):
        run_rewind(file, {"to": FIRST.id, "undo": False})
    with pytest.raises(AirflowFailException, match=named):
        run_task("make_plan", file, FIRST.start, FIRST.end)


def test_the_form_of_a_rewind_can_be_sent_without_an_interval(
    airflow: Any, pipeline: Pipeline, api: Callable[[str], Any]
) -> None:
    """Airflow's form does not let an empty text through, so there would be no way to say `undo`."""
    airflow.load_dag(f"{pipeline.dag_id}_rewind")
    runs = f"/api/v2/dags/{pipeline.dag_id}_rewind/dagRuns"
    sent = {"logical_date": None, "conf": {"to": None, "undo": True}}
    assert api("ann").post(runs, json=sent).status_code == 200


def test_the_form_refuses_what_is_no_interval(airflow: Any, pipeline: Pipeline) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    before = all_epochs(pipeline.tables)
    with pytest.raises((ParamValidationError, ValueError), match="yesterday"):
        run(airflow, f"{pipeline.dag_id}_rewind", {"to": "yesterday"})
    assert all_epochs(pipeline.tables) == before
