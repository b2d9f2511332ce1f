"""Trouble in words: what Spark, delta-rs and the operating system say in the middle of a stack trace, as an error that names the way out.

Every entry works within `trouble_in_words`: the steps, what a person does to the past, maintenance, the command line and Airflow's tasks.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rebalance.errors import DamagedError, EnvironmentMissingError, RebalanceError, extras_named
from rebalance.spark import resources
from rebalance.storage import control
from rebalance.storage.schemas import SCHEMAS

_UNREADABLE = re.compile(
    r"reading file (?P<spark>\S+?)\.?(?=\s)|(?P<footer>\S+) is not a Parquet file|Could not read footer for file:? *(?P<file>\S+)"
)
_NOTHING_PUBLISHED = "What this step was doing counts for nothing; what was published before is untouched."


@contextmanager
def trouble_in_words(root: str) -> Iterator[None]:
    """Trouble inside, with a pipeline's tables at this root, is raised as an error of ours where its cause is known; any other as it is.

    One may lie within another: what is in words already stays so.
    """
    resources.forget()
    try:
        with extras_named():
            yield
    except EnvironmentMissingError:
        raise
    except Exception as error:
        found = _of_spark() or (None if isinstance(error, RebalanceError) else _of_storage(error, root))
        if found is None:
            raise
        raise found from error


def _of_spark() -> RebalanceError | None:
    """What became of our Spark: that a cluster had nothing for its jobs, or ended them, or that its JVM has died."""
    if given_up := resources.given_up():
        return EnvironmentMissingError(given_up)
    if resources.has_ended():
        return EnvironmentMissingError(
            "Spark's master has ended this application, or could not be reached: Spark's own lines in the log say which. "
            "Check spark.master, and look at the master's own page. The step can be run again."
        )
    if resources.jvm_is_gone():
        return EnvironmentMissingError(
            "Spark's JVM has died in the middle of this step: somebody has killed it, or the kernel has, for want of memory (then its log, "
            f"`dmesg`, says so; lower spark.driver.memory in [spark.settings], or give the machine more). {_NOTHING_PUBLISHED} The step can "
            "be run again."
        )
    return None


def _of_storage(error: Exception, root: str) -> RebalanceError | None:
    """A full disk, a root that cannot be written, files that are cut off."""
    text = str(error)
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return EnvironmentMissingError(
            f"the disk is full: {_room(root)}. {_NOTHING_PUBLISHED} Free some space, then run the step again."
        )
    if "Read-only file system" in text or "Permission denied" in text or isinstance(error, PermissionError):
        return EnvironmentMissingError(
            f"{root} cannot be written: {_line(text)}. {_NOTHING_PUBLISHED} Give the pipeline's user the right to write there, then run the step again."
        )
    cut = _UNREADABLE.search(text)
    if cut:
        file = next(name for name in cut.groups() if name)
        ours = "" if root in file else " It belongs to the events: write it anew."
        return DamagedError(
            f"the file {file} cannot be read: it is cut off or was overwritten. {_NOTHING_PUBLISHED}{ours or _way_back()}"
        )
    broken = _broken_table(root) if type(error).__module__.startswith(("_internal", "deltalake")) else None
    if broken:
        return DamagedError(
            f"the log of the table {broken[0]} cannot be read: {_line(str(broken[1]))}. {_NOTHING_PUBLISHED}{_way_back()}"
        )
    return None


def _broken_table(root: str) -> tuple[str, Exception] | None:
    """The first table that cannot even be opened; delta-rs does not name it."""
    for table in SCHEMAS:
        try:
            if control.exists(root, table):
                control.version(root, table)
        except Exception as error:
            return control.table_path(root, table), error
    return None


def _way_back() -> str:
    return " Bring it back from a copy, or start with an empty table root and run the intervals again."


def _room(root: str) -> str:
    """What is left where the tables are; Spark's own temporary files may be elsewhere."""
    folder = Path(root)
    if not folder.exists():
        return f"no space is left for {root}"
    return f"{root} has {shutil.disk_usage(folder).free:,} bytes left (Spark's temporary files may lie on another one)"


def _line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")[:300]
