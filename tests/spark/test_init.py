"""The file that `rebalance init` writes runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rebalance.pipeline.file import load_pipeline
from rebalance.steps.run import run_intervals
from rebalance.storage.epochs import all_epochs
from rebalance.view.init import init
from tests.support.budget import is_long
from tests.support.s3 import BUCKET, S3
from tests.support.world import first_interval, make_world, stored


def on_s3(s3: S3, events: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same files on a store that only the environment knows of."""
    for name, value in s3.options.items():
        monkeypatch.setenv(name, value)
    for file in events.glob("*.parquet"):
        s3.client().upload_file(str(file), BUCKET, f"init-runs/{file.name}")
    return f"s3a://{BUCKET}/init-runs"


ON_S3 = pytest.param("s3", marks=pytest.mark.skipif(not is_long(), reason="20 s: in make test-long"))


@pytest.mark.parametrize("kind", ["parquet", "csv", ON_S3])
def test_two_intervals_run_in_shadow_mode_on_the_file_as_it_was_written(
    spark: Any, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("REBALANCE_PIPELINES", str(tmp_path / "new" / "pipelines"))
    events = Path(make_world(tmp_path / "world", events=500).source.path)
    if kind == "csv":
        pl.read_parquet(f"{events}/*.parquet").write_csv(
            tmp_path / "events.csv", datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ"
        )
        events = tmp_path / "events.csv"
    pipeline, _ = init("fresh", on_s3(s3, events, monkeypatch) if kind == "s3" else str(events), channels=4)
    if kind == "s3":
        # A JVM that is started with these keys in its environment finds them there; the tests' own has been started before.
        keys = {name: value for name, value in s3.settings.items() if name.endswith((".access.key", ".secret.key"))}
        pipeline = load_pipeline(pipeline.file, {"spark": {"settings": {**pipeline.spark.settings, **keys}}})
    assert (pipeline.source.format, pipeline.planning.mode) == ("csv" if kind == "csv" else "parquet", "shadow")

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
