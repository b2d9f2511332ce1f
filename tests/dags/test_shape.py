"""The DAGs as Airflow reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.dags.conftest import WritePipeline

ReadDags = Callable[[], ModuleType]


def shape(dag: Any) -> dict[str, list[str]]:
    return {task.task_id: sorted(task.downstream_task_ids) for task in dag.topological_sort()}


def test_the_projects_own_dag_folder_is_read_without_errors(project: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(project / "dags"))
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["rebalance_demo"]


def test_a_pipeline_is_five_tasks_in_a_row(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline()
    assert shape(dag_file().rebalance_small) == {
        "process_batch": ["collect_stats"],
        "collect_stats": ["check_quality"],
        "check_quality": ["make_plan"],
        "make_plan": ["migrate_state"],
        "migrate_state": [],
    }


def test_mode_shadow_has_the_same_five_tasks(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline("plain")
    write_pipeline("watching", mode="shadow")
    dags = dag_file()
    assert shape(dags.rebalance_watching) == shape(dags.rebalance_plain)


def test_mode_approve_asks_a_person_before_state_is_moved(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline(mode="approve")
    dag = dag_file().rebalance_small
    assert shape(dag)["make_plan"] == ["approve_plan"]
    assert shape(dag)["approve_plan"] == ["migrate_state"]
    approval = dag.get_task("approve_plan")
    assert (approval.retries, approval.fail_on_reject, approval.defaults) == (0, True, None)


def test_runs_follow_one_another_and_each_task_depends_on_its_past(
    write_pipeline: WritePipeline, dag_file: ReadDags
) -> None:
    write_pipeline(mode="approve", more='pool = "spark"\ncatchup = false\n')
    dag = dag_file().rebalance_small
    assert dag.max_active_runs == 1
    assert dag.max_consecutive_failed_dag_runs == 1, "a failed run pauses the DAG"
    assert dag.catchup is False
    assert all(task.depends_on_past for task in dag.tasks)
    assert {task.pool for task in dag.tasks} == {"spark"}
    assert {task.retries for task in dag.tasks if task.task_id != "approve_plan"} == {1}
    assert {task.retry_delay for task in dag.tasks} == {timedelta(0)}


def test_a_runs_data_interval_is_one_interval_of_the_pipeline(
    write_pipeline: WritePipeline, dag_file: ReadDags
) -> None:
    from airflow.serialization.encoders import coerce_to_core_timetable
    from airflow.timetables.base import TimeRestriction

    write_pipeline()
    dag = dag_file().rebalance_small
    first = datetime(2026, 1, 1, tzinfo=UTC)
    assert dag.start_date == first
    run = coerce_to_core_timetable(dag.timetable).next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(dag.start_date, None, True)
    )
    assert run is not None
    assert (run.data_interval.start, run.data_interval.end) == (first, first + timedelta(hours=1))


def test_the_page_names_the_tasks_the_tables_and_the_knobs_but_no_secret(
    write_pipeline: WritePipeline, dag_file: ReadDags, tmp_path: Path
) -> None:
    write_pipeline(more='[spark.settings]\n"fs.s3a.secret.key" = "hunter2"\n"spark.executor.cores" = "3"\n')
    dag = dag_file().rebalance_small
    assert all(f"**{task.task_id}**" in dag.doc_md for task in dag.tasks)
    assert f"{tmp_path}/tables_small" in dag.doc_md
    assert "| `operator.window` | **2** | w: how many intervals" in dag.doc_md
    assert "| `planning.theta_max` | 0.08 |" in dag.doc_md
    assert "spark.executor.cores = 3" in dag.doc_md
    assert "hunter2" not in dag.doc_md
    assert all(task.doc_md.startswith(task.task_id) for task in dag.tasks)


def test_a_broken_file_is_shown_and_takes_no_other_down(
    write_pipeline: WritePipeline, pipelines: Path, dag_file: ReadDags
) -> None:
    write_pipeline("good")
    write_pipeline("typo", more="[planing]\n")
    (pipelines / "Not TOML.toml").write_text("= nonsense")
    dags = dag_file()
    assert len(dags.rebalance_good.tasks) == 5
    typo = dags.rebalance_typo
    assert shape(typo) == {"broken_pipeline_file": []}
    assert "Did you mean 'planning'?" in typo.doc_md
    assert "broken" in typo.tags
    assert "is not TOML" in dags.rebalance_not_toml.doc_md


def test_two_files_of_one_name_are_one_pipeline_and_a_complaint(
    write_pipeline: WritePipeline, pipelines: Path, dag_file: ReadDags
) -> None:
    text = write_pipeline("a").read_text()
    (pipelines / "b.toml").write_text('name = "a"\n' + text)
    dags = dag_file()
    assert len(dags.rebalance_a.tasks) == 5
    assert "taken by another pipeline file" in dags.rebalance_b.doc_md


def test_reading_the_dag_file_imports_nothing_heavy(
    project: Path, record_property: Callable[[str, object], None]
) -> None:
    """In a fresh interpreter, beyond what importing Airflow alone brings."""
    program = """
import json, sys, time
from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
before, began = set(sys.modules), time.perf_counter()
import runpy
runpy.run_path(sys.argv[1])
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps({"new": sorted(new), "seconds": time.perf_counter() - began}))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(project / "dags" / "rebalance_pipelines.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    # Measured, not asserted: a busy machine is no fault of the file. Most of it is the import of numpy.
    record_property("seconds", found["seconds"])
    heavy = {
        "delta",
        "deltalake",
        "great_expectations",
        "matplotlib",
        "numba",
        "pandas",
        "polars",
        "pyarrow",
        "pyspark",
        "scipy",
    }
    assert heavy & set(found["new"]) == set()
