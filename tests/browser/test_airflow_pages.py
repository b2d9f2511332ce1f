"""What a person sees in Airflow after an interval has run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import Pages

#: Seconds a page may take on a busy machine.
PATIENCE = 60
RUN = "scheduled__2026-01-01T01:00:00+00:00"


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
    text = text_of(person, "5 Task Instances", "process_batch", "collect_stats", "check_quality", "make_plan")
    assert text.count("Success") >= 5
    for step, said in {
        "process_batch": "3,000 events",
        "make_plan": "max/fair load",
        "migrate_state": "epoch 2",
    }.items():
        person.get(f"{pages.address}/dags/{pages.dag_id}/runs/{RUN}/tasks/{step}")
        text_of(person, said)


def test_the_details_say_what_the_pipeline_does_and_that_one_interval_runs_at_a_time(person: Any, pages: Pages) -> None:
    person.get(f"{pages.address}/dags/{pages.dag_id}/details")
    text = text_of(person, "latest_match on 4 channels, kept balanced by", "Max Active Runs")
    assert text.split("Max Active Runs")[1].split()[0] == "1"
