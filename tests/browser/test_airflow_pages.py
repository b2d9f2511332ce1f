"""What a person sees in Airflow after one interval that was planned and one that was not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import Pages

#: Seconds a page may take on a busy machine.
PATIENCE = 60
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


def text_of(browser: Any, *wanted: str) -> str:
    """The page's text once all of these words are on it."""
    from selenium.webdriver.support.wait import WebDriverWait

    def words(_: Any) -> str | None:
        text = str(browser.execute_script("return document.body.innerText"))
        return text if all(word in text for word in wanted) else None

    found = WebDriverWait(browser, PATIENCE).until(words, f"{wanted} is not on the page {browser.current_url}")
    assert found is not None
    return found


@pytest.fixture
def person(browser: Any, pages: Pages) -> Any:
    """Somebody who has typed in the user and password that `make ui` printed."""
    browser.get(f"{pages.address}/dags")
    text_of(browser, "Sign in")
    browser.find_element("name", "username").send_keys(pages.user)
    browser.find_element("name", "password").send_keys(pages.password)
    browser.find_element("css selector", "button[type=submit]").click()
    text_of(browser, pages.dag_id)
    return browser


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
