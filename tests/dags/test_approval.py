"""A person's approval: asked for in Airflow, beside the runs, which never wait. The jobs are stand-ins; Airflow and the tables are real."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.pipeline.file import load_pipeline
from rebalance.storage import control
from rebalance.storage.approvals import is_approved, pending
from rebalance.storage.epochs import current_epoch, publish, store_function
from rebalance.storage.schemas import SCHEMAS
from tests.dags.conftest import WritePipeline
from tests.dags.test_rules import FIRST, SECOND, recorded, states
from tests.dags.test_time import trigger


@pytest.fixture
def asking(
    write_pipeline: WritePipeline, airflow: Any, fake_jobs: dict[str, Any], request: pytest.FixtureRequest
) -> SimpleNamespace:
    """A pipeline in mode approve with one active function: its two DAGs, its tables, and a way to leave a plan."""
    name = f"p{crc32(request.node.name.encode())}"
    file = write_pipeline(name, mode="approve")
    root = load_pipeline(file).tables
    function = store_function(root, PartitionFunction(version=0, channels=4, slots=consistent_ring(4)), FIRST.id)
    publish(root, None, kind="start", function_version=function.version, state_version=-1)
    dag = airflow.load_dag(f"rebalance_{name}")
    return SimpleNamespace(
        dag=dag,
        question=airflow.load_dag(f"rebalance_{name}_approve"),
        root=root,
        plan=lambda plan_id: leave_plan(root, plan_id),
        airflow=airflow,
    )


def leave_plan(root: str, plan_id: str) -> str:
    """A plan as make_plan would leave it, each with a function of its own; returns the function's digest."""
    epoch = current_epoch(root)
    assert epoch is not None
    planned = PartitionFunction(version=0, channels=4, slots=consistent_ring(4), routes={plan_id: 1})
    function = store_function(root, planned, FIRST.id)
    row: dict[str, Any] = dict.fromkeys(SCHEMAS["plans"].names)
    row |= {
        "plan_id": plan_id,
        "interval_id": plan_id,
        "base_function": epoch.function_version,
    }
    row |= {"decision": "apply", "reason": "better", "planner": "mixed", "function_version": function.version}
    row |= {"theta_before": 0.5, "theta_after": 0.05, "skewness_before": 1.5, "skewness_after": 1.05}
    row |= {"moved_keys": 12, "moved_bytes": 3456.0, "moved_share": 0.01, "routes": 7}
    control.append(root, "plans", [row])
    return function.digest()


def questions(asking: Any) -> list[Any]:
    """The runs that ask, oldest first."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        of_dag = select(DagRun).where(DagRun.dag_id == asking.question.dag_id).order_by(DagRun.id)
        return list(session.scalars(of_dag).all())


def go_on(asking: Any, run_id: str) -> dict[str, str]:
    """Let Airflow work on a question until it has ended or waits for a person; returns its tasks' states."""
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run: Any = session.scalars(
            select(DagRun).where(DagRun.dag_id == asking.question.dag_id, DagRun.run_id == run_id)
        ).one()
        run.dag = DBDagBag().get_latest_version_of_dag(run.dag_id, session=session)
        # It says so when only a person could go on.
        with suppress(asking.airflow.RunError):
            asking.airflow.finish(asking.question, run, session)
        return {ti.task_id: str(ti.state) for ti in run.get_task_instances(session=session)}


def form(asking: Any, run_id: str) -> str:
    """What Airflow's form shows to a person."""
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    of_run = select(TaskInstance.id).where(TaskInstance.dag_id == asking.question.dag_id, TaskInstance.run_id == run_id)
    with create_session() as session:
        return str(session.scalars(select(HITLDetail).where(HITLDetail.ti_id.in_(of_run))).one().body)


def reply(asking: Any, run_id: str, option: str) -> None:
    """A person presses a button of Airflow's form."""
    from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
    from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
    from airflow.utils.session import create_session

    person: Any = SimpleNamespace(get_id=lambda: "7", get_name=lambda: "Ann")
    given = UpdateHITLDetailPayload(chosen_options=[option], params_input={})
    with create_session() as session:
        update_hitl_detail(asking.question.dag_id, run_id, "approve_plan", given, person, session)


def test_nothing_is_asked_when_no_plan_waits(asking: Any) -> None:
    asking.airflow.run_interval(asking.dag, FIRST)
    assert recorded(asking.dag, FIRST)[0].state == "success"
    assert states(asking.dag, FIRST)["ask_approval"] == ("skipped", 1)
    assert questions(asking) == []


def test_a_plan_is_asked_for_once_and_neither_results_nor_the_next_interval_wait(asking: Any) -> None:
    digest = asking.plan("a")
    for interval in (FIRST, SECOND):
        asking.airflow.run_interval(asking.dag, interval)
        assert states(asking.dag, interval)["process_batch"] == ("success", 1)
        assert recorded(asking.dag, interval)[0].state == "success"
    (question,) = questions(asking)
    assert question.conf == {"plan_id": "a", "digest": digest}
    assert states(asking.dag, FIRST)["ask_approval"] == ("success", 1)
    assert states(asking.dag, SECOND)["ask_approval"] == ("skipped", 1)


