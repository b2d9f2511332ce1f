"""One interval of a small pipeline through Airflow, in a process of its own: python -m tests.browser.one_interval FOLDER."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

DAG_ID = "rebalance_trades"


def run(folder: Path) -> None:
    """Leave events, tables and Airflow's records under the folder."""
    from rebalance.demo.events import write_trades
    from rebalance.demo.in_process import load_dag, prepare, run_interval
    from rebalance.pipeline.intervals import Interval
    from rebalance.simulate.workload import Workload

    start = datetime(2026, 1, 1, tzinfo=UTC)
    interval = Interval(start, start + timedelta(hours=1))
    write_trades(folder / "events", interval, Workload(keys=200, channels=4, z=1.0, seed=3), intervals=1, events=3000)
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "trades.toml").write_text(
        """\
tables = "../tables"
[source]
path = "../events"
format = "parquet"
key = "symbol"
time = "ts"
[interval]
length = "1 h"
first = 2026-01-01T00:00:00Z
[operator]
name = "latest_match"
window = 2
parameters = { kind = "side", value = "price" }
[channels]
count = 4
"""
    )
    prepare(folder / "airflow")
    run_interval(load_dag(DAG_ID), interval)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
