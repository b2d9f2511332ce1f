"""Maintenance: what is old goes, what a rewind needs stays, and no row of results or state is any other afterwards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.errors import RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.spark.rewrite import HIDDEN_SHARE
from rebalance.spark.state_log import DataFile
from rebalance.steps import maintain as step
from rebalance.steps.maintain import maintain
from rebalance.steps.rewind import rewind, undo
from rebalance.steps.run import run_intervals
from rebalance.storage import control
from rebalance.storage.delta_log import TableFiles, hidden_rows
from rebalance.storage.epochs import all_epochs, current_epoch
from rebalance.storage.served import served_epochs
from tests.support.upkeep import all_files, let_time_pass, state_rows
from tests.support.world import Stages, expected_matches, first_interval, stored_results

pytestmark = pytest.mark.usefixtures("few_rows")

#: Two intervals are done, and the third one's plan is carried out: the state is in pieces and hides rows.
MIGRATED = "2 process_batch"
BRIEF = "[retention]\nresults = 1\nstatistics = 1\nplans = 1\nfunctions = 1\nepochs = 1\n"


def run(pipeline: Pipeline, intervals: int) -> None:
    assert run_intervals(pipeline, count=intervals, say=lambda _: None) == intervals


def check_results(pipeline: Pipeline, *numbers: int) -> None:
    for number in numbers:
        interval = first_interval(pipeline).shifted(number)
        assert stored_results(pipeline, interval).equals(expected_matches(pipeline, interval))


def partitions(pipeline: Pipeline) -> dict[tuple[str, str], list[Path]]:
    """The files of each interval and channel of the active state; a lone one may still hide a few rows."""
    epoch = current_epoch(pipeline.tables)
    assert epoch is not None
    found: dict[tuple[str, str], list[Path]] = {}
    for add in TableFiles(pipeline.tables, "state").files_at(epoch.state_version).values():
        assert hidden_rows(add) < HIDDEN_SHARE * DataFile(add).records
        values = add["partitionValues"]
        path = Path(pipeline.tables, "state", add["path"])
        found.setdefault((values["interval_id"], values["channel"]), []).append(path)
    return found


def test_a_fragmented_state_becomes_one_sorted_file_a_partition_in_an_epoch_of_its_own_with_the_same_rows(
    matches: Stages, tmp_path: Path
) -> None:
    pipeline = matches.copy(tmp_path, MIGRATED)
    before, rows = current_epoch(pipeline.tables), state_rows(pipeline)
    (said,) = maintain(pipeline)
    assert "hidden rows, written anew as 2 files" in said
    assert all(len(files) == 1 for files in partitions(pipeline).values())
    assert all(pl.read_parquet(file)["key"].is_sorted() for (file,) in partitions(pipeline).values())
    epoch = current_epoch(pipeline.tables)
    assert before is not None
    assert epoch is not None
    assert (epoch.kind, epoch.epoch, epoch.interval_id) == ("maintain", before.epoch + 1, before.interval_id)
    assert epoch.function_version == before.function_version
    assert state_rows(pipeline).equals(rows)
    changes = TableFiles(pipeline.tables, "state").actions(epoch.state_version)
    assert {a[kind]["dataChange"] for a in changes for kind in ("add", "remove") if kind in a} == {False}
    assert maintain(pipeline) == ["there is nothing to do"]
    run(pipeline, 1)
    check_results(pipeline, 0, 1, 2)


def test_what_is_old_goes_and_every_served_epoch_can_still_be_rewound_to_and_run_again(
    matches: Stages, tmp_path: Path
) -> None:
    pipeline = matches.copy(tmp_path, "done", becomes=BRIEF)
    whole = matches.copy(tmp_path / "whole", "done")
    let_time_pass(pipeline)
    size = sum(all_files(pipeline).values())
    said = maintain(pipeline)
    assert any(
        sentence.startswith("results: ") and "rows of intervals before 20260101T0200Z" in sentence for sentence in said
    )
    let_time_pass(pipeline)
    maintain(pipeline)
    assert sum(all_files(pipeline).values()) < size
    assert state_rows(pipeline).equals(state_rows(whole))
    check_results(pipeline, 2)
    assert stored_results(pipeline, first_interval(pipeline)).is_empty()

    third = first_interval(pipeline).shifted(2)
    rewind(pipeline, third)
    undo(pipeline)
    rewind(pipeline, third)
    maintain(pipeline)
    undo(pipeline)
    rewind(pipeline, third)
    run(pipeline, 1)
    check_results(pipeline, 2)
    assert state_rows(pipeline).equals(state_rows(whole))
    with pytest.raises(RebalanceError, match=r"keeps what the newest 1 interval needs.*Nothing was changed"):
        rewind(pipeline, first_interval(pipeline))


def test_logs_are_cut_behind_a_checkpoint_of_the_oldest_version_that_is_served(
    spark: SparkSession, matches: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance.storage.cleaning.CHECKPOINT_AFTER", 1)
    pipeline = matches.copy(tmp_path, "done", becomes="[retention]\nepochs = 1\n")
    whole = matches.copy(tmp_path / "whole", "done")
    let_time_pass(pipeline)
    maintain(pipeline)
    versions = [epoch.state_version for epoch in served_epochs(pipeline) if epoch.state_version >= 0]
    assert min(TableFiles(pipeline.tables, "state").commits) == min(versions) > 0
    for table in ("plans", "results", "epochs"):
        log = TableFiles(pipeline.tables, table)
        assert list(log.commits) == [log.head] == list(log.checkpoints)
    for version in versions:
        reader = spark.read.format("delta").option("versionAsOf", version)
        ours, theirs = (reader.load(f"{p.tables}/state").toPandas() for p in (pipeline, whole))
        assert sorted(map(tuple, ours.to_numpy())) == sorted(map(tuple, theirs.to_numpy()))
    rewind(pipeline, first_interval(pipeline).shifted(2))
    run(pipeline, 1)
    check_results(pipeline, 2)
    with pytest.raises(RebalanceError, match=r"the log of the state at epoch .* is gone"):
        rewind(pipeline, first_interval(pipeline).shifted(1))


def test_leftovers_of_killed_runs_go_when_they_are_old_and_nothing_else_does(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "done")
    state = Path(pipeline.tables, "state")
    old = [state / "interval_id=x" / "_temporary" / "0" / "part-0.parquet", state / "_delta_log" / ".1.json.2.tmp"]
    for file in old:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"half")
    let_time_pass(pipeline)
    young = state / "interval_id=y" / "part-0.parquet"
    young.parent.mkdir()
    young.write_bytes(b"being written")
    before = all_files(pipeline)
    said = maintain(pipeline)
    assert any("state: " in sentence for sentence in said)
    gone = before.keys() - all_files(pipeline).keys()
    assert {f"state/{file.relative_to(state)}" for file in old} <= gone
    # Spark leaves a mark beside the files of every write; nobody reads it.
    assert {Path(name).name for name in gone if name not in {f"state/{file.relative_to(state)}" for file in old}} <= {
        "_SUCCESS",
        "._SUCCESS.crc",
    }
    assert young.exists()
    assert not (state / "interval_id=x").exists()


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, MIGRATED, becomes=BRIEF)
    let_time_pass(pipeline)
    before = all_files(pipeline)
    would = maintain(pipeline, dry_run=True)
    assert all_files(pipeline) == before
    assert all(sentence.startswith("would do: ") for sentence in would)
    assert any("written anew" in sentence for sentence in would)
    done = maintain(pipeline)
    assert {s.removeprefix("would do: ").split(":")[0] for s in would} == {s.split(":")[0] for s in done}


def test_maintenance_killed_at_any_moment_and_run_again_leaves_what_an_undisturbed_one_does(
    matches: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves is what is on the disk at that moment: the tables are copied at each."""
    pipeline = matches.copy(tmp_path / "whole", MIGRATED, becomes=BRIEF)
    let_time_pass(pipeline)
    rows, copies = state_rows(pipeline), []

    def keep(moment: str) -> None:
        folder = tmp_path / f"{len(copies)}"
        shutil.copytree(tmp_path / "whole", folder, copy_function=shutil.copy2)
        copies.append((moment, folder))

    with monkeypatch.context() as patched:
        patched.setattr(step, "checkpoint", keep)
        maintain(pipeline)
    named = {moment.removeprefix("maintain: ") for moment, _ in copies}
    assert named == {
        "rows removed",
        "files written",
        "state rewritten",
        "verified",
        "epoch published",
        "checkpoints made",
        "files removed",
        "log cleaned",
    }
    kept = {
        table: control.read(pipeline.tables, table).num_rows for table in ("results", "batches", "functions", "plans")
    }
    # One world for each kind of moment; those of the cleaning come once for each table.
    for moment, folder in {moment: (moment, folder) for moment, folder in copies}.values():
        again = load_pipeline(folder / "world.toml")
        maintain(again)
        assert all(len(files) == 1 for files in partitions(again).values()), moment
        assert state_rows(again).equals(rows), moment
        assert {table: control.read(again.tables, table).num_rows for table in kept} == kept, moment
        assert [e.kind for e in all_epochs(again.tables)].count("maintain") == 1, moment
    run(again, 1)
    check_results(again, 2)


def test_a_pipeline_that_is_maintained_after_every_interval_gives_the_same_results(
    matches: Stages, tmp_path: Path
) -> None:
    pipeline = matches.copy(tmp_path, "0 collect_stats", becomes=BRIEF.replace("results = 1\n", ""))
    assert maintain(pipeline) == ["no interval was processed yet: there is nothing to maintain"]
    for _ in range(3):
        run(pipeline, 1)
        let_time_pass(pipeline)
        maintain(pipeline)
    check_results(pipeline, 0, 1, 2)
    assert not os.path.exists(Path(pipeline.tables, "state", f"interval_id={first_interval(pipeline).id}"))
