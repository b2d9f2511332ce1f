"""A function per key: what its calls cost, what is said of one that does wrong, and that it needs nothing on the workers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.errors import OperatorError, SourceError
from rebalance.steps import run_step
from rebalance.storage import epochs
from tests.support.streaks import ARROW, Plain, results_of, take, world
from tests.support.world import first_interval, stored

pytestmark = pytest.mark.usefixtures("few_rows")


def test_a_key_costs_what_its_rows_took(spark: SparkSession, tmp_path: Path) -> None:
    busy = ARROW.replace(
        "    found = []\n",
        "    found = []\n    for _ in rows.to_pylist() if key == HOT else []:\n        sum(range(100_000))\n",
        1,
    )
    pipeline = world(tmp_path, busy, intervals=3)
    hottest = pl.read_parquet(f"{pipeline.source.path}/*.parquet")["symbol"].value_counts(sort=True)["symbol"]
    hot, other = hottest[5], hottest[0]
    (tmp_path / "streaks.py").write_text(f"HOT = {hot!r}\n{busy}")
    for number in range(2):
        take(pipeline, first_interval(pipeline).shifted(number))
    run_step("collect_stats", pipeline, first_interval(pipeline).shifted(2))
    stats = stored(pipeline, "key_stats").filter(pl.col("interval_id") == first_interval(pipeline).shifted(2).id)
    rate = dict(stats.select("key", "rate").rows())
    assert rate[hot] > 20 * rate[other] > 0
    assert stats["cost"].min() == 0.0
    assert stats.filter(pl.col("tuples") > 0)["cost"].min() > 0
    # Nothing was measured when the first interval was counted: a row costs one.
    first = stored(pipeline, "key_stats").filter(pl.col("interval_id") == first_interval(pipeline).id)
    assert first["cost"].to_list() == first["tuples"].to_list()
    assert first["rate"].unique().to_list() == [0.0]


def test_costs_that_cannot_be_stored_cost_nothing_but_themselves(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = world(tmp_path, intervals=1, events=100)
    Path(pipeline.tables).mkdir()
    (Path(pipeline.tables) / "key_costs").write_text("a file where a folder belongs")
    run_step("process_batch", pipeline, first_interval(pipeline))
    assert results_of(pipeline, first_interval(pipeline)) == Plain(pipeline).process(first_interval(pipeline))
    assert "was not stored" in caplog.text


WRONG = {
    "the function's own error, with its line": (
        ("    found = []\n", "    found = []\n    1 / (len(rows) - len(rows))\n"),
        r"process in streaks\.py failed for key '\w+' \(\d+ new rows, 0 rows of state\): ZeroDivisionError: division by zero\n"
        r"  streaks\.py, line \d+, in process: 1 / \(len\(rows\) - len\(rows\)\)",
    ),
    "another type": (
        ('("streak", pa.int64())', '("streak", pa.string())'),
        r"for key '\w+' column 'streak' as string, but RESULTS declares it as int64",
    ),
    "other columns": (
        ('("side", pa.string()), ', ""),
        r"for key '\w+' the columns price, but STATE declares side, price",
    ),
    "no pair": (("return pa.table(results", "return 5, pa.table(results"), "it must return two tables"),
    "no table": (
        ("return pa.table(results, RESULT_TYPES)", "return results"),
        "returned dict for key .* where RESULTS belongs",
    ),
    "a taken name": (
        ('STATE = "side STRING, price', 'STATE = "touched STRING, price'),
        "STATE in streaks.py declares a column 'touched'",
    ),
    "no columns": (('STATE = "side STRING, price DOUBLE"', 'STATE = "side, price"'), "is not a list of columns"),
    "a column the events have not": (
        ('ROWS = ["price", "side"]', 'ROWS = ["cost"]'),
        "ROWS in streaks.py names 'cost'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_function_does_wrong_is_told_with_key_column_and_line(
    spark: SparkSession, tmp_path: Path, wrong: str
) -> None:
    (was, becomes), message = WRONG[wrong]
    assert was in ARROW
    function = ARROW.replace(was, becomes, 1)
    if wrong == "another type":
        function = function.replace("row[i] for row in found", "str(row[i]) if i == 1 else row[i] for row in found")
    if wrong == "other columns":
        function = function.replace('"side": [side for side, _ in streak], ', "")
    pipeline = world(tmp_path, function, intervals=1, events=100)
    with pytest.raises((OperatorError, SourceError), match=message):
        run_step("process_batch", pipeline, first_interval(pipeline))
    assert epochs.processed(pipeline.tables, first_interval(pipeline).id) is None


def test_a_job_of_its_own_runs_a_function_that_no_worker_can_import(tmp_path: Path, project: Path) -> None:
    pipeline = world(tmp_path, "import helper_of_the_file\n" + ARROW, intervals=2, events=200)
    (tmp_path / "helper").mkdir()
    (tmp_path / "helper" / "helper_of_the_file.py").write_text("")
    plain = Plain(pipeline)
    for number in range(2):
        interval = first_interval(pipeline).shifted(number)
        # Only the driver finds the helper: were the file imported by a worker, it would fail there.
        run = (
            "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
            "runpy.run_path('jobs/process_batch.py', run_name='__main__')"
        )
        arguments = [str(tmp_path / "helper"), "--pipeline", str(pipeline.file), "--interval", interval.id]
        done = subprocess.run(
            [sys.executable, "-c", run, *arguments], cwd=project, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert results_of(pipeline, interval) == plain.process(interval)


def test_the_example_of_the_documentation_runs(spark: SparkSession, tmp_path: Path, project: Path) -> None:
    text = (project / "docs" / "operators.md").read_text()
    (example,) = re.findall(r"```python\n(.*?def process.*?)```", text, re.S)
    assert len(example.strip().splitlines()) <= 15
    pipeline = world(tmp_path, example, intervals=2)
    for number in range(2):
        take(pipeline, first_interval(pipeline).shifted(number))
    last = first_interval(pipeline).shifted(1)
    found = stored(pipeline, "results").filter(pl.col("interval_id") == last.id).sort("key")
    events = pl.read_parquet(f"{pipeline.source.path}/*.parquet").filter(pl.col("ts") < last.end)
    sums = events.group_by(key="symbol").agg(trades=pl.len(), total=pl.col("price").sum(), newest=pl.col("ts").max())
    expected = sums.filter(pl.col("newest") >= last.start).sort("key")
    assert found["key"].to_list() == expected["key"].to_list()
    assert found["trades"].to_list() == expected["trades"].to_list()
    assert found["mean"].to_list() == pytest.approx((expected["total"] / expected["trades"]).to_list())
