"""A pipeline in mode approve from its first interval on: the scheduler runs it, a person clicks, the next interval carries the plan out.

Everything is looked at in the browser, and held against the tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError

import pytest

from rebalance.demo.events import write_trades
from rebalance.documents.interval import interval_document
from rebalance.documents.plain import Document
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.simulate.workload import Workload
from rebalance.spark.warm import FOLDER_VARIABLE
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs
from tests.support.airflow_api import AirflowApi
from tests.support.browser import Pages, airflow_pages, enter_frame, open_tables, rows_of, text_of

DAG = "rebalance_asked"
EVENTS = 3000
DAY = timedelta(days=1)
#: Seconds that what somebody waits for may take on a busy machine: five tasks, the first of which starts Spark.
RUN = 600
PIPELINE = """\
tables = "../tables"
[source]
path = "../events"
format = "parquet"
key = "symbol"
time = "ts"
[interval]
length = "1 d"
first = {first:%Y-%m-%dT%H:%M:%SZ}
[operator]
name = "latest_match"
window = 2
parameters = {{ kind = "side", value = "price" }}
[channels]
count = 4
[planning]
mode = "approve"
[spark]
warm = 2
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Airflow with a pipeline that nothing was run of, and two days that are over."""
    folder = tmp_path_factory.mktemp("scheduled")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = Interval(today - 2 * DAY, today - DAY)
    # Keys that stay hot: what is planned on a day is good for the next.
    workload = Workload(keys=200, channels=4, z=1.0, f=0.0, seed=3)
    write_trades(folder / "events", first, workload, intervals=2, events=EVENTS)
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "asked.toml").write_text(PIPELINE.format(first=first.start))
    own = {FOLDER_VARIABLE: str(folder / "warm"), "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1"}
    with airflow_pages(folder / "airflow", folder / "pipelines", own) as served:
        yield served


def watch(person: Any, pages: Pages, dag_id: str, run_id: str, tasks: int) -> None:
    """Stay on a run's page in Airflow, which refreshes itself, until all of its tasks have succeeded."""
    person.switch_to.default_content()
    person.get(f"{pages.address}/dags/{dag_id}/runs/{run_id}")
    until(lambda: text_of(person).count("Success") >= tasks)


def open_interval(person: Any, pages: Pages, run_id: str, *wanted: str) -> str:
    """From the page of a run to its interval, by the tab."""
    person.switch_to.default_content()
    person.get(f"{pages.address}/dags/{DAG}/runs/{run_id}")
    text_of(person, "Rebalance")
    person.find_element("css selector", "a[href*='plugin/rebalance-interval']").click()
    enter_frame(person)
    return text_of(person, *wanted)


def loads_are_those_of(person: Any, document: Document) -> None:
    """What the page has of every channel is what the tables have of it."""
    open_tables(person)
    text_of(person, "Loads per channel")
    kinds = [kind for kind in ("hash", "before", "planned", "reached") if document[kind] is not None]
    wanted = [[str(one["channel"]), *(f"{one[kind]:,.0f}" for kind in kinds)] for one in document["channels"]]
    assert [[row[0], *row[2 : 2 + len(kinds)]] for row in rows_of(person, ".loads")] == wanted


def click(person: Any, words: str, within: str = "") -> None:
    person.find_element("xpath", f"//{within}button[text()='{words}']").click()


def test_a_scheduled_interval_is_watched_its_plan_approved_by_a_click_and_carried_out_by_the_next(
    quiet: Any, pages: Pages
) -> None:
    pipeline = load_pipeline(pages.pipelines / "asked.toml")
    first = pipeline.interval_at(pipeline.interval.first)
    airflow = AirflowApi(pages.address, pages.user, pages.password)
    until(lambda: airflow.unpause(DAG))
    until(lambda: at_work(airflow, first) >= {"ask_approval", "process_batch"})
    # Until the answer is given the next day shall not begin.
    until(lambda: airflow.pause(DAG))
    watch(quiet, pages, DAG, run_of(first), tasks=6)
    # Without an answer the plan has moved nothing.
    open_interval(quiet, pages, run_of(first), "waits for a person", "Load of each channel", "What would move")
    loads_are_those_of(quiet, interval_document(pipeline, first.id))
    assert migrations(pipeline) == []
    watch(quiet, pages, f"{DAG}_approve", approve(quiet, pages), tasks=2)
    (answer,) = control.rows(pipeline.tables, "approvals")
    assert (answer["answer"], answer["who"]) == ("approve", pages.user)
    until(lambda: airflow.unpause(DAG))
    carried_out_by_the_next(quiet, pages, pipeline, airflow)


def run_of(interval: Interval) -> str:
    return f"scheduled__{interval.end.isoformat()}"


def at_work(airflow: AirflowApi, interval: Interval) -> set[str]:
    """The tasks of a run that an executor has, or has had."""
    begun = ("queued", "running", "success")
    return {name for name, task in airflow.tasks(DAG, interval).items() if task["state"] in begun}


def approve(person: Any, pages: Pages) -> str:
    """Answer the plan that waits, from the tab of the DAG; returns the question's run."""
    person.switch_to.default_content()
    person.get(f"{pages.address}/dags/{DAG}/plugin/rebalance-pipeline")
    enter_frame(person)
    text_of(person, "A plan waits for your answer", "Reject")
    click(person, "Approve")
    text_of(person, "Approve this plan?", "Airflow records who answered")
    click(person, "Approve", "dialog//")
    text_of(person, "Airflow has the answer")
    run: str = person.find_element("link text", "The question's run").get_attribute("href").rpartition("/")[2]
    click(person, "Close", "dialog//")
    text_of(person, f"{pages.user} answered Approve")
    return run


def carried_out_by_the_next(person: Any, pages: Pages, pipeline: Pipeline, airflow: AirflowApi) -> None:
    first = pipeline.interval_at(pipeline.interval.first)
    second = first.shifted(1)
    until(lambda: airflow.state(DAG, second))
    # Nothing is left to ask, so its question is skipped.
    watch(person, pages, DAG, run_of(second), tasks=5)
    until(lambda: airflow.state(DAG, second) == "success")
    (epoch,) = migrations(pipeline)
    assert control.rows(pipeline.tables, "plans", plan_id=epoch.plan_id)[0]["interval_id"] == first.id
    at = f"{epoch.published_at:%Y-%m-%d %H:%M}"
    said = f"Carried out by epoch {epoch.epoch} at {at}. It made function v{epoch.function_version} active."
    text = open_interval(person, pages, run_of(first), "What moved", said)
    assert f"{pages.user} said approve." in text
    document = interval_document(pipeline, second.id)
    text = open_interval(person, pages, run_of(second), "Load of each channel", f"{document['reached']:.3f}")
    assert f"v{epoch.function_version}" in text
    loads_are_those_of(person, document)


def migrations(pipeline: Pipeline) -> list[Any]:
    return [epoch for epoch in all_epochs(pipeline.tables) if epoch.kind == "migrate"]


def until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + RUN
    while not answered(reached):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def answered(ask: Callable[[], object]) -> object:
    """What Airflow answers; nothing where its SQLite is locked, as happens on a busy machine."""
    try:
        return ask()
    except HTTPError as error:
        error.close()
        if error.code != 500:
            raise
        return None