@pytest.mark.parametrize(("option", "answer"), [("Approve", "approve"), ("Reject", "reject")])
def test_an_answer_is_recorded_for_the_very_function_that_was_shown(asking: Any, option: str, answer: str) -> None:
    digest = asking.plan("a")
    asking.airflow.run_interval(asking.dag, FIRST)
    (question,) = questions(asking)
    assert go_on(asking, question.run_id)["approve_plan"] == "awaiting_input"
    shown = form(asking, question.run_id)
    assert "Moves 12 keys, 3,456 bytes of state (1.0% of all)" in shown
    assert "**Approve:** `migrate_state` of the next run" in shown
    assert f"/rebalance/#/dag/{asking.dag.dag_id}/interval/a" in shown
    assert pending(asking.root) is not None
    reply(asking, question.run_id, option)
    assert go_on(asking, question.run_id) == {"approve_plan": "success", "record_answer": "success"}
    (row,) = control.rows(asking.root, "approvals")
    assert (row["plan_id"], row["digest"], row["answer"], row["who"]) == ("a", digest, answer, "Ann")
    assert row["answered_at"] <= datetime.now(UTC)
    assert is_approved(asking.root, "a", digest) is (answer == "approve")
    assert pending(asking.root) is None


def test_a_dry_run_asks_nobody(asking: Any) -> None:
    asking.plan("a")
    asked = trigger(asking.airflow, asking.dag, FIRST.end + timedelta(minutes=1), dry_run=True)
    (ask,) = [ti for ti in asked.get_task_instances() if ti.task_id == "ask_approval"]
    assert (ask.state, questions(asking)) == ("skipped", [])


def test_an_answer_to_a_superseded_plan_fails_and_has_no_effect(asking: Any) -> None:
    old = asking.plan("a")
    asking.airflow.run_interval(asking.dag, FIRST)
    (question,) = questions(asking)
    go_on(asking, question.run_id)
    new = asking.plan("b")
    asking.airflow.run_interval(asking.dag, SECOND)
    reply(asking, question.run_id, "Approve")
    assert go_on(asking, question.run_id) == {"approve_plan": "success", "record_answer": "failed"}
    assert not is_approved(asking.root, "a", old)
    assert not is_approved(asking.root, "b", new)
    assert [run.conf["plan_id"] for run in questions(asking)] == ["a", "b"]


def test_a_superseded_question_closes_itself_and_an_open_one_waits_on(asking: Any) -> None:
    """When a question has waited for an interval's length, the scheduler wakes it; nobody has answered."""
    asking.plan("a")
    asking.airflow.run_interval(asking.dag, FIRST)
    (question,) = questions(asking)
    go_on(asking, question.run_id)
    wake(asking, question.run_id)
    assert go_on(asking, question.run_id)["approve_plan"] == "awaiting_input"
    asking.plan("b")
    wake(asking, question.run_id)
    assert go_on(asking, question.run_id) == {"approve_plan": "skipped", "record_answer": "skipped"}


def test_a_plan_is_answered_over_http_by_a_person_with_a_name_and_the_right_to(
    asking: Any, api: Callable[[str], Any]
) -> None:
    digest = asking.plan("a")
    asking.airflow.run_interval(asking.dag, FIRST)
    run_id = f"plan__a__{digest[:12]}"
    go_on(asking, run_id)
    ann, vic = api("ann"), api("vic")
    runs = f"/api/v2/dags/{asking.question.dag_id}/dagRuns"
    answer = f"{runs}/{run_id}/taskInstances/approve_plan/-1/hitlDetails"
    (question,) = vic.get(f"{runs}/~/hitlDetails", params={"response_received": False}).json()["hitl_details"]
    assert (question["task_instance"]["dag_run_id"], question["options"]) == (run_id, ["Approve", "Reject"])
    assert vic.patch(answer, json={"chosen_options": ["Approve"]}).status_code == 403
    assert ann.patch(answer, json={"chosen_options": ["Perhaps"]}).status_code == 400
    assert ann.patch(answer, json={"chosen_options": ["Approve"]}).status_code == 200
    assert ann.patch(answer, json={"chosen_options": ["Reject"]}).status_code == 409, "a question is answered once"
    assert go_on(asking, run_id) == {"approve_plan": "success", "record_answer": "success"}
    (row,) = control.rows(asking.root, "approvals")
    assert (row["plan_id"], row["digest"], row["answer"], row["who"]) == ("a", digest, "approve", "ann")


def wake(asking: Any, run_id: str) -> None:
    """What Airflow's scheduler does with a question that has waited for its `response_timeout`."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        waiting: Any = session.scalars(
            select(TaskInstance).where(
                TaskInstance.dag_id == asking.question.dag_id,
                TaskInstance.run_id == run_id,
                TaskInstance.task_id == "approve_plan",
            )
        ).one()
        assert waiting.trigger_timeout is not None
        waiting.trigger_timeout -= timedelta(days=1)
    SchedulerJobRunner(Job()).check_awaiting_input_timeouts()
