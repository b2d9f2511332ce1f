"""Two intervals of a small pipeline through Airflow, in a process of its own: python -m tests.browser.two_intervals FOLDER.

Beside it a pipeline with a long past, whose tables are written by hand; the newest of its plans waits for an answer.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

DAG_ID = "rebalance_trades"
#: The pipeline with a long past: so many intervals and channels.
LONG, INTERVALS, CHANNELS = "rebalance_many", 1000, 100


def run(folder: Path) -> None:
    """Leave events, tables and Airflow's records under the folder."""
    from rebalance.demo.events import write_trades
    from rebalance.demo.in_process import load_dag, prepare, run_interval
    from rebalance.pipeline.intervals import Interval
    from rebalance.simulate.workload import Workload
    from tests.support.many_intervals import write_history

    start = datetime(2026, 1, 1, tzinfo=UTC)
    good = Interval(start, start + timedelta(hours=1))
    # Far more events than the one before: too many to be planned on.
    odd = good.shifted(1)
    for interval, events in ((good, 3000), (odd, 15_000)):
        workload = Workload(keys=200, channels=4, z=1.0, seed=3)
        write_trades(folder / "events", interval, workload, intervals=1, events=events)
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
[quality]
volume_factor = 3
"""
    )
    write_history(folder / "pipelines", INTERVALS, CHANNELS, pending=True)
    prepare(folder / "airflow")
    dag = load_dag(DAG_ID)
    for interval in (good, odd):
        run_interval(dag, interval)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
