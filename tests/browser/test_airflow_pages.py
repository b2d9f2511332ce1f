"""What a person sees in Airflow after one interval that was planned and one that was not: Airflow's own pages, and the page Rebalance.

All in one file, for which Airflow is started once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from rebalance.documents.interval import interval_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.pipeline.file import load_pipeline
from tests.browser.two_intervals import CHANNELS, DAG_ID, INTERVALS, LONG
from tests.support.browser import PATIENCE, PROJECT, Pages, airflow_pages, open_tab, open_tables, rows_of, text_of

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


#: Every view of our page, and words on it.
VIEWS = {
    "all pipelines": ("", "Pipelines"),
    "a pipeline": (f"/dag/{LONG}", "Over time"),
    "an interval": (f"/dag/{DAG_ID}/interval/20260101T0000Z", "What each step took"),
    "a key": (f"/dag/{DAG_ID}/key/k0000000", "Moves"),
    "another plan": (f"/dag/{DAG_ID}/try", "Nothing is written"),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Airflow on the records of two intervals that really ran, and on a long past."""
    folder = tmp_path_factory.mktemp("pages")
    pipelines = folder / "pipelines"
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("REBALANCE_PIPELINES", str(pipelines))
        made = [sys.executable, "-m", "tests.browser.two_intervals", str(folder)]
        subprocess.run(made, cwd=PROJECT, check=True)
    with airflow_pages(folder / "airflow", pipelines) as served:
        yield served


def test_nobody_gets_in_without_the_password(stranger: Any, pages: Pages) -> None:
    stranger.get(f"{pages.address}/dags/{DAG_ID}")
    assert DAG_ID not in text_of(stranger, "Sign in")


def test_a_run_shows_the_five_steps_their_outcome_and_what_each_said(quiet: Any, pages: Pages) -> None:
    quiet.get(f"{pages.address}/dags/{DAG_ID}/runs/{RUN}")
    # The run's note.
    text = text_of(quiet, "6 Task Instances", *SAID, "planned", "3,000 events; fullest channel")
    assert text.count("Success") >= 6
    assert "Results are complete" not in text
    for step, said in SAID.items():
        quiet.get(f"{pages.address}/dags/{DAG_ID}/runs/{RUN}/tasks/{step}/details")
        # The task's note, without its log, and its links.
        text_of(quiet, "Success", said, "Interval", *(["Data Docs"] if step == "check_quality" else []))


def test_a_run_that_was_not_planned_is_marked_and_says_why_at_the_top_of_its_page(quiet: Any, pages: Pages) -> None:
    quiet.get(f"{pages.address}/dags/{DAG_ID}/runs/{NOT_PLANNED}")
    text = text_of(quiet, "Results are complete; the interval was not planned. check_quality failed: QualityError:")
    assert "Failed" in text
    quiet.get(f"{pages.address}/dags/{DAG_ID}/runs/{NOT_PLANNED}/tasks/check_quality")
    text_of(quiet, "Failed", "QualityError:", "nothing is planned on it")
    quiet.get(f"{pages.address}/dags/{DAG_ID}/runs/{NOT_PLANNED}/tasks/process_batch")
    text_of(quiet, "Success", "15,000 rows of")


def test_the_details_say_what_the_pipeline_does_and_that_one_interval_runs_at_a_time(quiet: Any, pages: Pages) -> None:
    quiet.get(f"{pages.address}/dags/{DAG_ID}/details")
    text = text_of(quiet, "latest_match on 4 channels, kept balanced by", "Max Active Runs")
    assert text.split("Max Active Runs")[1].split()[0] == "1"


#: Bytes that the page of a long past may take, all files and figures together, unpacked.
MOST_BYTES = 1_500_000


