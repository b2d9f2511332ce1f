"""A task as an executor runs it: a process of its own that takes the warm JVM, does something, and says in which JVM it was.

python -m tests.support.warm_client FILE MINUTES WHAT [SETTING=VALUE ...]
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.spark import warm_jvm
from rebalance.spark.session import spark_session
from rebalance.spark.warm import kept_warm
from rebalance.steps import run_step

# Time enough for a JVM that can answer.
warm_jvm.ANSWER = 2.0


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Long enough for a job to be killed in the middle."""
    for batch in batches:
        time.sleep(0.3)
        yield batch


def do(what: str, pipeline: Pipeline) -> object:
    """One of the things that tests ask for."""
    spark = spark_session(pipeline)
    word, _, rest = what.partition(" ")
    if word == "process":
        return run_step("process_batch", pipeline, pipeline.interval_at(pipeline.interval.first).shifted(int(rest)))
    if word == "fail":
        raise ValueError("something unforeseen")
    if word == "wait":
        Path(rest).touch()
        while Path(rest).exists():
            time.sleep(0.05)
    if word == "write":
        spark.range(20, numPartitions=20).mapInArrow(slowly, "id long").write.parquet(rest)
    return spark.conf.get("spark.sql.shuffle.partitions")


def main(file: str, minutes: str, what: str, *settings: str) -> None:
    """Do it, with the JVM's number and start in the answer."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    logging.getLogger("rebalance").setLevel(logging.INFO)
    pipeline = load_pipeline(Path(file), {"spark": {"settings": dict(text.split("=", 1) for text in settings)}})
    with kept_warm(float(minutes)):
        found = do(what, pipeline)
        jvm = spark_session(pipeline).sparkContext._jvm
        assert jvm is not None
        handle = jvm.java.lang.ProcessHandle.current()
        since = handle.info().startInstant().toString()
        sys.stdout.write(json.dumps({"jvm": handle.pid(), "since": since, "found": found}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
