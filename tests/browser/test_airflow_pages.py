"""What a person sees in Airflow after one interval that was planned and one that was not: Airflow's own pages, and the page Rebalance.

All in one file, for which Airflow is started once.
"""

from __future__ import annotations

from typing import Any

import pytest

from rebalance.documents.interval import interval_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.pipeline.file import load_pipeline
from tests.browser.conftest import PATIENCE, Pages, text_of
from tests.browser.two_intervals import CHANNELS, INTERVALS, LONG

#: A run is named after the end of its interval.
RUN = "scheduled__2026-01-01T01:00:00+00:00"
NOT_PLANNED = "scheduled__2026-01-01T02:00:00+00:00"
#: Words out of what each step says of the first interval, in the order of the steps.
SAID = {
    "collect_stats": "3,000 rows of",
    "check_quality": "checks on",
    "make_plan": "max/fair load",
    "migrate_state": "function v1 is active",
    "process_batch": "3,000 rows of",
}


def test_nobody_gets_in_without_the_password(browser: Any, pages: Pages) -> None:
    browser.get(f"{pages.address}/dags/{pages.dag_id}")
    assert pages.dag_id not in text_of(browser, "Sign in")


def test_a_run_shows_the_five_steps_their_outcome_and_what_each_said(person: Any, pages: Pages) -> None:
    person.get(f"{pages.address}/dags/{pages.dag_id}/runs/{RUN}")
    # The run's note.
    text = text_of(person, "6 Task Instances", *SAID, "planned", "3,000 events; fullest channel")
    assert text.count("Success") >= 6
    assert "Results are complete" not in text
    for step, said in SAID.items():
        person.get(f"{pages.address}/dags/{pages.dag_id}/runs/{RUN}/tasks/{step}/details")
        # The task's note, without its log, and its links.
        text_of(person, "Success", said, "Interval", *(["Data Docs"] if step == "check_quality" else []))


def test_a_run_that_was_not_planned_is_marked_and_says_why_at_the_top_of_its_page(person: Any, pages: Pages) -> None:
    person.get(f"{pages.address}/dags/{pages.dag_id}/runs/{NOT_PLANNED}")
    text = text_of(person, "Results are complete; the interval was not planned. check_quality failed: QualityError:")
    assert "Failed" in text
    person.get(f"{pages.address}/dags/{pages.dag_id}/runs/{NOT_PLANNED}/tasks/check_quality")
    text_of(person, "Failed", "QualityError:", "nothing is planned on it")
    person.get(f"{pages.address}/dags/{pages.dag_id}/runs/{NOT_PLANNED}/tasks/process_batch")
    text_of(person, "Success", "15,000 rows of")


def test_the_details_say_what_the_pipeline_does_and_that_one_interval_runs_at_a_time(person: Any, pages: Pages) -> None:
    person.get(f"{pages.address}/dags/{pages.dag_id}/details")
    text = text_of(person, "latest_match on 4 channels, kept balanced by", "Max Active Runs")
    assert text.split("Max Active Runs")[1].split()[0] == "1"


#: Bytes that the page of a long past may take, all files and figures together, unpacked.
MOST_BYTES = 1_500_000


def open_tab(person: Any, address: str, *wanted: str) -> str:
    """Open one of Airflow's pages, go into the frame with ours, and wait for words on it."""
    from selenium.webdriver.support import expected_conditions as ready
    from selenium.webdriver.support.wait import WebDriverWait

    person.switch_to.default_content()
    person.get(address)
    frame = ready.frame_to_be_available_and_switch_to_it(("css selector", 'iframe[title="Rebalance"]'))
    WebDriverWait(person, PATIENCE).until(frame)
    return text_of(person, *wanted)


def rows_of(person: Any, selector: str) -> list[list[str]]:
    """The cells of a table, whether it is to be seen or not."""
    script = "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    found: list[list[str]] = person.execute_script(script, selector)
    return found


def open_tables(person: Any) -> None:
    """Open what stands behind the pictures as tables."""
    person.execute_script("for (const one of document.querySelectorAll('.as-table')) one.open = true")


@pytest.fixture
def quiet(person: Any, pages: Pages) -> Any:
    """A person at the end of whose visit the console has no complaint of ours, and nothing came from another machine."""
    yield person
    said = [entry["message"] for entry in person.get_log("browser") if entry["level"] == "SEVERE"]
    assert [message for message in said if "/rebalance/" in message] == []
    fetched = person.execute_script("return performance.getEntriesByType('resource').map(one => one.name)")
    assert [name for name in fetched if not name.startswith((f"{pages.address}/", "data:"))] == []


def test_the_tabs_of_a_dag_and_of_a_run_show_loads_and_moves_as_the_tables_have_them(quiet: Any, pages: Pages) -> None:
    pipeline = load_pipeline(pages.pipelines / "trades.toml")
    card = pipeline_over_time(pipeline)["card"]
    text = open_tab(quiet, f"{pages.address}/dags/{pages.dag_id}/plugin/rebalance-pipeline", "Over time", card["why"])
    assert f"{card['reached']:.3f}" in text
    text = open_tab(
        quiet,
        f"{pages.address}/dags/{pages.dag_id}/runs/{RUN}/plugin/rebalance-interval",
        "Load of each channel",
        "What moved",
    )
    shown = interval_document(pipeline, "20260101T0000Z")
    open_tables(quiet)
    text_of(quiet, "What moved from channel to channel")
    loads = [
        [str(c["channel"]), *(f"{c[kind]:,.0f}" for kind in ("hash", "before", "planned", "reached"))]
        for c in shown["channels"]
    ]
    assert [[row[0], *row[2:6]] for row in rows_of(quiet, ".loads")] == loads
    flows = [[str(flow["from"]), str(flow["to"]), f"{flow['keys']:,}"] for flow in shown["flows"]]
    assert [row[:3] for row in rows_of(quiet, ".flows")] == flows
    assert flows
    assert shown["plan"]["reason"] in text
    # The tasks of the run stand beside the seconds that the steps measured.
    assert {"collect_stats", "make_plan", "process_batch"} <= {
        row[0] for row in rows_of(quiet, "section:last-of-type table")
    }


