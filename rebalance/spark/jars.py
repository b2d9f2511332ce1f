"""Delta's jars, fetched once through Spark's own resolver into a folder of ours, and used only with the sums that this package ships.

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
from pathlib import Path

from rebalance.errors import EnvironmentMissingError

COORDINATES = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: What Spark ships already. Fetching it again is 100 MB, and fails where a local Maven repository holds a POM without its jar.
SHIPPED_WITH_SPARK = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.github.luben:zstd-jni",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-1.2-api",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-hadoop",
    "org.roaringbitmap:RoaringBitmap",
    "org.scala-lang:scala-library",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
SUMS = Path(__file__).with_name("delta-jars.sha256")

log = logging.getLogger("rebalance")


def fetched_jars(folder: Path, spark_home: Path) -> list[Path]:
    """The jars in `folder`, which are exactly those of the list; fetched if they are not."""
    if wrong_jars(folder):
        log.warning("fetching Delta's jars through Spark's resolver into %s (once; 13 MB)", folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
                _put(resolve(Path(fresh), spark_home), folder)
        except OSError as error:
            raise EnvironmentMissingError(
                f"Delta's jars cannot be kept in {folder} ({error}). Set REBALANCE_JARS to a folder that has them, or XDG_CACHE_HOME to one "
                "that can be written to."
            ) from None
    return sorted(folder.glob("*.jar"))


def expected_sums() -> dict[str, str]:
    """SHA-256 sum by jar name, as shipped."""
    pairs = (line.split() for line in SUMS.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def sums_of(folder: Path) -> dict[str, str]:
    """SHA-256 sum by jar name, as found."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}


def wrong_jars(folder: Path, expected: dict[str, str] | None = None) -> list[str]:
    """What is not as the list says: jars that are missing, differ, or are not on it."""
    wanted, present = expected or expected_sums(), sums_of(folder)
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def resolve(folder: Path, spark_home: Path) -> Path:
    """Let Spark fetch the jars, by submitting a program that does nothing; returns the folder they are in."""
    nothing = folder / "nothing.py"
    nothing.touch()
    submit = [
        str(spark_home / "bin" / "spark-submit"),
        "--master=local",
        f"--packages={COORDINATES}",
        f"--exclude-packages={','.join(SHIPPED_WITH_SPARK)}",
        f"--conf=spark.jars.ivy={folder}",
        str(nothing),
    ]
    # What a running Spark has left in the environment would make this one join it.
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "_PYSPARK"))
    }
    environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home)}
    done = subprocess.run(submit, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentMissingError(
            f"Spark could not fetch {COORDINATES}: {_reason(done.stdout + done.stderr)} It needs a network the first time. Behind a mirror, "
            "name it in spark-defaults.conf (spark.jars.repositories). Without a network, set REBALANCE_JARS to a folder with the jars, or to "
            "'provided' where Spark has them on its class path."
        )
    return folder / "jars"


def _put(fetched: Path, folder: Path) -> None:
    """Let checked jars take their place in one step, so that no other process sees half of them."""
    wrong = wrong_jars(fetched)
    if wrong:
        raise EnvironmentMissingError(
            f"what was fetched for {COORDINATES} is not what this package was made with: {', '.join(wrong)}. None of it is used. A mirror may "
            "serve other files: ask another repository (spark.jars.repositories in spark-defaults.conf)."
        )
    if folder.exists() and wrong_jars(folder):
        shutil.rmtree(folder)
    # Another process may have been faster: its jars are as good.
    if not folder.exists():
        fetched.rename(folder)


def _reason(said: str) -> str:
    """What of a resolver's many lines tells most."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "not found" in line or "Exception" in line or "unresolved" in line]
    return (telling or lines or ["it said nothing."])[-1][:300].rstrip(".") + "."
