"""How a run is marked so that nobody overlooks what went wrong: notes on the run and on the failed tasks, and a pause if results are missing.

A task of Airflow 3 cannot write notes: it has no way to the database and the API for tasks knows none. Airflow's scheduler can, and calls
this module, a listener, when a run ends. It finds what the tasks left for it under the key `TROUBLE`.
"""

from __future__ import annotations

from typing import Any

from airflow.listeners import hookimpl
from sqlalchemy import select
from sqlalchemy.orm import object_session

from rebalance.airflow import TROUBLE
from rebalance.steps import RESULTS

COMPLETE = "**Results are complete; the interval was not planned.**"
MISSING = "**Results are missing, and the DAG is paused.**"
REFUSED = "**This run was refused and has changed nothing; scheduled runs go on.**"
#: How the trouble of a run begins whose interval has not its turn.
_NOT_ITS_TURN = ("OrderError: ", "NotClosedError: ")
#: Airflow keeps no more of a note.
_LONGEST = 1000


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """Note what failed, and pause the DAG if results are missing: later intervals build on their state."""
    session: Any = object_session(dag_run)
    tasks = _tasks(dag_run, session)
    if RESULTS not in tasks:
        return
    troubles = _troubles(dag_run, session)
    failed = [ti for ti in tasks.values() if ti.state == "failed"]
    for ti in failed:
        ti.note = _shortened(troubles.get(ti.task_id, "It ended without a word: see its log."))
    said = "\n\n".join(f"`{ti.task_id}` failed: {ti.note}" for ti in failed)
    if tasks[RESULTS].state == "success":
        _note(dag_run, f"{COMPLETE} {said}")
        return
    if dag_run.run_type != "scheduled" and troubles.get(RESULTS, "").startswith(_NOT_ITS_TURN):
        _note(dag_run, f"{REFUSED} {said}")
        return
    _note(dag_run, f"{MISSING} {said}")
    _pause(dag_run.dag_id, session)


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """Take back what was noted when the run failed before."""
    session: Any = object_session(dag_run)
    if RESULTS in _tasks(dag_run, session) and _is_ours(dag_run.note):
        session.delete(dag_run.dag_run_note)


def _tasks(dag_run: Any, session: Any) -> dict[str, Any]:
    """The tasks of a run of a pipeline; none of any other run."""
    if session is None or not dag_run.dag_id.startswith("rebalance_"):
        return {}
    return {ti.task_id: ti for ti in dag_run.get_task_instances(session=session)}


def _troubles(dag_run: Any, session: Any) -> dict[str, str]:
    """What each task left about its trouble."""
    from airflow.models.xcom import XComModel

    left = select(XComModel).where(
        XComModel.dag_id == dag_run.dag_id, XComModel.run_id == dag_run.run_id, XComModel.key == TROUBLE
    )
    return {found.task_id: str(XComModel.deserialize_value(found)) for found in session.scalars(left)}


def _note(dag_run: Any, text: str) -> None:
    # A person's own note stays; the failed tasks have theirs too.
    if not dag_run.note or _is_ours(dag_run.note):
        dag_run.note = _shortened(text)


def _is_ours(note: str | None) -> bool:
    return bool(note) and str(note).startswith((COMPLETE, MISSING, REFUSED))


def _pause(dag_id: str, session: Any) -> None:
    from airflow.models.dag import DagModel

    dag = session.get(DagModel, dag_id)
    if dag is not None:
        dag.is_paused = True


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
