"""Whole intervals through Airflow itself, with Spark, Delta and Great Expectations: two good ones, one with far too many events, and the next."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.epochs import all_epochs
from tests.dags.conftest import WritePipeline
from tests.dags.test_rules import FIRST, SECOND, recorded, states

THIRD, FOURTH = SECOND.shifted(1), SECOND.shifted(2)
#: Events of each interval; the third has twenty times as many as it should.
EVENTS = {FIRST: 1000, SECOND: 1000, THIRD: 20_000, FOURTH: 1000}


def write_events(folder: Path) -> dict[Interval, int]:
    """Skewed trades; returns how many of each interval are sells, each of which gives one result."""
    folder.mkdir()
    random = np.random.default_rng(7)
    sells = {}
    for interval, count in EVENTS.items():
        seconds = random.uniform(0, 3600, count)
        sold = random.random(count) < 0.5
        table = pa.table(
            {
                "ts": pa.array([interval.start + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC")),
                "symbol": [f"s{rank}" for rank in np.minimum(random.zipf(1.3, count), 100)],
                "side": np.where(sold, "sell", "buy"),
                "price": random.random(count),
            }
        )
        pq.write_table(table, folder / f"{interval.id}.parquet")
        sells[interval] = int(sold.sum())
    return sells


def versions(root: str) -> dict[str, int]:
    """The version of every table."""
    return {
        path.name: DeltaTable(str(path)).version()
        for path in Path(root).iterdir()
        if DeltaTable.is_deltatable(str(path))
    }


def test_two_intervals_run_a_rerun_changes_nothing_and_bad_statistics_keep_no_results_back(
    spark: Any, airflow: Any, write_pipeline: WritePipeline, tmp_path: Path
) -> None:
    """One test for all of it, because each interval builds on the one before."""
    sells = write_events(tmp_path / "events")
    write_pipeline("whole", more="[quality]\nvolume_factor = 3\n")
    root = str(tmp_path / "tables_whole")
    dag = airflow.load_dag("rebalance_whole")

    for interval in (FIRST, SECOND):
        said = airflow.run_interval(dag, interval)
        assert list(said) == ["collect_stats", "check_quality", "make_plan", "migrate_state", "process_batch"]
        assert {state for state, _ in states(dag, interval).values()} == {"success"}
        assert control.read(root, "results", interval_id=interval.id).num_rows == sells[interval]
    kinds = [(epoch.kind, epoch.interval_id) for epoch in all_epochs(root)]
    assert [kind for kind in kinds if kind[0] != "migrate"] == [
        ("start", ""),
        ("process", FIRST.id),
        ("process", SECOND.id),
    ]

    from rebalance.spark.session import spark_session

    assert spark_session() is spark, "the tasks must share the session of their process"

    before = versions(root)
    again = airflow.run_interval(dag, SECOND)
    assert all("already" in what for what in again.values())
    assert versions(root) == before

    said = airflow.run_interval(dag, THIRD)
    assert "QualityError" in said["check_quality"]
    assert "expect_column_sum_to_be_between on tuples" in said["check_quality"]
    assert {task: state for task, (state, _) in states(dag, THIRD).items()} == {
        "collect_stats": "success",
        "check_quality": "failed",
        "make_plan": "upstream_failed",
        "migrate_state": "upstream_failed",
        "planned": "upstream_failed",
        "process_batch": "success",
    }
    assert recorded(dag, THIRD)[0].state == "failed"
    assert control.rows(root, "plans", columns=["plan_id"], interval_id=THIRD.id) == []
    airflow.run_interval(dag, FOURTH)
    for interval in (THIRD, FOURTH):
        assert control.read(root, "results", interval_id=interval.id).num_rows == sells[interval]
    assert (all_epochs(root)[-1].kind, all_epochs(root)[-1].interval_id) == ("process", FOURTH.id)
