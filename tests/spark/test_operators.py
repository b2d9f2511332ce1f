"""Every built-in operator over three intervals: recomputed plainly, on one channel, on several, with its keys split, with state left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rebalance.operators import BUILT_IN, Operator, load_operator, make_operator
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.spark.placement import exchanges
from rebalance.spark.routing import salt_of
from rebalance.spark.task_times import job_group, known_stages
from tests.support.markdown import blocks
from tests.support.small_runs import WINDOW, SmallRun, interval_ids, plain, splitting
from tests.support.world import events_of_window, expected_matches, expected_sums, first_interval, make_world

INTERVALS = 3


def expected_stats(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    window, _ = events_of_window(pipeline, interval)
    price = pl.col("price")
    return window.group_by(key="symbol").agg(
        count=pl.len(), min=price.min(), max=price.max(), mean=price.mean(), variance=price.var(ddof=0)
    )


def expected_distinct(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    window, _ = events_of_window(pipeline, interval)
    return window.group_by(key="symbol").agg(distinct=pl.col("price").n_unique())


def expected_bayes(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    window, _ = events_of_window(pipeline, interval)
    labels = pl.DataFrame({"label": ["buy", "sell", "hold"]})
    counts = window.group_by("symbol", label="side").agg(count=pl.len())
    every = window.select("symbol").unique().join(labels, how="cross")
    total = pl.col("count").sum().over("symbol")
    return (
        every.join(counts, on=["symbol", "label"], how="left")
        .with_columns(pl.col("count").fill_null(0))
        .select(
            "label", "count", key="symbol", log_likelihood=((pl.col("count") + 0.5) / (total + 0.5 * len(labels))).log()
        )
    )


def expected_pairs(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    window, own = events_of_window(pipeline, interval)
    buys, sells = window.filter(pl.col("side") == "buy"), own.filter(pl.col("side") == "sell")
    apart = pl.col("ts") - pl.col("ts_buy")
    return (
        sells.join(buys, on="symbol", suffix="_buy")
        .filter((apart > pl.duration()) & (apart <= pl.duration(seconds=PAIR_SECONDS)))
        .group_by(key="symbol")
        .agg(pairs=pl.len(), difference=(pl.col("price") - pl.col("price_buy")).sum())
    )


def expected_sessions(pipeline: Pipeline, interval: Interval) -> pl.DataFrame:
    window, _ = events_of_window(pipeline, interval)
    found: list[dict[str, Any]] = []
    for (symbol,), events in window.sort("ts", "side").group_by("symbol", maintain_order=True):
        session: list[tuple[Any, str]] = []
        for event in [*events.select("ts", "side").rows(), None]:
            if session and (event is None or (event[0] - session[-1][0]).total_seconds() > GAP):
                switches = sum(a[1] != b[1] for a, b in pairwise(session))
                if session[-1][0] >= interval.start:
                    found.append(
                        {
                            "key": symbol,
                            "start": session[0][0],
                            "end": session[-1][0],
                            "events": len(session),
                            "switches": switches,
                        }
                    )
                session = []
            if event is not None:
                session.append(event)
    return pl.DataFrame(found)


#: The events of a world of 1500 are 2.4 seconds apart, so some pairs are exactly this far apart.
PAIR_SECONDS = 240
GAP = 120.0


@dataclass(frozen=True)
class Case:
    """An operator's parameters and its plain recomputation."""

    parameters: dict[str, Any]
    expected: Callable[[Pipeline, Interval], pl.DataFrame]


CASES = {
    "windowed_sum": Case({"value": "price"}, expected_sums),
    "windowed_stats": Case({"value": "price"}, expected_stats),
    "distinct": Case({"value": "price"}, expected_distinct),
    "naive_bayes": Case({"label": "side", "labels": ["buy", "sell", "hold"], "alpha": 0.5}, expected_bayes),
    "latest_match": Case({"kind": "side", "value": "price"}, expected_matches),
    "self_join": Case({"kind": "side", "value": "price", "seconds": PAIR_SECONDS}, expected_pairs),
    "sessions": Case({"kind": "side", "gap": GAP}, expected_sessions),
}
MERGEABLE = sorted(name for name, operator in BUILT_IN.items() if operator.mergeable)


def test_every_built_in_operator_has_its_recomputation() -> None:
    assert set(CASES) == set(BUILT_IN)
    assert MERGEABLE == ["distinct", "naive_bayes", "windowed_stats", "windowed_sum"]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Three intervals of trades; the pipeline only names them."""
    return make_world(tmp_path_factory.mktemp("operators"), intervals=INTERVALS, events=1500, keys=40)


def hot_keys(pipeline: Pipeline) -> list[str]:
    """The five largest keys of all intervals, one key that is in none of them."""
    trades = pl.read_parquet(f"{pipeline.source.path}/*.parquet")
    return [*trades["symbol"].value_counts(sort=True)["symbol"].head(5), "of no trade"]


def operator_of(name: str) -> Operator:
    return make_operator(name, CASES[name].parameters)


@pytest.fixture(scope="module", params=sorted(CASES))
def on_one_channel(
    request: pytest.FixtureRequest, spark: SparkSession, events: Pipeline
) -> tuple[str, list[pl.DataFrame]]:
    """An operator's results of three intervals on a single channel."""
    run = SmallRun(spark, operator_of(request.param))
    source = Path(events.source.path)
    return request.param, [run.process(source, name, plain(1)) for name in interval_ids(events, INTERVALS)]