def test_the_tabs_of_a_dag_and_of_a_run_show_loads_and_moves_as_the_tables_have_them(quiet: Any, pages: Pages) -> None:
    pipeline = load_pipeline(pages.pipelines / "trades.toml")
    card = pipeline_over_time(pipeline)["card"]
    text = open_tab(quiet, f"{pages.address}/dags/{DAG_ID}/plugin/rebalance-pipeline", "Over time", card["why"])
    assert f"{card['reached']:.3f}" in text
    text = open_tab(
        quiet,
        f"{pages.address}/dags/{DAG_ID}/runs/{RUN}/plugin/rebalance-interval",
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
    assert {"collect_stats", "make_plan", "process_batch"} <= {row[0] for row in rows_of(quiet, ".steps")}


def test_another_planner_is_tried_beside_the_files_own(quiet: Any, pages: Pages) -> None:
    open_tab(quiet, f"{pages.address}/plugin/rebalance/rebalance/#/dag/{DAG_ID}/try", "Nothing is written")
    quiet.find_element("css selector", "#planner option[value=llfd]").click()
    quiet.find_element("css selector", "#theta_max").clear()
    quiet.find_element("css selector", "#theta_max").send_keys("0.01")
    quiet.find_element("css selector", "button.primary").click()
    text_of(quiet, "Both plans", "as the file says", "tried")
    rows = {row[0]: row[1:] for row in rows_of(quiet, ".compared")}
    assert rows["Planner"][1] == "llfd"
    assert rows["θ_max"] == ["8.0 %", "1.0 %"]


def test_data_docs_open_from_the_page(quiet: Any, pages: Pages) -> None:
    open_tab(quiet, f"{pages.address}/dags/{DAG_ID}/plugin/rebalance-pipeline", "Data Docs")
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
    text_of(quiet, f"decided to move keys: {newest['plan']['reason']}")
    charts.send_keys(Keys.ENTER)
    text_of(quiet, "Load of each channel", "What would move")
    assert len(quiet.find_elements("css selector", "g.channel")) == CHANNELS


def test_a_button_says_first_what_it_will_do_and_only_an_open_question_has_one(quiet: Any, pages: Pages) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    open_tab(quiet, f"{pages.address}/dags/{LONG}/plugin/rebalance-pipeline", "A plan waits for your answer")
    # The tasks that would have asked were never run.
    text_of(quiet, "Airflow has not asked about this plan yet")
    assert not quiet.find_elements("xpath", "//button[text()='Approve']")
    quiet.execute_script("location.hash = arguments[0]", f"#/dag/{DAG_ID}/interval/20260101T0000Z")
    text_of(quiet, "Load of each channel")
    quiet.find_element("xpath", "//button[text()='Rewind to this interval']").click()
    text_of(quiet, "Rewind to 20260101T0000Z?", f"This starts the DAG {DAG_ID}_rewind")
    assert quiet.execute_script("return document.activeElement.textContent") == "Cancel"
    quiet.find_element("xpath", "//button[text()='Cancel']").click()
    WebDriverWait(quiet, PATIENCE).until_not(lambda page: page.find_elements("css selector", "dialog"))


def test_it_follows_airflows_theme(quiet: Any, pages: Pages) -> None:
    open_tab(quiet, f"{pages.address}/plugin/rebalance", "Pipelines", "trades", "many")
    theme = "return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    light = quiet.execute_script(theme)
    switch = "parent.document.documentElement.classList.replace(...arguments)"
    quiet.execute_script(switch, "light", "dark")
    text_of(quiet, "Pipelines")
    dark = quiet.execute_script(theme)
    quiet.execute_script(switch, "dark", "light")
    assert (light[0], dark[0]) == ("light", "dark")
    assert light[1] != dark[1]


@pytest.mark.parametrize("view", VIEWS)
def test_every_control_of_a_view_is_reached_by_tab_and_a_narrow_window_hides_nothing(
    quiet: Any, pages: Pages, view: str
) -> None:
    where, words = VIEWS[view]
    quiet.set_window_size(500, 900)
    open_tab(quiet, f"{pages.address}/plugin/rebalance/rebalance/#{where}", words)
    wide = "const all = document.documentElement; return all.scrollWidth - all.clientWidth"
    assert quiet.execute_script(wide) == 0
    find = """
        const selector = 'a[href], button:not(:disabled), input, select, summary, [tabindex="0"]';
        window.controls = [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility());
        document.querySelector('.skip').focus();
        return window.controls.map((one) => one.outerHTML.slice(0, 200))"""
    controls = quiet.execute_script(find)
    reached = []
    for _ in controls:
        reached.append(quiet.execute_script("return window.controls.indexOf(document.activeElement)"))
        press(quiet, "TAB")
    # In the order in which they stand on the page, each once.
    assert [controls[at] for at in reached if at >= 0] == controls


def press(person: Any, *keys: str) -> None:
    """Press keys by their names in Selenium, or type other words, where the focus is."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    for key in keys:
        ActionChains(person).send_keys(getattr(Keys, key, key)).perform()


def tab_to(person: Any, words: str) -> None:
    """Press Tab until the control with this text, this name or these words in its label has the focus."""
    said = """
        const [one, words] = [document.activeElement, arguments[0]];
        return one.textContent === words || one.name === words || one.getAttribute('aria-label')?.includes(words)"""
    person.execute_script("document.querySelector('.skip').focus()")
    for _ in range(100):
        if person.execute_script(said, words):
            return
        press(person, "TAB")
    raise AssertionError(f"Tab does not lead to {words!r}")


def test_everything_can_be_done_by_keys_alone(quiet: Any, pages: Pages) -> None:
    open_tab(quiet, f"{pages.address}/plugin/rebalance/rebalance/#/", "Pipelines", "trades")
    tab_to(quiet, "trades")
    press(quiet, "ENTER")
    text_of(quiet, "Over time")
    tab_to(quiet, "over time. Arrow keys")
    press(quiet, "END")
    text_of(quiet, "No plan was made for it")
    press(quiet, "ENTER")
    text_of(quiet, "1 check failed")
    tab_to(quiet, "← previous")
    press(quiet, "ENTER")
    text_of(quiet, "Load of each channel", "What moved")
    tab_to(quiet, "Loads of 4 channels")
    press(quiet, "RIGHT", "RIGHT")
    text_of(quiet, "Channel 1 · fair load")
    tab_to(quiet, "The same as a table")
    press(quiet, "ENTER")
    text_of(quiet, "Loads per channel, in units of the operator's cost")
    heaviest = quiet.find_element("css selector", ".loads tbody a").text
    tab_to(quiet, "Look up a key")
    press(quiet, heaviest, "ENTER")
    text_of(quiet, f"Key {heaviest}", "Share of all load")
    tab_to(quiet, "Try a plan")
    press(quiet, "ENTER")
    text_of(quiet, "Nothing is written")
    tab_to(quiet, "theta_max")
    press(quiet, "ENTER")
    text_of(quiet, "Both plans")


def test_a_drag_zooms_all_charts_and_a_double_click_shows_everything_again(quiet: Any, pages: Pages) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    everything = f"All {INTERVALS:,} intervals"
    open_tab(quiet, f"{pages.address}/plugin/rebalance/rebalance/#/dag/{LONG}", everything)
    # The second chart is dragged over from a fourth to three fourths, and the first says what is shown.
    chart = quiet.find_elements("css selector", ".charts .u-over")[1]
    quiet.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    fourth = chart.size["width"] // 4
    drag = ActionChains(quiet).move_to_element_with_offset(chart, -fourth, 0).click_and_hold()
    drag.move_by_offset(fourth, 3).move_by_offset(fourth, 0).release().perform()
    shown = text_of(quiet, f"of {INTERVALS:,} intervals are shown")
    assert everything not in shown
    many = int(shown.split(f" of {INTERVALS:,} intervals are shown")[0].split()[-1])
    assert 0.48 * INTERVALS < many < 0.52 * INTERVALS
    start = load_pipeline(pages.pipelines / "many.toml").interval.first
    first = f"{start + timedelta(hours=INTERVALS // 4):%Y-%m-%d}"
    assert first in shown
    ActionChains(quiet).double_click(chart).perform()
    text_of(quiet, everything)
    # Neither has opened an interval.
    assert quiet.execute_script("return location.hash") == f"#/dag/{LONG}"
