"""How long a person waits for the page of a pipeline with a long past, by the browser's own clock.

    python -m tests.bench.bench_page [--intervals 1000] [--channels 100] [--times 20]

Airflow is started as `make ui` starts it, on tables that tests/support/many_intervals.py writes. A headless Chromium opens the page of the
pipeline and of its newest interval, again and again, with its cache switched off: every file is sent each time. Each moment is counted
from the start of the navigation: the last file, the answer with the figures, and the frame after the last picture was drawn. What the
server takes for that answer is measured in this process, without HTTP, as processor time, which other work on the
machine changes far less than the clock.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rebalance.documents.interval import interval_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.pipeline.file import Pipeline
from tests.support.browser import PATIENCE, PROJECT, Pages, airflow_pages, chromium, sign_in
from tests.support.many_intervals import write_history

#: Views, and what of each is there when all of it is drawn.
DRAWN = {
    "the pipeline over time": ("", "document.querySelectorAll('.charts canvas').length === 4"),
    "its newest interval": ("/interval/{newest}", "document.querySelectorAll('svg').length === 2"),
}
#: Notes the moment of the first frame that begins with everything there, so that the one before has drawn it.
WATCH = """
    const look = () => {{
        if ({there}) requestAnimationFrame(() => {{ window.drawn = performance.now(); }});
        else requestAnimationFrame(look);
    }};
    look();
"""
MOMENTS = """
    const all = performance.getEntriesByType('resource');
    const figures = all.filter((one) => one.name.includes('/rebalance/api/'));
    const files = all.filter((one) => !one.name.includes('/rebalance/api/'));
    const last = (some) => Math.max(...some.map((one) => one.responseEnd));
    return [last(files), last(figures), window.drawn, figures.reduce((sum, one) => sum + one.decodedBodySize, 0) / 1000];
"""
#: Makes Airflow know the DAG, in a process of its own.
KNOWN = "import sys; from pathlib import Path; from rebalance.demo.in_process import *; prepare(Path(sys.argv[1])); load_dag(sys.argv[2])"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=1000)
    parser.add_argument("--channels", type=int, default=100)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    print("| view | CPU of the answer | last file | figures | drawn | drawn, 9 in 10 | kB of figures |")
    print("|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pipeline = write_history(folder / "pipelines", options.intervals, options.channels)
        environ = {**os.environ, "REBALANCE_PIPELINES": str(folder / "pipelines")}
        command = [sys.executable, "-c", KNOWN, str(folder / "airflow"), pipeline.dag_id]
        subprocess.run(command, cwd=PROJECT, env=environ, check=True)
        with airflow_pages(folder / "airflow", folder / "pipelines") as pages:
            for view in DRAWN:
                print(row(view, measured(folder / view, pages, pipeline, view, options.times), pipeline))


def measured(profile: Path, pages: Pages, pipeline: Pipeline, view: str, times: int) -> list[list[float]]:
    """The moments of each visit, but for the first."""
    where, there = DRAWN[view]
    address = f"{pages.address}/rebalance/#/dag/{pipeline.dag_id}{where.format(newest=newest_of(pipeline))}"
    with chromium(profile) as browser:
        sign_in(browser, pages, pipeline.dag_id)
        browser.execute_cdp_cmd("Network.enable", {})
        browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        watch = {"source": WATCH.format(there=there)}
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", watch)
        return [visit(browser, address) for _ in range(times + 1)][1:]


def visit(browser: Any, address: str) -> list[float]:
    browser.get("about:blank")
    browser.get(address)
    deadline = time.monotonic() + PATIENCE
    while browser.execute_script("return window.drawn === undefined"):
        if time.monotonic() > deadline:
            sys.exit(f"{address} was not drawn within {PATIENCE} s")
        time.sleep(0.05)
    found: list[float] = browser.execute_script(MOMENTS)
    return found


def newest_of(pipeline: Pipeline) -> str:
    return str(pipeline_over_time(pipeline, last=1)["intervals"]["id"][-1])


def row(view: str, visits: list[list[float]], pipeline: Pipeline) -> str:
    files, figures, drawn, size = (sorted(moments) for moments in zip(*visits, strict=True))
    most = drawn[max(0, round(0.9 * len(drawn)) - 1)]
    moments = [cpu_of_answer(view, pipeline), *map(statistics.median, (files, figures, drawn)), most]
    return f"| {view} | {' | '.join(f'{moment:.0f} ms' for moment in moments)} | {size[0]:.0f} |"


def cpu_of_answer(view: str, pipeline: Pipeline) -> float:
    """Milliseconds of processor time for the figures; the best of some tries, as what else runs here only ever adds."""
    tries, newest = [], newest_of(pipeline)
    for _ in range(7):
        began = time.process_time()
        if DRAWN[view][0]:
            interval_document(pipeline, newest)
        else:
            pipeline_over_time(pipeline)
        tries.append(1000 * (time.process_time() - began))
    return min(tries)


if __name__ == "__main__":
    main()
