"""A function per key for tests, the same work done plainly, and worlds that run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import run_step
from tests.support.world import make_world, stored

#: Streaks of the same side per key. The state is the last side, the length of its streak and the prices of it, in order; a key whose
#: streak is 3 long or longer loses its state. Every call leaves a line, so that calls can be counted.
ARROW = """
from pathlib import Path

import pyarrow as pa

RESULTS = "event_time TIMESTAMP, streak BIGINT, prices STRING"
STATE = "side STRING, price DOUBLE"
ROWS = ["price", "side"]


def process(key, rows, state, *, calls=None, longest=3):
    if calls:
        with Path(calls).open("a") as file:
            file.write(f"{key}\\n")
    streak = [(row["side"], row["price"]) for row in state.to_pylist()]
    found = []
    for row in rows.to_pylist():
        if streak and streak[-1][0] != row["side"]:
            found.append((row["time"], len(streak), " ".join(f"{price:.2f}" for _, price in streak)))
            streak = []
        streak.append((row["side"], row["price"]))
    if len(streak) >= longest:
        streak = []
    results = {name: [row[i] for row in found] for i, name in enumerate(("event_time", "streak", "prices"))}
    kept = {"side": [side for side, _ in streak], "price": [price for _, price in streak]}
    return pa.table(results, RESULT_TYPES), pa.table(kept, STATE_TYPES)


RESULT_TYPES = pa.schema([("event_time", pa.timestamp("us", "UTC")), ("streak", pa.int64()), ("prices", pa.string())])
STATE_TYPES = pa.schema([("side", pa.string()), ("price", pa.float64())])
"""
#: The same with DataFrames.
PANDAS = (
    ARROW.replace("import pyarrow as pa", "import pandas as pd")
    .replace("process(key, rows, state,", "process(key, rows: pd.DataFrame, state: pd.DataFrame,")
    .replace(".to_pylist()", '.to_dict("records")')
    .replace(
        "pa.table(results, RESULT_TYPES), pa.table(kept, STATE_TYPES)", "pd.DataFrame(results), pd.DataFrame(kept)"
    )
    .split("RESULT_TYPES =")[0]
)


def world(folder: Path, function: str = ARROW, *, knobs: str = "", parameters: str = "", **how: Any) -> Pipeline:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "streaks.py").write_text(function)
    operator = f'[operator]\nfunction = "streaks.py"\n{knobs}\n[operator.parameters]\n{parameters}'
    return make_world(folder, operator=operator, **{"planner": "keep", "keys": 150, "events": 600, **how})


def take(pipeline: Pipeline, interval: Interval) -> None:
    for name in ("collect_stats", "process_batch"):
        run_step(name, pipeline, interval)


def results_of(pipeline: Pipeline, interval: Interval) -> list[tuple[Any, ...]]:
    found = stored(pipeline, "results").filter(pl.col("interval_id") == interval.id)
    return sorted(found.select("key", "event_time", "streak", "prices").rows())


class Plain:
    """The same work on plain lists, and what is left of it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.events = pl.read_parquet(f"{pipeline.source.path}/*.parquet")
        self.ttl = pipeline.operator.ttl
        self.streaks: dict[str, list[tuple[str, float]]] = {}
        self.touched: dict[str, Interval] = {}

    def process(self, interval: Interval, longest: int = 3) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        if self.ttl is not None:
            for key, last in list(self.touched.items()):
                if last < interval.shifted(-self.ttl):
                    del self.streaks[key], self.touched[key]
        own = self.events.filter((pl.col("ts") >= interval.start) & (pl.col("ts") < interval.end))
        for (key,), rows in own.sort("ts", "price", "side").group_by("symbol"):
            streak = self.streaks.get(str(key), [])
            for time, side, price in rows.select("ts", "side", "price").rows():
                if streak and streak[-1][0] != side:
                    found.append((key, time, len(streak), " ".join(f"{price:.2f}" for _, price in streak)))
                    streak = []
                streak = [*streak, (side, price)]
            self.streaks[str(key)] = streak if len(streak) < longest else []
            self.touched[str(key)] = interval
        return sorted(found)

    def live(self) -> dict[str, list[tuple[str, float]]]:
        return {key: streak for key, streak in self.streaks.items() if streak}


def live_state(pipeline: Pipeline) -> dict[str, list[tuple[str, float]]]:
    """What counts in the log, worked out apart from the product."""
    log = stored(pipeline, "state")
    newest = log.filter(pl.col("interval_id") == pl.col("interval_id").max().over("key")).filter(
        pl.col("position") >= 0
    )
    found: dict[str, list[tuple[str, float]]] = {}
    for key, side, price in newest.sort("key", "position").select("key", "side", "price").rows():
        found.setdefault(key, []).append((side, price))
    return found
