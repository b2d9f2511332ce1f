"""Airflow's pages as `make ui` serves them, on two intervals that really ran, and a browser to look at them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browser.two_intervals import DAG_ID

PROJECT = Path(__file__).resolve().parents[2]
_CHROMIUM = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
)


@dataclass(frozen=True)
class Pages:
    """Where Airflow's pages are and how to get in."""

    address: str
    user: str
    password: str
    #: Where the pipeline files are.
    pipelines: Path
    dag_id: str = DAG_ID


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """`make ui` on the records of two intervals; stopped the way a person stops it."""
    folder = tmp_path_factory.mktemp("pages")
    path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, "REBALANCE_PIPELINES": str(folder / "pipelines"), "PYTHONPATH": path}
    subprocess.run(
        [sys.executable, "-m", "tests.browser.two_intervals", str(folder)], cwd=PROJECT, env=environ, check=True
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "tools/ui.py", "--port", str(port), "--home", str(folder / "airflow")]
    with subprocess.Popen(
        command, cwd=PROJECT, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as ui:
        try:
            _wait_for_welcome(ui)
            passwords = folder / "airflow" / "simple_auth_manager_passwords.json.generated"
            ((user, password),) = json.loads(passwords.read_text()).items()
            yield Pages(f"http://127.0.0.1:{port}", user, password, folder / "pipelines")
        finally:
            ui.send_signal(signal.SIGINT)
            ui.wait(90)
    assert ui.returncode == 0, "Ctrl-C is the ordinary way to stop it"


def _wait_for_welcome(ui: subprocess.Popen[str]) -> None:
    assert ui.stdout is not None
    for line in ui.stdout:
        if "password:" in line:
            return
    raise AssertionError("make ui ended before it said where to look")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[object]:
    """A headless Chromium with a profile of its own."""
    driver = shutil.which("chromedriver")
    if not driver or not shutil.which("chromium"):
        pytest.skip("Chromium and its driver are not installed; see tools/browser.sh")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for option in (*_CHROMIUM, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


#: Seconds a page may take on a busy machine.
PATIENCE = 60


def text_of(browser: Any, *wanted: str) -> str:
    """The text of the page, or of the frame that is chosen, once all of these words are on it."""
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