def test_another_planner_is_tried_beside_the_files_own(quiet: Any, pages: Pages) -> None:
    open_tab(quiet, f"{pages.address}/plugin/rebalance/rebalance/#/dag/{pages.dag_id}/try", "Nothing is written")
    quiet.find_element("css selector", "#planner option[value=llfd]").click()
    quiet.find_element("css selector", "#theta_max").clear()
    quiet.find_element("css selector", "#theta_max").send_keys("0.01")
    quiet.find_element("css selector", "button.primary").click()
    text_of(quiet, "Both plans", "as the file says", "tried")
    rows = {row[0]: row[1:] for row in rows_of(quiet, ".compared")}
    assert rows["Planner"][1] == "llfd"
    assert rows["θ_max"] == ["8.0 %", "1.0 %"]


def test_data_docs_open_from_the_page(quiet: Any, pages: Pages) -> None:
    open_tab(quiet, f"{pages.address}/dags/{pages.dag_id}/plugin/rebalance-pipeline", "Data Docs")
    quiet.find_element("link text", "Data Docs").click()
    text_of(quiet, "Data Docs of trades", "20260101T0000Z")
    quiet.find_element("link text", "20260101T0000Z").click()
    text_of(quiet, "Expectation Validation Result")


def test_a_thousand_intervals_are_one_answer_and_every_one_can_be_reached_by_keys(quiet: Any, pages: Pages) -> None:
    from selenium.webdriver.common.keys import Keys

    open_tab(
        quiet,
        f"{pages.address}/dags/{LONG}/plugin/rebalance-pipeline",
        f"All {INTERVALS:,} intervals",
        "A plan waits for your answer",
    )
    asked = quiet.execute_script(
        "return performance.getEntriesByType('resource').map(one => [one.name, one.decodedBodySize])"
    )
    assert len([name for name, _ in asked if "/rebalance/api/" in name]) == 1
    assert sum(size for _, size in asked) < MOST_BYTES
    assert len(quiet.find_elements("css selector", ".charts canvas")) == 4
    charts = quiet.find_element("css selector", ".charts")
    newest = interval_document(
        load_pipeline(pages.pipelines / "many.toml"),
        pipeline_over_time(load_pipeline(pages.pipelines / "many.toml"))["intervals"]["id"][-1],
    )
    charts.send_keys(Keys.END)
    text_of(quiet, f"decided to {newest['plan']['decision']}: {newest['plan']['reason']}")
    charts.send_keys(Keys.ENTER)
    text_of(quiet, "Load of each channel", "What would move")
    assert len(quiet.find_elements("css selector", "g.channel")) == CHANNELS


def test_a_button_says_first_what_it_will_do_and_only_an_open_question_has_one(quiet: Any, pages: Pages) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    open_tab(quiet, f"{pages.address}/dags/{LONG}/plugin/rebalance-pipeline", "A plan waits for your answer")
    # The tasks that would have asked were never run.
    text_of(quiet, "Airflow has not asked about this plan yet")
    assert not quiet.find_elements("xpath", "//button[text()='Approve']")
    quiet.execute_script("location.hash = arguments[0]", f"#/dag/{pages.dag_id}/interval/20260101T0000Z")
    text_of(quiet, "Load of each channel")
    quiet.find_element("xpath", "//button[text()='Rewind to this interval']").click()
    text_of(quiet, "Rewind to 20260101T0000Z?", f"This starts the DAG {pages.dag_id}_rewind")
    assert quiet.execute_script("return document.activeElement.textContent") == "Cancel"
    quiet.find_element("xpath", "//button[text()='Cancel']").click()
    WebDriverWait(quiet, PATIENCE).until_not(lambda page: page.find_elements("css selector", "dialog"))


def test_it_follows_airflows_theme_and_every_control_is_reached_by_tab(quiet: Any, pages: Pages) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    open_tab(quiet, f"{pages.address}/plugin/rebalance", "Pipelines", "trades", "many")
    theme = "return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    light = quiet.execute_script(theme)
    quiet.execute_script(
        "parent.document.documentElement.classList.remove('light'); parent.document.documentElement.classList.add('dark')"
    )
    text_of(quiet, "Pipelines")
    dark = quiet.execute_script(theme)
    assert (light[0], dark[0]) == ("light", "dark")
    assert light[1] != dark[1]
    quiet.execute_script("location.hash = arguments[0]", f"#/dag/{pages.dag_id}/interval/20260101T0000Z")
    text_of(quiet, "Load of each channel")
    wanted = quiet.execute_script(
        "return [...document.querySelectorAll('a[href], button:not(:disabled), input, select, summary, [tabindex=\"0\"]')].filter(e => e.checkVisibility()).length"
    )
    reached = set()
    quiet.execute_script("document.querySelector('.skip').focus()")
    for _ in range(wanted + 5):
        reached.add(
            quiet.execute_script("const a = document.activeElement; return a.textContent + a.className + a.name")
        )
        ActionChains(quiet).send_keys(Keys.TAB).perform()
    for control in ("Look up", "Rewind to this interval", "Try a plan"):
        assert any(control in one for one in reached), control
    assert any("picture" in one for one in reached)