def test_results_equal_a_plain_recomputation(on_one_channel: tuple[str, list[pl.DataFrame]], events: Pipeline) -> None:
    name, results = on_one_channel
    assert events.operator.window == WINDOW
    for number, found in enumerate(results):
        expected = CASES[name].expected(events, first_interval(events).shifted(number))
        numbers = [column for column, kind in found.schema.items() if kind.is_numeric()]
        found = found.with_columns(pl.col(numbers).cast(pl.Float64))
        order = expected.select(found.columns).with_columns(pl.col(numbers).cast(pl.Float64)).sort(found.columns)
        assert len(order) >= 20
        # Three standard errors of a sketch of 2^12 registers.
        off = {"rel_tol": 0.05, "abs_tol": 0.0} if name == "distinct" else {"rel_tol": 1e-9, "abs_tol": 1e-7}
        assert_frame_equal(found, order, check_dtypes=False, check_exact=False, **off)  # type: ignore[call-overload]


def test_results_are_the_same_on_several_channels_however_keys_are_spread(
    on_one_channel: tuple[str, list[pl.DataFrame]], spark: SparkSession, events: Pipeline
) -> None:
    name, expected = on_one_channel
    hot, source = hot_keys(events), Path(events.source.path)
    ways = {"hashing": [plain(4)] * INTERVALS}
    if name in MERGEABLE:
        ways["splits"] = ways["state left behind"] = [splitting(hot, turn) for turn in range(INTERVALS)]
    for way, functions in ways.items():
        run = SmallRun(spark, operator_of(name), state_stays=way == "state left behind")
        for interval_id, function, wanted in zip(interval_ids(events, INTERVALS), functions, expected, strict=True):
            assert_frame_equal(run.process(source, interval_id, function), wanted, check_exact=True)


@pytest.mark.parametrize("name", MERGEABLE)
def test_only_partial_states_are_placed_a_second_time(spark: SparkSession, events: Pipeline, name: str) -> None:
    run, source = SmallRun(spark, operator_of(name)), Path(events.source.path)
    hot, interval_id = hot_keys(events), interval_ids(events, 1)[0]
    in_place = run.frames(source, interval_id, splitting(hot, 0), in_place=True)
    # The exchanges lie below what Spark is told is placed already.
    assert exchanges(in_place.results) == exchanges(in_place.state) == []
    with job_group(run.spark, "split keys") as group:
        in_place.results.write.format("noop").mode("overwrite").save()
    rows, parts = shuffled(run.spark, group)
    labels = 3 if name == "naive_bayes" else 1
    assert rows == 1500
    assert 5 < parts <= 5 * 3 * labels
    placed = in_place.state.withColumn("partition", F.spark_partition_id())
    assert placed.where(F.col("partition") != F.col("channel")).count() == 0


def shuffled(spark: SparkSession, group: str) -> list[int]:
    """Rows that each exchange of the group's jobs has written, the largest first."""
    jsc = spark.sparkContext._jsc.sc()
    jsc.listenerBus().waitUntilEmpty(10_000)
    tracker = spark.sparkContext.statusTracker()
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds}  # type: ignore[union-attr]
    known = known_stages(jsc.statusStore(), sorted(stages))
    return sorted((stage.shuffleWriteRecords() for stage in known if stage.shuffleWriteRecords()), reverse=True)


def documented_operator(project: Path, folder: Path) -> Operator:
    """The example of the documentation, word for word."""
    (example,) = [
        block for block in blocks((project / "docs" / "operators.md").read_text(), "python") if "OPERATOR = " in block
    ]
    (folder / "example.py").write_text(example)
    return load_operator(folder / "example.py")


@pytest.mark.parametrize("name", [*MERGEABLE, "docs/operators.md"])
def test_states_of_parts_merge_to_the_state_of_the_whole(
    spark: SparkSession, events: Pipeline, project: Path, tmp_path: Path, name: str
) -> None:
    operator = operator_of(name) if name in CASES else documented_operator(project, tmp_path)
    trades = spark.read.parquet(events.source.path)
    keyed = trades.withColumns({"time": F.col("ts"), "salt": salt_of(trades)})
    # Each key cut in six ways at once, from one part to as many as there are rows; a way is a key of its own.
    cuts = F.explode(F.array(*(F.lit(parts) for parts in (1, 2, 3, 7, 50, 100_000)))).alias("parts")
    cut = keyed.select("*", cuts).withColumn("key", F.concat_ws("#", "symbol", "parts"))
    rows = operator.rows(cut)
    assert "salt" in rows.columns
    part = F.pmod("salt", F.substring_index("key", "#", -1).cast("bigint")).cast("int")
    parts = operator.state(rows.withColumn("channel", part).drop("salt"))
    united = parts.withColumn("channel", F.lit(0)).withColumn("is_new", F.lit(True))
    whole = rows.withColumn("channel", F.lit(0)).withColumn("is_new", F.lit(True)).drop("salt")
    assert parts.count() > 5 * operator.state(whole.drop("is_new")).count()
    for law in ("results", "state"):
        merged, wanted = (_table(operator, frame, law) for frame in (united, whole))
        assert_frame_equal(merged, wanted, check_exact=True)


def _table(operator: Operator, rows: Any, law: str) -> pl.DataFrame:
    found = operator.results(rows) if law == "results" else operator.state(rows.drop("is_new"))
    if "sketch" in found.columns:
        # Equal sketches may list their values in another order; and see the operator for the union.
        found = found.withColumn("sketch", F.hll_sketch_estimate(F.hll_union("sketch", "sketch")))
    table = pl.from_arrow(found.toArrow())
    assert isinstance(table, pl.DataFrame)
    return table.sort(table.columns)
