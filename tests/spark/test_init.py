"""The file that `rebalance init` writes runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rebalance.steps.run import run_intervals
from rebalance.storage.epochs import all_epochs
from rebalance.view.init import init
from tests.support.world import first_interval, make_world, stored


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_two_intervals_run_in_shadow_mode_on_the_file_as_it_was_written(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("REBALANCE_PIPELINES", str(tmp_path / "new" / "pipelines"))
    events = Path(make_world(tmp_path / "world", events=500).source.path)
    if kind == "csv":
        pl.read_parquet(f"{events}/*.parquet").write_csv(
            tmp_path / "events.csv", datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ"
        )
        events = tmp_path / "events.csv"
    pipeline, _ = init("fresh", str(events), channels=4)
    assert (pipeline.source.format, pipeline.planning.mode) == (kind, "shadow")

    said: list[str] = []
    assert run_intervals(pipeline, count=2, say=said.append) == 2
    assert not [line for line in said if "WARNING" in line]
    first = first_interval(pipeline)
    seen = pl.read_csv(events, try_parse_dates=True) if kind == "csv" else pl.read_parquet(f"{events}/*.parquet")
    window = seen.filter((pl.col("ts") >= first.start) & (pl.col("ts") < first.shifted(1).end))
    expected = dict(window.group_by("symbol").len().rows())
    found = stored(pipeline, "results").filter(pl.col("interval_id") == first.shifted(1).id)
    assert dict(found.select("key", "events").rows()) == expected
    assert [epoch.kind for epoch in all_epochs(pipeline.tables)] == ["start", "process", "process"]
