"""The demo's events, written once to where the pipeline of `docker/pipelines` looks for them."""

from __future__ import annotations

from pathlib import Path

from rebalance.demo.events import demo_workload, write_trades
from rebalance.pipeline.file import load_pipeline

INTERVALS, EVENTS = 4, 600_000


def main() -> None:
    """Generate them unless they are there."""
    pipeline = load_pipeline(Path(__file__).parent / "pipelines" / "demo.toml")
    folder = Path(pipeline.source.path)
    if any(folder.glob("*.parquet")):
        return
    first = pipeline.interval_at(pipeline.interval.first)
    write_trades(folder, first, demo_workload(pipeline.channels.count), intervals=INTERVALS, events=EVENTS)


if __name__ == "__main__":
    main()
