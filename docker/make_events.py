"""The demo's events, written once to where the pipeline of `docker/pipelines` looks for them."""

from __future__ import annotations

from pathlib import Path

from rebalance.demo.events import write_trades
from rebalance.pipeline.file import load_pipeline
from rebalance.simulate.workload import Workload

INTERVALS, EVENTS, KEYS = 8, 150_000, 20_000


def main() -> None:
    """Generate them unless they are there."""
    pipeline = load_pipeline(Path(__file__).parent / "pipelines" / "demo.toml")
    folder = Path(pipeline.source.path)
    if any(folder.glob("*.parquet")):
        return
    workload = Workload(keys=KEYS, channels=pipeline.channels.count, z=1.0, f=0.3, seed=1)
    first = pipeline.interval_at(pipeline.interval.first)
    write_trades(folder, first, workload, intervals=INTERVALS, events=EVENTS)


if __name__ == "__main__":
    main()
