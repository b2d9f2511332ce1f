"""What Spark needs: jars, a master, and the JVM that tasks keep warm. No Spark is started or imported to look."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from rebalance.pipeline.file import Pipeline
from rebalance.spark import environment, jars
from rebalance.spark.defaults import brings_delta, joined, spark_defaults
from rebalance.spark.session import chosen_master, local_heap
from rebalance.spark.warm import warm_folder
from rebalance.spark.warm_jvm import recorded
from rebalance.view.doctor.findings import Finding

#: Seconds to wait for a connection.
_CONNECT = 1.5
#: In MiB: with less, Spark's workers and the page cache have nothing to live on.
_LEAST_FREE = 512
_UNITS = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def spark_home() -> Path | None:
    """Where Spark is, found without importing it."""
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    found = find_spec("pyspark")
    return Path(found.origin).parent if found and found.origin else None


def delta_jars(pipeline: Pipeline | None) -> Sequence[Finding]:
    """Delta's jars, by the way in which a session would come by them."""
    home = spark_home()
    if home is None:
        return [Finding("jars of Delta", "skipped", "Spark is not installed")]
    named = os.environ.get(environment.JARS_VARIABLE, "")
    if brings_delta(joined(spark_defaults(home), pipeline.spark.settings if pipeline else {})):
        return [Finding("jars of Delta", "ok", "named by Spark's own settings")]
    if named == environment.PROVIDED or (not named and any((home / "jars").glob("*delta-spark*.jar"))):
        return [Finding("jars of Delta", "ok", "provided by Spark's own class path")]
    if named:
        # Raises what a session would raise.
        there = environment.delta_jars(home)
        return [
            Finding("jars of Delta", "ok", f"{len(there)} jars in {named}, which {environment.JARS_VARIABLE} names")
        ]
    return [_jars("jars of Delta", environment.OWN_JARS, jars.SUMS)]


def store_jars(pipeline: Pipeline) -> Sequence[Finding]:
    """The jars with which Spark reaches an object store."""
    packages, home = pipeline.spark.packages, spark_home()
    needs_s3 = any(place.startswith("s3a://") for place in (pipeline.tables, pipeline.source.path))
    if home is None or not (packages or needs_s3):
        return [Finding("jars for stores", "skipped", "none needed: no spark.packages, nothing on s3a://")]
    if not packages:
        is_local = chosen_master(spark_defaults(home), pipeline).startswith("local")
        if not is_local or any((home / "jars").glob("hadoop-aws*.jar")):
            return [Finding("jars for stores", "ok", "left to Spark's own class path")]
        named = ", ".join(f'"{package}"' for package in jars.S3_PACKAGES)
        return [
            Finding("jars for stores", "fail", "Spark has no classes for s3a://", f"Set [spark] packages = [{named}].")
        ]
    sums = jars.S3_SUMS if set(packages) == set(jars.S3_PACKAGES) else None
    return [_jars("jars for stores", environment.packages_folder(packages), sums)]


def _jars(name: str, folder: Path, sums: Path | None) -> Finding:
    there = sorted(folder.glob("*.jar"))
    if not there:
        return Finding(
            name,
            "warn",
            f"not fetched yet ({folder})",
            "The first Spark that is started fetches them, which needs a network; see the README.",
        )
    wrong = jars.wrong_jars(folder, sums) if sums else []
    if wrong:
        return Finding(
            name,
            "fail",
            f"{len(wrong)} of the jars in {folder} are missing, changed or not on the list: {', '.join(wrong[:3])}",
            "Remove the folder: the next Spark fetches them again.",
        )
    checked = "sums as shipped" if sums else "no sums to check"
    return Finding(name, "ok", f"{len(there)} jars in {folder}, {checked}")


