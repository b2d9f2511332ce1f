"""The doctor on a real Airflow's own records: migrated, with the DAGs of a pipeline, paused or not, and a file that cannot be imported."""

from __future__ import annotations

import os
from typing import Any

import pytest

from rebalance.pipeline.file import load_pipeline
from rebalance.view.doctor.airflow import airflow as look
from tests.dags.conftest import WritePipeline


@pytest.fixture
def seen(airflow: Any, write_pipeline: WritePipeline) -> Any:
    """What the doctor finds of a pipeline that Airflow has read, by name: state and what was seen."""
    file = write_pipeline("doctored")
    airflow.load_dag("rebalance_doctored")

    def find(pipeline: bool = True) -> dict[str, tuple[str, str]]:
        return {found.name: (found.state, found.seen) for found in look(load_pipeline(file) if pipeline else None)}

    return find


def test_the_doctor_reads_airflow_s_records_and_says_which_dags_are_paused(seen: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    found = seen()
    assert found["airflow database"] == (
        "ok",
        f"sqlite {os.environ['AIRFLOW_HOME']}/airflow.db, migrated; no scheduler has ever run on it",
    )
    assert found["airflow plugin"][0] == "ok"
    for paused, said in (
        (True, ("warn", "rebalance_doctored is paused")),
        (False, ("ok", "rebalance_doctored is there and not paused")),
    ):
        with create_session() as session:
            session.execute(update(DagModel).where(DagModel.dag_id == "rebalance_doctored").values(is_paused=paused))
        assert seen()["airflow DAGs"] == said
    state, counted = seen(pipeline=False)["airflow DAGs"]
    assert (state, " of pipelines, " in counted) == ("ok", True)


def test_a_file_that_airflow_cannot_import_and_a_scheduler_that_is_gone_are_told(seen: Any) -> None:
    from datetime import UTC, datetime, timedelta

    from airflow.jobs.job import Job
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    broken = ParseImportError(
        filename="broken.py", bundle_name="dags-folder", stacktrace="why", timestamp=datetime.now(UTC)
    )
    gone = Job(job_type="SchedulerJob", latest_heartbeat=datetime.now(UTC) - timedelta(hours=1))
    with create_session() as session:
        session.add_all([broken, gone])
    try:
        found = look(None)
    finally:
        with create_session() as session:
            session.execute(delete(ParseImportError))
            session.execute(delete(Job).where(Job.job_type == "SchedulerJob"))
    said = [(one.name, one.state, one.seen) for one in found]
    assert ("airflow DAGs", "fail", "broken.py cannot be imported") in said
    (records,) = [seen for name, state, seen in said if (name, state) == ("airflow database", "warn")]
    assert records.endswith("no scheduler for 60 min")
