"""What a task of a pipeline's DAG does: one step, for the data interval of its run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    AirflowTaskTimeout,
)

from rebalance.airflow import SAID, SUMMARY
from rebalance.airflow.form import PLANNING, as_asked
from rebalance.errors import NotClosedError, OrderError, RebalanceError, SkippedError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.warm import kept_warm
from rebalance.steps import AS_USUAL, RESULTS, Insist, run_step, steps_of

log = logging.getLogger("rebalance")

#: What is called with Airflow's context and the alert in it, by DAG; filled when the DAG file is read, which every task does first.
NOTIFIERS: dict[str, Sequence[Callable[[Any], object]]] = {}
#: How long a task waits before it looks again whether the run before has its results.
NEXT_LOOK = timedelta(seconds=30)
#: States in which a task stays unless somebody clears it.
ENDED = ("failed", "upstream_failed", "skipped", "removed")


def run_task(
    step: str,
    pipeline_file: str,
    data_interval_start: datetime | None = None,
    data_interval_end: datetime | None = None,
    params: Mapping[str, Any] | None = None,
    dag_run: Any = None,
    ti: Any = None,
    outlet_events: Any = None,
) -> str:
    """What every task does: its step, for the run's data interval. What goes wrong is left where the run's note is made of it."""
    # Imported here: Airflow reads this module with every DAG file, and storage needs Arrow.
    from rebalance.steps.trouble import trouble_in_words

    known: tuple[Pipeline, Interval] | None = None
    began = time.perf_counter()
    try:
        known = pipeline, interval = pipeline_and_interval(pipeline_file, data_interval_start, data_interval_end)
        scheduled = dag_run is None or dag_run.run_type == "scheduled"
        wanted = {} if scheduled else params or {}
        with trouble_in_words(pipeline.tables):
            if not wanted.get("now"):
                wait_until_closed(pipeline, interval, scheduled=scheduled)
            if not wanted.get("skip"):
                require_results_before(ti, pipeline, interval)
            # Whoever does not want to catch up wants intervals to be left out.
            skip = bool(wanted.get("skip")) or (scheduled and not pipeline.airflow.catchup)
            followed, asked = as_asked(pipeline, wanted) if step in PLANNING else (pipeline, "")
            with kept_warm(pipeline.spark.warm if is_own_process() else 0):
                # It is closed, or a person says that it need not be.
                said = run_step(step, followed, interval, Insist(now=True, skip=skip, asked=asked))
        show(pipeline, interval, step, time.perf_counter() - began, outlet_events, ti)
        alert(pipeline, interval, step)
        return f"{said}; {asked}" if asked else said
    except SkippedError as error:
        leave(ti, SAID, str(error))
        raise AirflowSkipException(str(error)) from None
    except AirflowRescheduleException:
        raise
    except (Exception, AirflowTaskTimeout) as error:
        said = str(error) if isinstance(error, AirflowFailException) else f"{type(error).__name__}: {error}"
        leave(ti, SAID, said)
        # Airflow retries every other exception. What took too long to plan would do so again, and results wait for it; what is far from
        # closed is so for longer than all retries.
        hopeless = isinstance(error, NotClosedError) or (isinstance(error, AirflowTaskTimeout) and step != RESULTS)
        final = (
            hopeless or isinstance(error, AirflowFailException) or (isinstance(error, RebalanceError) and error.final)
        )
        if known and (final or ti is None or ti.try_number > ti.max_tries):
            alert(*known, step, error)
        if final:
            raise AirflowFailException(said) from None
        raise


def leave(ti: Any, key: str, text: str) -> None:
    """Leave words where the notes on a run are made of them."""
    if ti:
        ti.xcom_push(key=key, value=text)


def show(
    pipeline: Pipeline, interval: Interval, step: str, seconds: float, outlet_events: Any = None, ti: Any = None
) -> None:
    """Tell Airflow's assets, metrics and notes what was done; that this fails is no reason to fail the step."""
    from rebalance.airflow.assets import describe_events
    from rebalance.airflow.metrics import emit, summary_of
    from rebalance.storage.history import read_history

    try:
        if outlet_events is not None:
            describe_events(pipeline, interval, step, outlet_events)
        # Where the results come first, the plan is known only at the end.
        tells = step in (RESULTS, steps_of(pipeline)[-1].name)
        newest = read_history(pipeline.tables, 1) if tells else []
        record = newest[0] if newest and newest[0].interval_id == interval.id else None
        emit(pipeline, step, seconds, record)
        if record:
            leave(ti, SUMMARY, summary_of(record))
    except Exception:
        log.warning("%s %s: its assets, metrics or summary are not complete", step, interval.id, exc_info=True)


