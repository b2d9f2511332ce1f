"""How a run says what became of it, so that nobody has to open a log: notes on tasks and runs, and a pause if results are missing.

A task of Airflow 3 cannot write notes: it has no way to the database and the API for tasks knows none. Two other processes of Airflow can,
and call this module, a listener. The API server hears of a step that has succeeded by the events of its tables, right then; the scheduler
hears of every run's end, and notes all the other tasks. So no note has two writers.

What a task says is what it returned, or what it left under the key `SAID`; what the run came to is under `SUMMARY`. A person's own note is
never touched.
"""

from __future__ import annotations

from typing import Any

from airflow.listeners import hookimpl
from sqlalchemy import select
from sqlalchemy.orm import object_session

from rebalance.airflow import GROUP, SAID, SUMMARY
from rebalance.steps import RESULTS

COMPLETE = "**Results are complete; the interval was not planned.**"
MISSING = "**Results are missing, and the DAG is paused.**"
REFUSED = "**This run was refused and has changed nothing; scheduled runs go on.**"
#: How the trouble of a run begins whose interval has not its turn.
_NOT_ITS_TURN = ("OrderError: ", "NotClosedError: ")
#: Our tasks, by the names of their operators.
_OURS = ("RebalanceOperator", "AskApproval", "ApprovePlan")
#: Who has written a note, in the place of a person.
_AUTHOR = "rebalance"
#: Where Airflow keeps what a task returned.
_RETURNED = "return_value"
_SILENT = "It ended without a word: see its log."
#: Airflow keeps no more of a note.
_LONGEST = 1000


@hookimpl
def on_asset_event_emitted(asset_event: Any) -> None:
    """A step has succeeded: note what it said. A step has several tables, and the note is the same each time."""
    if asset_event.asset.group != GROUP:
        return
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        found = select(TaskInstance).where(
            TaskInstance.dag_id == asset_event.source_dag_id,
            TaskInstance.run_id == asset_event.source_run_id,
            TaskInstance.task_id == asset_event.source_task_id,
        )
        for ti in session.scalars(found):
            _note(ti, _said(ti, session).get((ti.task_id, _RETURNED)))


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """Note what failed, and pause the DAG if results are missing: later intervals build on their state."""
    session: Any = object_session(dag_run)
    tasks = _note_tasks(dag_run, session)
    if not tasks:
        return
    left = _said(dag_run, session)
    failed = [task for task, ti in tasks.items() if ti.state == "failed"]
    said = "\n\n".join(f"`{task}` failed: {left.get((task, SAID), _SILENT)}" for task in failed)
    if RESULTS not in tasks:
        _note(dag_run, said)
    elif tasks[RESULTS].state == "success":
        _note(dag_run, "\n\n".join([f"{COMPLETE} {said}", *_summary(left)]))
    elif dag_run.run_type != "scheduled" and left.get((RESULTS, SAID), "").startswith(_NOT_ITS_TURN):
        _note(dag_run, f"{REFUSED} {said}")
    else:
        _note(dag_run, f"{MISSING} {said}")
        _pause(dag_run.dag_id, session)


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """Note what the run came to, in the place of what was noted when it failed before."""
    session: Any = object_session(dag_run)
    tasks = _note_tasks(dag_run, session)
    if not tasks:
        return
    left = _said(dag_run, session)
    if RESULTS in tasks:
        # An interval that was left out has only the reason.
        said = _summary(left) or [left.get((RESULTS, SAID), "")]
    else:
        said = [text for (_, key), text in left.items() if key == _RETURNED]
    _note(dag_run, "\n\n".join(said))


def _note_tasks(dag_run: Any, session: Any) -> dict[str, Any]:
    """Note what became of each of our tasks, and return them; none of any other run. Steps that have succeeded have their notes."""
    if session is None or not dag_run.dag_id.startswith("rebalance_"):
        return {}
    tasks = {ti.task_id: ti for ti in dag_run.get_task_instances(session=session) if ti.operator in _OURS}
    left = _said(dag_run, session) if tasks else {}
    for task, ti in tasks.items():
        if ti.state == "failed":
            _note(ti, left.get((task, SAID), _SILENT))
        elif ti.state == "skipped":
            _note(ti, left.get((task, SAID)))
        elif ti.state == "success" and RESULTS not in tasks:
            _note(ti, left.get((task, _RETURNED)))
    return tasks


def _said(of: Any, session: Any) -> dict[tuple[str, str], str]:
    """What the tasks of a run, or of a task's run, have left in words: by task and key."""
    from airflow.models.xcom import XComModel

    left = select(XComModel).where(
        XComModel.dag_id == of.dag_id,
        XComModel.run_id == of.run_id,
        XComModel.key.in_([SAID, SUMMARY, _RETURNED]),
    )
    said = {(found.task_id, found.key): XComModel.deserialize_value(found) for found in session.scalars(left)}
    return {where: text for where, text in said.items() if isinstance(text, str)}


def _summary(left: dict[tuple[str, str], str]) -> list[str]:
    """What the run came to; the last step to say so knows most."""
    said = {task: text for (task, key), text in left.items() if key == SUMMARY}
    return [said.get("migrate_state") or said[RESULTS]] if said else []


def _note(marked: Any, text: str | None) -> None:
    """Note something on a run or a task, or take our note back; a person's own stays."""
    held = "dag_run_note" if hasattr(marked, "dag_run_note") else "task_instance_note"
    note = getattr(marked, held)
    if note is not None and note.user_id != _AUTHOR:
        return
    short = _shortened(text or "")
    if not short:
        setattr(marked, held, None)
    elif note is None:
        marked.note = (short, _AUTHOR)
    else:
        note.content = short


def _pause(dag_id: str, session: Any) -> None:
    from airflow.models.dag import DagModel

    dag = session.get(DagModel, dag_id)
    if dag is not None:
        dag.is_paused = True


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
