"""What Spark needs from outside Python: a Java and jars. Finds them, says what is missing; fetching Java and Delta is `make setup`'s job.

The jars of further packages come through Spark's own resolver, once, and are taken from the cache ever after, without a network.
Standard library only: the set-up asks the same questions before anything else runs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path

from rebalance.errors import EnvironmentMissingError

#: Spark 4.2 starts on this version or a later one.
OLDEST_JAVA = 17
#: Where `make setup` keeps what it fetches: beside the sources, outside version control.
CACHE = Path(__file__).resolve().parents[2] / ".cache"
#: A Java from a package registry, for machines without one.
OWN_JAVA_HOME = CACHE / "java"
#: Delta's jars, as Spark's own resolver left them.
OWN_JARS = CACHE / "ivy" / "jars"
#: Where the jars of other packages are kept, a folder for each list of packages.
PACKAGES = CACHE / "packages"
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
#: Environment variable with a folder of Delta's jars; `provided` when Spark has them on its class path already.
JARS_VARIABLE = "REBALANCE_JARS"
PROVIDED = "provided"


def java_version(java: Path) -> int | None:
    """Major version of a `java` command; None if it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    # Up to 8 it was written 1.8.0_392.
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def use_java(environ: MutableMapping[str, str] = os.environ) -> Path:
    """Make Spark's launcher find a new enough Java, and return its `java` command.

    The launcher takes JAVA_HOME if it is set and the PATH otherwise, so that is the order here too; then our own.
    """
    tried: list[str] = []
    for java, home in _candidates(environ):
        version = java_version(java)
        if version is None or version < OLDEST_JAVA:
            tried.append(f"{java} {'does not run' if version is None else f'is version {version}'}")
            continue
        if home is None:
            environ.pop("JAVA_HOME", None)
        else:
            environ["JAVA_HOME"] = str(home)
        return java
    raise EnvironmentMissingError(
        f"Spark needs Java {OLDEST_JAVA} or newer and there is none"
        + (f" ({'; '.join(tried)})" if tried else " in JAVA_HOME or on the PATH")
        + ". Run `make setup`, which fetches one, or install a Java and set JAVA_HOME to it."
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, Path | None]]:
    """(java command, JAVA_HOME that makes the launcher take it; None if the PATH does)."""
    if environ.get("JAVA_HOME"):
        home = Path(environ["JAVA_HOME"])
        yield home / "bin" / "java", home
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path), None
    if (OWN_JAVA_HOME / "bin" / "java").exists():
        yield OWN_JAVA_HOME / "bin" / "java", OWN_JAVA_HOME


def delta_jars(spark_home: Path, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The jars to hand to Spark; none if it has Delta already, as a cluster's image may."""
    wanted = environ.get(JARS_VARIABLE, "")
    if wanted == PROVIDED or (not wanted and any((spark_home / "jars").glob("*delta-spark*.jar"))):
        return []
    folder = Path(wanted) if wanted else OWN_JARS
    jars = sorted(folder.glob("*.jar"))
    if not any("delta-spark" in jar.name for jar in jars):
        raise EnvironmentMissingError(
            f"Delta's jars are not in {folder}. Run `make setup`, which fetches them; or set {JARS_VARIABLE} to a folder that has them, "
            f"or to '{PROVIDED}' if Spark has them on its class path."
        )
    return jars


def packages_folder(packages: Sequence[str]) -> Path:
    """Where the jars of these packages are kept."""
    return PACKAGES / hashlib.sha256(",".join(sorted(packages)).encode()).hexdigest()[:16]


def package_jars(packages: Sequence[str], spark_home: Path) -> list[Path]:
    """The jars of Maven packages and of what they need, fetched if they are not in the cache."""
    if not packages:
        return []
    folder = packages_folder(packages)
    if not folder.is_dir():
        PACKAGES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PACKAGES, prefix="fetching-") as draft:
            fetch(packages, Path(draft), spark_home)
            try:
                # As a whole or not at all; another process may have been faster.
                os.rename(Path(draft) / "jars", folder)
            except OSError:
                if not folder.is_dir():
                    raise
    return sorted(folder.glob("*.jar"))


def fetch(packages: Sequence[str], ivy: Path, spark_home: Path) -> None:
    """Let Spark's resolver put the jars of packages into `ivy`/jars, by submitting a program that does nothing."""
    use_java()
    left_out = [name for name in LEFT_OUT if not any(package.startswith(f"{name}:") for package in packages)]
    with tempfile.NamedTemporaryFile("w", suffix=".py") as nothing:
        submit = [
            str(spark_home / "bin" / "spark-submit"),
            "--master=local",
            f"--packages={','.join(packages)}",
            f"--exclude-packages={','.join(left_out)}",
            f"--conf=spark.jars.ivy={ivy}",
            nothing.name,
        ]
        environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home)}
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_SUBMIT_ARGS"):
            # Of the Spark that has started this process, if one has.
            environ.pop(name, None)
        done = subprocess.run(submit, env=environ, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode or not any((ivy / "jars").glob("*.jar")):
        found = re.findall(r"(?:unresolved dependency|not found|Exception): ?[^\n]*", done.stdout + done.stderr)
        raise EnvironmentMissingError(
            f"Spark could not fetch {', '.join(packages)} ({found[-1] if found else f'exit code {done.returncode}'}). It needs a network the "
            "first time; behind a mirror, name it in spark-defaults.conf (spark.jars.repositories)."
        )