def master(pipeline: Pipeline | None) -> Sequence[Finding]:
    """Where Spark runs: whether a cluster's address answers, or what this machine has for it."""
    home = spark_home()
    if home is None:
        return [Finding("spark master", "skipped", "Spark is not installed")]
    told = spark_defaults(home)
    named = chosen_master(told, pipeline)
    if named.startswith("local"):
        settings = joined(told, pipeline.spark.settings if pipeline else {})
        return [_local(named, settings.get("spark.driver.memory") or local_heap())]
    if named.startswith("yarn"):
        return [_yarn()]
    addresses = re.findall(r"([\w.-]+|\[[\da-fA-F:]+\]):(\d+)", named.partition("//")[2])
    if not addresses:
        return [Finding("spark master", "skipped", f"{named}: there is no address in it to ask")]
    answers = _first_that_answers([(host.strip("[]"), int(port)) for host, port in addresses])
    if answers:
        return [Finding("spark master", "ok", f"{named}: {answers} takes connections")]
    return [
        Finding(
            "spark master",
            "fail",
            f"{named}: no connection",
            "Start the master, correct spark.master, or open the network's way to it (docs/clusters.md).",
        )
    ]


def _local(named: str, heap: str) -> Finding:
    wanted = re.search(r"\[(\d+|\*)", named)
    cores = len(os.sched_getaffinity(0))
    used = cores if wanted and wanted[1] == "*" else int(wanted[1]) if wanted else 1
    free, size = _free_memory(), _mebibytes(heap)
    seen = f"{named}: {used} of {cores} cores, a heap of {heap}, {free:,} MiB of memory free now"
    if size is not None and free < size + _LEAST_FREE:
        # Free means what could be had at once; a heap grows to its size only if it must.
        return Finding(
            "spark master",
            "warn",
            seen,
            "Spark may be ended for want of memory: stop something, or set spark.driver.memory in [spark.settings].",
        )
    if used > cores:
        return Finding(
            "spark master", "warn", seen, f"More tasks than cores take turns: local[{cores}] or local[*] is enough."
        )
    return Finding("spark master", "ok", seen)


def _free_memory() -> int:
    """MiB that could be had without swapping."""
    said = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return int(said[1]) // 1024 if said else 0


def _mebibytes(size: str) -> float | None:
    """A size as Java is told it.

    >>> _mebibytes("2g"), _mebibytes("512m"), _mebibytes("what")
    (2048.0, 512.0, None)
    """
    found = re.fullmatch(r"(\d+)([kmgt])b?", size.strip().lower())
    return int(found[1]) * _UNITS[found[2]] if found else None


def _yarn() -> Finding:
    folder = os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")
    if folder and Path(folder).is_dir():
        return Finding("spark master", "ok", f"yarn, as {folder} says")
    return Finding(
        "spark master",
        "fail",
        "yarn, and nothing says where it is",
        "Set HADOOP_CONF_DIR to the cluster's configuration.",
    )


def warm_jvm(pipeline: Pipeline | None) -> Sequence[Finding]:
    """The JVM that tasks leave each other: read off its record; nothing is taken or started."""
    if pipeline and (not pipeline.spark.warm or not pipeline.spark.master.startswith("local")):
        return [Finding("warm JVM", "skipped", "not used: spark.warm is 0, or the master is not local")]
    folder = warm_folder()
    record = recorded(folder)
    if record is None or not record.jvm.is_alive():
        return [Finding("warm JVM", "ok", f"none in {folder}; the next task starts one")]
    since = datetime.fromtimestamp((folder / "record").stat().st_mtime, UTC)
    if record.sleeper is None:
        return [
            Finding(
                "warm JVM",
                "ok",
                f"process {record.jvm.pid}, lent to a task since {since:%H:%M:%S}Z, task {record.clients} of it",
            )
        ]
    idle = (datetime.now(UTC) - since).total_seconds() / 60
    return [
        Finding("warm JVM", "ok", f"process {record.jvm.pid}, idle for {idle:.1f} min, after {record.clients} tasks")
    ]


def _first_that_answers(addresses: Sequence[tuple[str, int]]) -> str | None:
    """The first address that takes a connection; it is closed again at once."""
    for host, port in addresses:
        try:
            socket.create_connection((host, port), _CONNECT).close()
        except OSError:
            continue
        return f"{host}:{port}"
    return None
