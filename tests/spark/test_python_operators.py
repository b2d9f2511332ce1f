"""A user's operator file may hold Python functions: Spark's workers get them with the job and have no need of the file."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from rebalance.steps.run import run_intervals
from tests.support.world import events_of_window, first_interval, make_world, stored

#: A scalar function over columns, and two that get all rows of a key: one as pandas, one as Arrow. All lean on names of the file.
OPERATOR = '''
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import pyarrow as pa

CENTS = 100


def in_cents(prices: pd.Series) -> pd.Series:
    return (prices * CENTS).round().astype("int64")


def widest_step(rows: pd.DataFrame) -> pd.DataFrame:
    """The largest change between two prices of a key that follow each other: no aggregation of Spark's does that."""
    prices = rows.sort_values(["time", "cents"])["cents"]
    steps = prices.diff().abs().dropna()
    return pd.DataFrame({"key": [rows["key"].iloc[0]], "step": [int(steps.max()) if len(steps) else 0]})


def kept(rows: pa.Table) -> pa.Table:
    return rows.select(["channel", "key", "time", "cents"]).sort_by("time")


@dataclass(frozen=True)
class WidestStep:
    name: ClassVar[str] = "widest_step"
    mergeable: ClassVar[bool] = False

    def rows(self, events):
        from pyspark.sql.functions import pandas_udf

        return events.select("key", "time", pandas_udf(in_cents, "bigint")("price").alias("cents"))

    def results(self, rows):
        return rows.groupBy("channel", "key").applyInPandas(widest_step, "key string, step bigint")

    def state(self, rows):
        return rows.groupBy("channel", "key").applyInArrow(kept, "channel int, key string, time timestamp, cents bigint")

    def cost(self, new_rows, window_rows):
        return window_rows


OPERATOR = WidestStep
'''


def test_python_functions_of_an_operator_file_run_in_spark_s_workers(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "widest_step.py").write_text(OPERATOR)
    operator = '[operator]\nfile = "widest_step.py"\nwindow = 2'
    pipeline = make_world(tmp_path, operator=operator, intervals=2, events=1000)
    assert run_intervals(pipeline) == 2

    second = first_interval(pipeline).shifted(1)
    window, _ = events_of_window(pipeline, second)
    cents = (pl.col("price") * 100).round().cast(pl.Int64)
    steps = pl.col("cents").diff().abs().max().fill_null(0)
    expected = (
        window.select(key="symbol", ts="ts", cents=cents).sort("key", "ts", "cents").group_by("key").agg(step=steps)
    )
    found = stored(pipeline, "results").filter(pl.col("interval_id") == second.id).drop("interval_id")
    assert found.sort("key").rows() == expected.sort("key").rows()
