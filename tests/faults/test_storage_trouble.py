"""A full disk, a root that cannot be written, files that are cut off: an error that names the thing, nothing published, all well afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rebalance.cli import main
from rebalance.errors import DamagedError, EnvironmentMissingError
from rebalance.pipeline.file import Pipeline
from rebalance.steps import STEPS, run_step
from rebalance.steps.run import run_interval
from rebalance.storage.epochs import all_epochs
from tests.support.budget import is_long
from tests.support.world import Stages, contents, first_interval

VERBS = [step.name for step in STEPS]
#: Each of them costs an interval; the others write less, and no Spark job of theirs does.
FILLED = VERBS if is_long() else ["collect_stats", "migrate_state", "process_batch"]


@pytest.fixture(scope="module")
def undisturbed(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two intervals that nothing has happened to leave behind."""
    return contents(matches.copy(tmp_path_factory.mktemp("undisturbed"), "2 collect_stats"))


class Disk:
    """A small disk of its own, in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._mount("-t", "tmpfs", "-o", "size=32m", "tmpfs")

    def fill(self) -> None:
        """Leave no room for a single byte more."""
        filler = os.open(self.folder / "filler", os.O_CREAT | os.O_WRONLY)
        try:
            while os.write(filler, bytes(4096)):
                pass
        except OSError:
            os.close(filler)

    def set_read_only(self, yes: bool) -> None:
        self._mount("-o", f"remount,{'ro' if yes else 'rw'}")

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments, self.folder], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        disk = Disk(tmp_path / "disk")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"only root can make a small disk: {error}")
    yield disk
    subprocess.run(["umount", "-l", disk.folder], check=True)


def on_disk(matches: Stages, disk: Disk, stage: str) -> Pipeline:
    """A world at this stage whose tables are on the small disk."""
    return matches.copy(disk.folder, stage)


@pytest.mark.parametrize("verb", FILLED)
def test_a_full_disk_is_named_publishes_nothing_and_does_no_harm_once_there_is_room(
    matches: Stages, undisturbed: dict[str, Any], disk: Disk, verb: str
) -> None:
    pipeline = on_disk(matches, disk, f"1 {verb}")
    interval, before = first_interval(pipeline).shifted(1), all_epochs(pipeline.tables)
    disk.fill()
    with pytest.raises(EnvironmentMissingError, match=r"the disk is full: .* has [\d,]+ bytes left"):
        run_step(verb, pipeline, interval)
    assert all_epochs(pipeline.tables) == before
    (disk.folder / "filler").unlink()
    run_interval(pipeline, interval)
    assert contents(pipeline) == undisturbed


def test_a_root_that_cannot_be_written_is_named_and_looking_at_it_still_works(
    matches: Stages, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = on_disk(matches, disk, "1 process_batch")
    interval = first_interval(pipeline).shifted(1)
    disk.set_read_only(True)
    for verb in VERBS:
        with pytest.raises(EnvironmentMissingError, match=r"cannot be written: .*Read-only file system"):
            run_step(verb, pipeline, interval)
    assert main(["status", str(pipeline.file)]) == 0
    assert main(["maintain", str(pipeline.file)]) == 4
    assert "cannot be written" in capsys.readouterr().err
    disk.set_read_only(False)
    run_step("process_batch", pipeline, interval)


@contextmanager
def cut_off(files: list[Path]) -> Iterator[None]:
    """Files of which only the first half is there."""
    assert files
    whole = {file: file.read_bytes() for file in files}
    for file, content in whole.items():
        file.write_bytes(content[: len(content) // 2])
    yield
    for file, content in whole.items():
        file.write_bytes(content)


@pytest.mark.parametrize("verb", ["collect_stats", "process_batch"])
def test_a_file_of_the_events_that_is_cut_off_is_named_and_nothing_is_published(
    matches: Stages, tmp_path: Path, verb: str
) -> None:
    shutil.copytree(matches.pipeline.source.path, tmp_path / "events")
    pipeline = matches.copy(tmp_path, f"1 {verb}", matches.pipeline.source.path, str(tmp_path / "events"))
    before = all_epochs(pipeline.tables)
    with (
        cut_off(sorted((tmp_path / "events").glob("*.parquet"))),
        pytest.raises(DamagedError, match=r"the file \S+/events/\S+\.parquet cannot be read.* belongs to the events"),
    ):
        run_step(verb, pipeline, first_interval(pipeline).shifted(1))
    assert all_epochs(pipeline.tables) == before


@pytest.mark.parametrize("verb", ["migrate_state", "process_batch"])
def test_a_file_of_the_state_that_is_cut_off_is_named_and_nothing_is_published(
    matches: Stages, undisturbed: dict[str, Any], tmp_path: Path, verb: str
) -> None:
    pipeline = matches.copy(tmp_path, f"1 {verb}")
    before = all_epochs(pipeline.tables)
    with (
        cut_off(sorted(Path(pipeline.tables, "state").rglob("part-*.parquet"))),
        pytest.raises(DamagedError, match=r"the file \S+/state/\S+\.parquet cannot be read"),
    ):
        run_step(verb, pipeline, first_interval(pipeline).shifted(1))
    assert all_epochs(pipeline.tables) == before
    run_interval(pipeline, first_interval(pipeline).shifted(1))
    assert contents(pipeline) == undisturbed


@pytest.mark.parametrize("table", ["epochs", "state", "functions", "batches"])
def test_a_log_entry_that_is_cut_off_is_named_with_its_table_and_nothing_is_built_on_it(
    matches: Stages, undisturbed: dict[str, Any], tmp_path: Path, table: str
) -> None:
    pipeline = matches.copy(tmp_path, "1 process_batch")
    newest = sorted(Path(pipeline.tables, table, "_delta_log").glob("*.json"))[-1]
    with cut_off([newest]), pytest.raises(DamagedError, match=rf"the log of the table \S+/{table} cannot be read"):
        run_step("process_batch", pipeline, first_interval(pipeline).shifted(1))
    run_interval(pipeline, first_interval(pipeline).shifted(1))
    assert contents(pipeline) == undisturbed


@pytest.mark.parametrize("table", ["epochs", "state"])
def test_an_empty_log_entry_as_a_loss_of_power_leaves_it_is_refused_and_not_passed_over(
    matches: Stages, tmp_path: Path, table: str
) -> None:
    pipeline = matches.copy(tmp_path, "1 process_batch")
    newest = sorted(Path(pipeline.tables, table, "_delta_log").glob("*.json"))[-1]
    newest.write_bytes(b"")
    for verb in VERBS:
        with pytest.raises(DamagedError, match=rf"the log of \S+/{table} is empty \({newest.name}\)"):
            run_step(verb, pipeline, first_interval(pipeline).shifted(1))
