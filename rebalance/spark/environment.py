"""What Spark needs from outside Python: a Java and jars. Finds them and says what is missing; jars are fetched if need be.

Standard library only: the set-up asks the same questions before anything else runs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path

from rebalance.errors import EnvironmentMissingError
from rebalance.spark.jars import COORDINATES, S3_PACKAGES, S3_SUMS, are_missing, fetched_jars

#: Spark 4.2 starts on this version or a later one.
OLDEST_JAVA = 17


def cache_folder(package: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Where what is fetched is kept: of a checkout, in its own folder; of an installed package, in the user's folder for such things."""
    checkout = package.parent
    if (checkout / "uv.lock").is_file():
        return checkout / ".cache"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rebalance"


CACHE = cache_folder(Path(__file__).resolve().parents[1])
#: A Java from a package registry, for machines without one.
OWN_JAVA_HOME = CACHE / "java"
#: Delta's jars, as Spark's own resolver left them.
OWN_JARS = CACHE / "ivy" / "jars"
#: Where the jars of other packages are kept, a folder for each list of packages.
PACKAGES = CACHE / "packages"
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
        + ". Install one (Debian: apt-get install openjdk-17-jre-headless) and set JAVA_HOME to it; in a checkout, `make setup` fetches one."
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
    """The jars to hand to Spark, fetched if they are nowhere; none if it has Delta already, as a cluster's image may."""
    wanted = environ.get(JARS_VARIABLE, "")
    if wanted == PROVIDED or (not wanted and any((spark_home / "jars").glob("*delta-spark*.jar"))):
        return []
    if not wanted:
        if are_missing(OWN_JARS):
            # Spark's resolver is a Java program too.
            use_java()
        return fetched_jars(OWN_JARS, spark_home)
    jars = sorted(Path(wanted).glob("*.jar"))
    if not any("delta-spark" in jar.name for jar in jars):
        raise EnvironmentMissingError(
            f"Delta's jars are not in {wanted}, which {JARS_VARIABLE} names. Put the jars of {COORDINATES} there; or set it to '{PROVIDED}' "
            "if Spark has them on its class path; or unset it, and they are fetched."
        )
    return jars


def packages_folder(packages: Sequence[str]) -> Path:
    """Where the jars of these packages are kept."""
    return PACKAGES / hashlib.sha256(",".join(sorted(packages)).encode()).hexdigest()[:16]


def package_jars(packages: Sequence[str], spark_home: Path) -> list[Path]:
    """The jars of Maven packages and of what they need, fetched if they are not in the cache; those for S3 as this package knows them."""
    if not packages:
        return []
    folder, sums = packages_folder(packages), S3_SUMS if set(packages) == set(S3_PACKAGES) else None
    if are_missing(folder, sums):
        use_java()
    return fetched_jars(folder, spark_home, packages, sums)
