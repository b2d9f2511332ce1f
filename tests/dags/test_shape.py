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

import pytest

from rebalance.steps import STEPS
from tests.dags.conftest import WritePipeline

ReadDags = Callable[[], ModuleType]


def shape(dag: Any) -> dict[str, list[str]]:
    return {task.task_id: sorted(task.downstream_task_ids) for task in dag.topological_sort()}


def test_the_projects_own_dag_folder_is_read_without_errors(project: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(project / "dags"))
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["rebalance_demo", "rebalance_demo_maintain", "rebalance_demo_rewind"]


def test_a_dag_file_of_a_users_own_needs_two_lines_and_no_folder_of_this_project(
    write_pipeline: WritePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    folder = write_pipeline("theirs").parent
    monkeypatch.delenv("REBALANCE_PIPELINES")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "balanced.py").write_text(
        f"from rebalance.airflow import pipelines\nglobals().update(pipelines({str(folder)!r}))  # Airflow DAGs\n"
    )
    bag = DagBag(str(tmp_path / "dags"))
    assert bag.import_errors == {}
    assert sorted((name, dag.fileloc) for name, dag in bag.dags.items()) == [
        (f"rebalance_theirs{what}", str(tmp_path / "dags" / "balanced.py")) for what in ("", "_maintain", "_rewind")
    ]


def test_a_pipeline_is_five_tasks_in_a_row_and_a_mark_whether_it_was_planned(
    write_pipeline: WritePipeline, dag_file: ReadDags
) -> None:
    write_pipeline()
    assert shape(dag_file().rebalance_small) == {
        "collect_stats": ["check_quality"],
        "check_quality": ["make_plan"],
        "make_plan": ["migrate_state"],
        "migrate_state": ["planned", "process_batch"],
        "planned": [],
        "process_batch": [],
    }


