"""A real Airflow, a real Chromium, and the page Rebalance in it, as a person at the keyboard meets them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
#: Seconds a page may take on a busy machine.
PATIENCE = 60
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


@contextmanager
def airflow_pages(home: Path, pipelines: Path, environ: Mapping[str, str] | None = None) -> Iterator[Pages]:
    """`make ui` with Airflow's folder at `home`; stopped the way a person stops it."""
    path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "tools/ui.py", "--port", str(port), "--home", str(home)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": path, "REBALANCE_PIPELINES": str(pipelines), **(environ or {})},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as ui:
        try:
            _wait_for_welcome(ui)
            passwords = (home / "simple_auth_manager_passwords.json.generated").read_text()
            ((user, password),) = json.loads(passwords).items()
            yield Pages(f"http://127.0.0.1:{port}", user, password, pipelines)
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


def is_there() -> bool:
    """Whether Chromium and its driver are installed."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """A headless Chromium with a profile of its own, which notes what its console and its network see."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for option in (*_CHROMIUM, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield started
    finally:
        started.quit()


def sign_in(browser: Any, pages: Pages, *wanted: str) -> None:
    """Type in the user and password that `make ui` printed, and wait for words on Airflow's list of DAGs."""
    browser.get(f"{pages.address}/dags")
    text_of(browser, "Sign in")
    browser.find_element("name", "username").send_keys(pages.user)
    browser.find_element("name", "password").send_keys(pages.password)
    browser.find_element("css selector", "button[type=submit]").click()
    text_of(browser, *wanted)


def text_of(browser: Any, *wanted: str, patience: float = PATIENCE) -> str:
    """The text of the page, or of the frame that is chosen, once all of these words are on it."""
    from selenium.webdriver.support.wait import WebDriverWait

    seen = ""

    def words(_: Any) -> bool:
        nonlocal seen
        seen = str(browser.execute_script("return document.body.innerText"))
        return all(word in seen for word in wanted)

    WebDriverWait(browser, patience).until(words, f"{wanted} is not on the page {browser.current_url}")
    return seen


def open_tab(person: Any, address: str, *wanted: str) -> str:
    """Open one of Airflow's pages, go into the frame with ours, and wait for words on it."""
    person.switch_to.default_content()
    person.get(address)
    enter_frame(person)
    return text_of(person, *wanted)


def enter_frame(person: Any) -> None:
    """Go into the frame with our page, once it is there."""
    from selenium.webdriver.support import expected_conditions as ready
    from selenium.webdriver.support.wait import WebDriverWait

    frame = ready.frame_to_be_available_and_switch_to_it(("css selector", 'iframe[title="Rebalance"]'))
    WebDriverWait(person, PATIENCE).until(frame)


def rows_of(person: Any, selector: str) -> list[list[str]]:
    """The cells of a table, whether it is to be seen or not."""
    script = "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    found: list[list[str]] = person.execute_script(script, selector)
    return found


def open_tables(person: Any) -> None:
    """Open what stands behind the pictures as tables."""
    person.execute_script("for (const one of document.querySelectorAll('.as-table')) one.open = true")


def complaints(person: Any) -> list[str]:
    """What the console has complained of since somebody last asked, but for a visitor's first question without a login."""
    said = [entry["message"] for entry in person.get_log("browser") if entry["level"] == "SEVERE"]
    return [
        message
        for message in said
        if "/ui/config - Failed to load resource: the server responded with a status of 401" not in message
    ]


def hosts_asked(person: Any) -> set[str]:
    """Every scheme and host that any page or frame has sent a request to since somebody last asked, as the browser's network saw it."""
    found = set()
    for entry in person.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            found.add(
                url.split(":", 1)[0] if url.startswith(("data:", "blob:", "about:")) else "/".join(url.split("/")[:3])
            )
    return found
