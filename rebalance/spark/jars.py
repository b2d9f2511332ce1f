"""Jars, fetched once through Spark's own resolver into a folder of ours; Delta's and those for S3 only with the sums that this package ships.

Spark's resolver goes where `spark-defaults.conf` sends it (spark.jars.repositories, spark.jars.ivySettings), so a company's mirror is used
where there is one. After the first time nothing needs a network.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rebalance.errors import EnvironmentMissingError

COORDINATES = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: What Spark 4.2 needs to read and write s3a://, in 36 jars of 13 MB; the bundle that hadoop-aws asks for would be 600 MB.
S3_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:s3:2.35.4",
    "software.amazon.awssdk:s3-transfer-manager:2.35.4",
    "software.amazon.awssdk:sts:2.35.4",
    "software.amazon.awssdk:apache-client:2.35.4",
    "software.amazon.awssdk:netty-nio-client:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
#: Not fetched unless named: what Spark ships already, which is 100 MB more and fails where a local Maven repository holds a POM without its
#: jar; and Amazon's bundle.
LEFT_OUT = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.github.luben:zstd-jni",
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",
    "io.netty:*",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
    "org.apache.logging.log4j:log4j-1.2-api",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-hadoop",
    "org.roaringbitmap:RoaringBitmap",
    "org.scala-lang:scala-library",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
    "software.amazon.awssdk:bundle",
)
SUMS = Path(__file__).with_name("delta-jars.sha256")
S3_SUMS = Path(__file__).with_name("s3-jars.sha256")

log = logging.getLogger("rebalance")


def fetched_jars(
    folder: Path, spark_home: Path, packages: Sequence[str] = (COORDINATES,), sums: Path | None = SUMS
) -> list[Path]:
    """The jars of packages in `folder`, exactly those of the list if there is one; fetched if they are not."""
    if are_missing(folder, sums):
        log.warning("fetching %s through Spark's resolver into %s (once)", ", ".join(packages), folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
                _put(resolve(packages, Path(fresh), spark_home), folder, packages, sums)
        except OSError as error:
            raise EnvironmentMissingError(
                f"the jars of {', '.join(packages)} cannot be kept in {folder} ({error}). Set REBALANCE_JARS to a folder that has them, or "
                "XDG_CACHE_HOME to one that can be written to."
            ) from None
    return sorted(folder.glob("*.jar"))


def are_missing(folder: Path, sums: Path | None = SUMS) -> bool:
    """Whether jars have to be fetched: they are not there, or not as their list says."""
    return bool(wrong_jars(folder, sums)) if sums else not folder.is_dir()


def expected_sums(sums: Path = SUMS) -> dict[str, str]:
    """SHA-256 sum by jar name, as shipped."""
    pairs = (line.split() for line in sums.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def sums_of(folder: Path) -> dict[str, str]:
    """SHA-256 sum by jar name, as found."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}


def wrong_jars(folder: Path, sums: Path = SUMS) -> list[str]:
    """What is not as the list says: jars that are missing, differ, or are not on it."""
    wanted, present = expected_sums(sums), sums_of(folder)
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def resolve(packages: Sequence[str], folder: Path, spark_home: Path) -> Path:
    """Let Spark fetch the jars, by submitting a program that does nothing; returns the folder they are in."""
    nothing = folder / "nothing.py"
    nothing.touch()
    left_out = [name for name in LEFT_OUT if not any(package.startswith(f"{name}:") for package in packages)]
    submit = [
        str(spark_home / "bin" / "spark-submit"),
        "--master=local",
        f"--packages={','.join(packages)}",
        f"--exclude-packages={','.join(left_out)}",
        f"--conf=spark.jars.ivy={folder}",
        str(nothing),
    ]
    # What a running Spark has left in the environment would make this one join it.
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK_GATEWAY", "_PYSPARK", "PYSPARK_SUBMIT_ARGS"))
    }
    environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home)}
    done = subprocess.run(submit, env=environ, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode or not any((folder / "jars").glob("*.jar")):
        raise EnvironmentMissingError(
            f"Spark could not fetch {', '.join(packages)}: {_reason(done.stdout + done.stderr)} It needs a network the first time. Behind a "
            "mirror, name it in spark-defaults.conf (spark.jars.repositories). Without a network, set REBALANCE_JARS to a folder with Delta's "
            "jars, or to 'provided' where Spark has them on its class path."
        )
    return folder / "jars"


def _put(fetched: Path, folder: Path, packages: Sequence[str], sums: Path | None) -> None:
    """Let checked jars take their place in one step, so that no other process sees half of them."""
    wrong = wrong_jars(fetched, sums) if sums else []
    if wrong:
        raise EnvironmentMissingError(
            f"what was fetched for {', '.join(packages)} is not what this package was made with: {', '.join(wrong)}. None of it is used. A "
            "mirror may serve other files: ask another repository (spark.jars.repositories in spark-defaults.conf)."
        )
    if folder.exists() and are_missing(folder, sums):
        shutil.rmtree(folder)
    # Another process may have been faster: its jars are as good.
    if not folder.exists():
        fetched.rename(folder)


def _reason(said: str) -> str:
    """What of a resolver's many lines tells most."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "not found" in line or "Exception" in line or "unresolved" in line]
    return (telling or lines or ["it said nothing."])[-1][:300].rstrip(".") + "."