def test_results_come_first_if_the_pipeline_says_so(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline(when="after")
    assert shape(dag_file().rebalance_small) == {
        "process_batch": ["collect_stats"],
        "collect_stats": ["check_quality"],
        "check_quality": ["make_plan"],
        "make_plan": ["migrate_state"],
        "migrate_state": [],
    }


def test_mode_shadow_has_the_same_tasks(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline("plain")
    write_pipeline("watching", mode="shadow")
    dags = dag_file()
    assert shape(dags.rebalance_watching) == shape(dags.rebalance_plain)


@pytest.mark.parametrize("when", ["before", "after"])
def test_mode_approve_asks_a_person_in_a_dag_of_its_own_beside_the_results(
    write_pipeline: WritePipeline, dag_file: ReadDags, when: str
) -> None:
    write_pipeline(mode="approve", when=when)
    dags = dag_file()
    found = shape(dags.rebalance_small)
    assert found["migrate_state"] == ["ask_approval", "process_batch"] if when == "before" else ["ask_approval"]
    assert found["ask_approval"] == []
    assert shape(dags.rebalance_small_approve) == {"approve_plan": ["record_answer"], "record_answer": []}
    question = dags.rebalance_small_approve.get_task("approve_plan")
    assert (question.retries, question.defaults, question.options) == (0, None, ["Approve", "Reject"])
    assert dags.rebalance_small_approve.is_paused_upon_creation is False


def test_only_mode_approve_has_a_dag_that_asks(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline("plain")
    write_pipeline("asking", mode="approve")
    found = {name for name in vars(dag_file()) if name.startswith("rebalance_")}
    assert {name for name in found if not name.endswith(("_maintain", "_rewind"))} == {
        "rebalance_plain",
        "rebalance_asking",
        "rebalance_asking_approve",
    }


def test_a_pipeline_may_not_have_the_name_of_another_ones_questions(
    write_pipeline: WritePipeline, dag_file: ReadDags
) -> None:
    write_pipeline("x", mode="approve")
    write_pipeline("x_approve")
    dags = dag_file()
    assert "approve_plan" in shape(dags.rebalance_x_approve)
    assert "taken by another pipeline file" in dags.rebalance_x_approve_duplicate.doc_md


def test_runs_follow_one_another_and_a_failed_one_does_not_hold_up_the_next(
    write_pipeline: WritePipeline, dag_file: ReadDags
) -> None:
    write_pipeline(mode="approve", more='pool = "spark"\ncatchup = false\n')
    dags = dag_file()
    dag, asking = dags.rebalance_small, dags.rebalance_small_approve
    assert dag.max_active_runs == 1
    assert dag.max_consecutive_failed_dag_runs == 0
    assert dag.catchup is False
    assert not any(task.depends_on_past for task in dag.tasks)
    tasks = [*dag.tasks, *asking.tasks]
    assert {task.pool for task in tasks} == {"spark"}
    assert {task.retries for task in tasks if task.task_id != "approve_plan"} == {1}
    assert {task.retry_delay for task in tasks} == {timedelta(0)}


def test_only_the_results_run_whatever_became_of_the_tasks_before(
    write_pipeline: WritePipeline, dag_file: ReadDags
) -> None:
    write_pipeline()
    rules = {task.task_id: task.trigger_rule.value for task in dag_file().rebalance_small.tasks}
    assert [task for task, rule in rules.items() if rule != "all_success"] == ["process_batch"]


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
    assert all(f"**{step.name}**" in dag.doc_md for step in STEPS)
    assert f"{tmp_path}/tables_small" in dag.doc_md
    assert "| `operator.window` | **2** | w: how many intervals" in dag.doc_md
    assert "| `planning.theta_max` | 0.08 |" in dag.doc_md
    assert "spark.executor.cores = 3" in dag.doc_md
    assert "hunter2" not in dag.doc_md
    assert all(task.doc_md.startswith(task.task_id) for task in dag.tasks)


def test_the_page_lists_the_steps_in_the_pipelines_own_order(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline("before")
    write_pipeline("after", when="after")
    dags = dag_file()
    assert "\n1. **collect_stats** " in dags.rebalance_before.doc_md
    assert "\n5. **process_batch** " in dags.rebalance_before.doc_md
    assert "\n1. **process_batch** " in dags.rebalance_after.doc_md
    assert "\n5. **migrate_state** " in dags.rebalance_after.doc_md


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_page_draws_the_tasks_in_their_order_with_the_tables_they_write(
    write_pipeline: WritePipeline, dag_file: ReadDags, when: str
) -> None:
    write_pipeline(when=when)
    dag = dag_file().rebalance_small
    drawn = [line.strip("|").split("|") for line in dag.doc_md.splitlines() if line.startswith("| ▼ ")]
    tasks = [task.task_id for task in dag.topological_sort() if task.task_id != "planned"]
    assert [name.strip() for name, _ in drawn] == [f"▼ **{task}**" for task in tasks]
    first = (
        ("interval_stats", "key_stats", "channel_stats")
        if when == "before"
        else ("results", "batches", "state", "epochs")
    )
    assert drawn[0][1].strip() == ", ".join(f"`{table}`" for table in first)


def test_the_dags_have_the_owner_that_the_file_names(write_pipeline: WritePipeline, dag_file: ReadDags) -> None:
    write_pipeline("theirs", mode="approve", more='owner = "risk team"\n')
    dags = [dag for name, dag in vars(dag_file()).items() if name.startswith("rebalance_theirs")]
    assert len(dags) == 4
    assert {task.owner for dag in dags for task in dag.tasks} == {"risk team"}


def test_a_broken_file_is_shown_and_takes_no_other_down(
    write_pipeline: WritePipeline, pipelines: Path, dag_file: ReadDags
) -> None:
    write_pipeline("good")
    write_pipeline("typo", more="[planing]\n")
    (pipelines / "Not TOML.toml").write_text("= nonsense")
    dags = dag_file()
    assert "process_batch" in shape(dags.rebalance_good)
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
    assert "process_batch" in shape(dags.rebalance_a)
    assert "taken by another pipeline file" in dags.rebalance_b.doc_md


@pytest.mark.parametrize("mode", ["auto", "approve"])
def test_reading_the_dag_file_imports_nothing_heavy(
    project: Path, record_property: Callable[[str, object], None], write_pipeline: WritePipeline, mode: str
) -> None:
    """In a fresh interpreter, beyond what importing Airflow alone brings."""
    write_pipeline(mode=mode)
    program = """
import json, sys, time
from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
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
