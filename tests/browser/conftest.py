"""Somebody at a browser. Which Airflow it shows is said by each file of tests, which starts one: its fixture `pages`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Pages, chromium, complaints, hosts_asked, is_there, sign_in


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Any]:
    """A browser that has never been here."""
    _need_chromium()
    with chromium(tmp_path / "profile") as browser:
        yield browser


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory, pages: Pages) -> Iterator[Any]:
    """Somebody who has signed in, once for the file."""
    _need_chromium()
    with chromium(tmp_path_factory.mktemp("person") / "profile") as browser:
        sign_in(browser, pages, "rebalance_")
        # Airflow's own page for logging in is not ours to judge.
        complaints(browser)
        hosts_asked(browser)
        yield browser


@pytest.fixture
def quiet(person: Any, pages: Pages) -> Iterator[Any]:
    """A person at the end of whose visit no console has complained, and no other machine was asked for anything."""
    person.switch_to.default_content()
    person.set_window_size(1400, 1000)
    yield person
    assert complaints(person) == []
    assert hosts_asked(person) <= {pages.address, "data", "blob", "about"}


def _need_chromium() -> None:
    if not is_there():
        pytest.skip("Chromium and its driver are not installed; see tools/browser.sh")
