"""What a step needs of the machine: Python and its packages, Java."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib import metadata

from rebalance.errors import EnvironmentMissingError
from rebalance.spark import environment
from rebalance.view.doctor.findings import Finding
from rebalance.view.doctor.spark import spark_home

#: What of the package can be left out, and what it is for.
_PARTS = {
    "spark": "running steps",
    "quality": "the step check_quality",
    "airflow": "running in Airflow",
    "pictures": "pictures",
}
_OLDEST, _TOO_NEW = (3, 11), (3, 13)


def python() -> Sequence[Finding]:
    """The interpreter."""
    seen = f"{sys.version.split()[0]} at {sys.executable}"
    if _OLDEST <= sys.version_info[:2] < _TOO_NEW:
        return [Finding("python", "ok", seen)]
    return [Finding("python", "fail", seen, "Use Python 3.11 or 3.12, with which this package is tested.")]


def packages() -> Sequence[Finding]:
    """The package itself and what each of its extras brings, in the versions it was made for."""
    wanted: dict[str, list[str]] = defaultdict(list)
    for line in metadata.requires("rebalance") or []:
        requirement, _, marker = line.partition(";")
        wanted[marker.partition("==")[2].strip(" '\"")].append(requirement.strip())
    own = f"rebalance {metadata.version('rebalance')}"
    return [_part("", own, wanted[""]), *(_part(extra, use, wanted[extra]) for extra, use in _PARTS.items())]


def _part(extra: str, use: str, requirements: Sequence[str]) -> Finding:
    """The packages of an extra: all there as wanted, not installed, or there in another version."""
    name = f"extra {extra}" if extra else "packages"
    install = f"pip install 'PATH[{extra}]'" if extra else "pip install PATH"
    mend = f"{install}, with the checkout or the wheel as PATH."
    names = [re.split(r"[<>=!~ \[]", requirement)[0] for requirement in requirements]
    versions = {package: _version(package) for package in names}
    missing = [package for package, version in versions.items() if not version]
    wrong = [
        f"{package} {versions[package]} (needs {requirement.removeprefix(package)})"
        for package, requirement in zip(names, requirements, strict=True)
        if versions[package] and not _fits(versions[package], requirement.removeprefix(package))
    ]
    if missing and extra:
        return Finding(name, "skipped", f"not installed: {', '.join(missing)}; needed for {use}", mend)
    if missing or wrong:
        return Finding(name, "fail", "; ".join([*(f"{package} is missing" for package in missing), *wrong]), mend)
    there = ", ".join(f"{package} {version}" for package, version in versions.items())
    return Finding(name, "ok", there if extra else f"{use}, {there}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _fits(version: str, specifiers: str) -> bool:
    """Whether a version is within limits such as '>=3.3,<3.4'.

    >>> _fits("3.3.2", "<3.4,>=3.3"), _fits("3.4.0", "<3.4,>=3.3"), _fits("4.2.0", "==4.2.0"), _fits("4.1.9", "==4.2.0")
    (True, False, True, False)
    """
    number = _numbers(version)
    for operator, limit in re.findall(r"(==|>=|<)([\d.]+)", specifiers):
        bound = _numbers(limit)
        fits = {"==": number == bound, ">=": number >= bound, "<": number < bound}[operator]
        if not fits:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].strip(".").split(".") if part)  # type: ignore[index]


def java() -> Sequence[Finding]:
    """The Java that Spark's launcher would take."""
    try:
        found = environment.use_java(dict(os.environ))
    except EnvironmentMissingError as error:
        said, _, mend = str(error).partition(". ")
        return [Finding("java", "fail" if spark_home() else "skipped", said, mend)]
    where = "JAVA_HOME" if found.is_relative_to(os.environ.get("JAVA_HOME") or "/nowhere") else "PATH"
    where = "our own cache" if found.is_relative_to(environment.OWN_JAVA_HOME) else where
    return [Finding("java", "ok", f"version {environment.java_version(found)}, {found} (from {where})")]