def alert(pipeline: Pipeline, interval: Interval, step: str, error: BaseException | None = None) -> None:
    """Post what needs a person, and give it to the notifiers of the DAG file."""
    from rebalance.steps.alerts import tell

    for found in tell(pipeline, interval, step, error):
        for notifier in NOTIFIERS.get(pipeline.dag_id, ()):
            try:
                notifier({**current_context(), "alert": found})
            except Exception:
                log.warning("a notifier did not take the alert %s", found.kind, exc_info=True)


def current_context() -> dict[str, Any]:
    """Airflow's context of the running task."""
    from airflow.sdk import get_current_context

    with suppress(RuntimeError):
        return dict(get_current_context())
    return {}


def wait_until_closed(pipeline: Pipeline, interval: Interval, *, scheduled: bool) -> None:
    """Give the worker back until the interval is closed, then have the task started again; that is no retry.

    A run by hand is refused where its interval has not even ended: its date may be any, and it would hold up all others until then.
    """
    # Imported here: Airflow reads this module with every DAG file.
    from rebalance.steps.turn import require_closed, time_left

    left = time_left(pipeline, interval)
    if not left:
        return
    if not scheduled and left > pipeline.interval.grace:
        require_closed(pipeline, interval, AS_USUAL)
    log.info("%s %s is not closed yet: waiting for %s", pipeline.name, interval.id, left)
    raise AirflowRescheduleException(datetime.now(UTC) + left)  # type: ignore[no-untyped-call]


def is_own_process() -> bool:
    """Whether an executor has started this process for one task; tasks that share a process share its Spark anyway."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), CommsDecoder)


def pipeline_and_interval(file: str, start: datetime | None, end: datetime | None) -> tuple[Pipeline, Interval]:
    """The pipeline, and which of its intervals the run's data interval is."""
    if start is None or end is None:
        raise OrderError(
            "this run has no data interval, so there is no telling which events it should process. "
            "Trigger it with a logical date (it processes the last interval that ended by then), or backfill a range of dates."
        )
    pipeline = load_pipeline(file)
    interval = pipeline.interval_at(utc(start))
    if interval.end.timestamp() != end.timestamp():
        raise OrderError(
            f"the run's data interval ends at {end.isoformat()}, but {interval} is an interval of the pipeline. "
            "It was created before interval.length was changed: delete this run and trigger the interval anew."
        )
    return pipeline, interval


def utc(date: datetime) -> datetime:
    """One of Airflow's dates, which are of its own kind, as a plain one."""
    return datetime.fromtimestamp(date.timestamp(), UTC)


def require_results_before(ti: Any, pipeline: Pipeline, interval: Interval) -> None:
    """Wait for the run before while it is at work, and fail at once if it has no results: this interval would build on state that is not there.

    Two runs are at work at a time where a backfill meets the scheduler's runs, or was told to have several active ones.
    """
    before = ti.get_previous_dagrun() if ti else None
    if before is None or before.data_interval_start is None or utc(before.data_interval_start) >= interval.start:
        return
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=[RESULTS], run_ids=[before.run_id])
    state = found.get(before.run_id, {}).get(RESULTS)
    if state == "success":
        return
    # The tables know better: the task may have been cleared, or failed when it was run once more, or its interval been left out.
    from rebalance.storage.epochs import current_epoch

    newest = current_epoch(pipeline.tables)
    if newest is not None and newest.interval_id >= pipeline.interval_at(utc(before.data_interval_start)).id:
        return
    # Not for one that is only queued: with one active run at a time it waits for the place that this run has.
    if before.state == "running" and state not in ENDED:
        log.info("%s %s: waiting for the results of the run before, %s", pipeline.name, interval.id, before.run_id)
        raise AirflowRescheduleException(datetime.now(UTC) + NEXT_LOOK)  # type: ignore[no-untyped-call]
    raise OrderError(
        f"the run before, {before.run_id}, has no results: its {RESULTS} is {state or 'not run yet'}. "
        "Clear that task first, then the failed ones of this run, and unpause the DAG. To leave its interval out for good, trigger "
        "a run of this one's by hand, with `skip`."
    )
