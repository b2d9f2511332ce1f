"""What has to be there before Airflow's parts start: the bucket, and the demo's events and pipeline. Can be killed and run again.

The pipeline begins some full hours ago, so that Airflow has just these to catch up on. Its file is written last: where it is, all is done,
and what a person has changed in it stays.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from pyarrow.fs import LocalFileSystem, S3FileSystem, copy_files

from rebalance.demo.events import demo_workload, write_trades
from rebalance.pipeline.file import load_pipeline

TEMPLATE = Path(__file__).with_name("demo.toml")


def main() -> None:
    """Make what is missing."""
    file = Path(os.environ["REBALANCE_PIPELINES"]) / TEMPLATE.name
    if file.exists():
        return
    intervals, events, keys = (int(os.environ[f"DEMO_{what}"]) for what in ("INTERVALS", "EVENTS", "KEYS"))
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=intervals)
    text = re.sub(r"^first = .*$", f"first = {first:%Y-%m-%dT%H:%M:%SZ}", TEMPLATE.read_text(), flags=re.MULTILINE)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".new")
    unfinished.write_text(text)
    put_events(unfinished, intervals, events, keys)
    unfinished.rename(file)


def put_events(file: Path, intervals: int, events: int, keys: int) -> None:
    """The bucket and, in it, so many trades per interval."""
    pipeline = load_pipeline(file)
    workload = replace(demo_workload(pipeline.channels.count), keys=keys)
    place = pipeline.source.path.removeprefix("s3a://")
    store = S3FileSystem(
        endpoint_override=os.environ["AWS_ENDPOINT_URL"], region=os.environ["AWS_REGION"], allow_bucket_creation=True
    )
    store.create_dir(place.partition("/")[0])
    with TemporaryDirectory() as folder:
        first = pipeline.interval_at(pipeline.interval.first)
        write_trades(Path(folder), first, workload, intervals=intervals, events=events)
        copy_files(folder, place, source_filesystem=LocalFileSystem(), destination_filesystem=store)


if __name__ == "__main__":
    main()
