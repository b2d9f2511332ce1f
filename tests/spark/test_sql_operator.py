"""An operator as three SQL texts: the same results as the built-in one, nothing left in the session, and errors in the user's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

from rebalance.errors import ConfigError, OperatorError
from rebalance.operators import SqlOperator
from rebalance.pipeline.file import Pipeline
from rebalance.steps import run_step
from tests.support.world import expected_sums, first_interval, make_world, stored_results

pytestmark = pytest.mark.usefixtures("few_rows")

ROWS = "SELECT key, salt, 1 AS count, CAST(price AS DECIMAL(38,6)) AS sum FROM events"
RESULTS = "SELECT key, sum(count) AS count, CAST(sum(sum) AS DECIMAL(38,6)) AS sum FROM rows GROUP BY key, channel"
EVENTS = "SELECT key, time, price FROM events"


def world(
    folder: Path, *, rows: str = ROWS, results: str = RESULTS, state: str = RESULTS, more: str = "", **how: Any
) -> Pipeline:
    operator = f"[operator]\nwindow = 2\n[operator.sql]\nrows = '''{rows}'''\nresults = '''{results}'''\nstate = '''{state}'''\n{more}"
    return make_world(folder, operator=operator, planner="keep", events=how.pop("events", 600), **how)


def views(spark: SparkSession) -> set[str]:
    """The views that all users of the session see."""
    return {row["viewName"] for row in spark.sql("SHOW VIEWS").collect()}


def test_three_texts_give_what_the_built_in_operator_gives_and_leave_no_view_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Whoever shares the session may have tables of these names.
    spark.range(3).createOrReplaceTempView("events")
    spark.range(4).createOrReplaceTempView("rows")
    before = views(spark)
    pipeline = world(tmp_path, intervals=3, more='mergeable = true\ncost = "new_rows"')
    for number in range(3):
        interval = first_interval(pipeline).shifted(number)
        for step in ("collect_stats", "process_batch"):
            run_step(step, pipeline, interval)
        assert_frame_equal(stored_results(pipeline, interval), expected_sums(pipeline, interval), check_dtypes=False)
    assert views(spark) == before
    assert (spark.table("events").count(), spark.table("rows").count()) == (3, 4)
    for view in ("events", "rows"):
        spark.catalog.dropTempView(view)


def test_a_text_may_have_tables_of_its_own_and_end_with_a_semicolon(spark: SparkSession, tmp_path: Path) -> None:
    results = f"WITH own AS ({RESULTS}) SELECT * FROM own;"
    pipeline = world(tmp_path, results=results, intervals=1)
    run_step("process_batch", pipeline, first_interval(pipeline))
    expected = expected_sums(pipeline, first_interval(pipeline))
    assert_frame_equal(stored_results(pipeline, first_interval(pipeline)), expected, check_dtypes=False)


LAST = "row_number() OVER (PARTITION BY {} ORDER BY time)"
REFUSED = {
    "GROUP BY key in operator.sql.results: add channel": "SELECT key, sum(price) AS s FROM rows GROUP BY key",
    "an aggregate without GROUP BY in operator.sql.results: add GROUP BY key, channel": "SELECT 'all' AS key, sum(price) AS s FROM rows",
    "PARTITION BY key in operator.sql.results: add channel": f"SELECT key, {LAST.format('key')} AS n FROM rows",
    "OVER () without PARTITION BY in operator.sql.results: add PARTITION BY key, channel": "SELECT key, sum(price) OVER () AS s FROM rows",
    "JOIN ON key in operator.sql.results: add channel": "SELECT /*+ MERGE(b) */ a.key, b.price FROM rows a JOIN rows b ON a.key = b.key",
    "DISTINCT or GROUP BY key, price in operator.sql.results: add channel": "SELECT DISTINCT key, price FROM rows",
    "ORDER BY price over all rows in operator.sql.results: leave it out": "SELECT key, price FROM rows ORDER BY price",
    "LIMIT over all rows in operator.sql.results: use row_number": "SELECT key, price FROM rows LIMIT 5",
    "ORDER BY … LIMIT over all rows in operator.sql.results: use row_number": "SELECT key, price FROM rows ORDER BY price LIMIT 5",
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_clause_that_makes_spark_exchange_rows_again_is_named(
    spark: SparkSession, tmp_path: Path, message: str
) -> None:
    pipeline = world(
        tmp_path,
        rows=EVENTS,
        results=REFUSED[message],
        state="SELECT key, time, price FROM rows",
        intervals=1,
        events=100,
    )
    with pytest.raises(OperatorError) as refused:
        run_step("process_batch", pipeline, first_interval(pipeline))
    assert message in str(refused.value)


def test_the_same_clauses_by_key_and_channel_are_accepted(spark: SparkSession, tmp_path: Path) -> None:
    results = f"SELECT DISTINCT key, channel, n FROM (SELECT key, channel, {LAST.format('key, channel')} AS n FROM rows) WHERE n = 1"
    pipeline = world(
        tmp_path, rows=EVENTS, results=results, state="SELECT key, time, price FROM rows", intervals=1, events=100
    )
    run_step("process_batch", pipeline, first_interval(pipeline))
    events = pl.read_parquet(f"{pipeline.source.path}/*.parquet")
    assert len(pl.read_delta(f"{pipeline.tables}/results")) == events["symbol"].n_unique()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"rows": "SELEC key FROM events"}, r"operator\.sql\.rows is refused by Spark: .*PARSE_SYNTAX_ERROR"),
        (
            {"results": "SELECT key, cost FROM rows"},
            r"operator\.sql\.results is refused by Spark: .*UNRESOLVED_COLUMN.*has the columns key",
        ),
        ({"state": "SELECT key FROM nowhere"}, r"operator\.sql\.state is refused by Spark: .*TABLE_OR_VIEW_NOT_FOUND"),
        ({"rows": "SELECT price FROM events"}, "returns no column 'key'"),
        ({"rows": "SELECT key, 1 AS channel FROM events"}, "returns a column 'channel', a name that is needed"),
        (
            {"state": "SELECT key, count FROM rows"},
            r"`state` of operator 'operator.sql' returns other columns than `rows`.*sum",
        ),
    ],
)
def test_an_error_says_which_of_the_texts_is_wrong(
    spark: SparkSession, tmp_path: Path, texts: dict[str, str], message: str
) -> None:
    pipeline = world(tmp_path, intervals=1, events=100, **texts)
    with pytest.raises(OperatorError, match=message):
        run_step("process_batch", pipeline, first_interval(pipeline))


def test_a_text_that_says_it_keeps_its_rows_must(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = world(tmp_path, more="keeps_rows = true", intervals=1, events=300, keys=20)
    with pytest.raises(OperatorError, match="has keeps_rows = True, but of 300 rows it kept"):
        run_step("process_batch", pipeline, first_interval(pipeline))


def test_cost_is_arithmetic_in_two_names() -> None:
    new, window = np.array([1.0, 2.0]), np.array([10.0, 30.0])
    for text, expected in (
        ("new_rows", [1, 2]),
        ("window_rows / 2 - (new_rows + 1)", [3, 12]),
        ("-1 + 2 * new_rows", [1, 3]),
        ("3", [3, 3]),
    ):
        assert SqlOperator("", "", "", text).cost(new, window).tolist() == expected


@pytest.mark.parametrize(
    "text", ["__import__('os')", "new_rows ** 2", "rows", "new_rows.size", "1 if new_rows else 2", "'a'", "", "True"]
)
def test_anything_else_as_cost_is_refused_and_never_run(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"operator\.sql\.cost = .* cannot be worked out"):
        world(tmp_path, more=f'cost = "{text}"', intervals=1)
