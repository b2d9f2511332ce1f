"""Somebody else's commits to the state: adopted if they change no data, refused if they do, never undone without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rebalance.errors import ForeignCommitError
from rebalance.pipeline.file import Pipeline
from rebalance.steps import process_batch as step
from rebalance.steps import run_step
from rebalance.steps.maintain import maintain
from rebalance.storage.delta_log import TableFiles
from rebalance.storage.epochs import all_epochs, current_epoch
from rebalance.storage.state import head_version
from tests.support.world import Stages, expected_matches, first_interval, stored_results

pytestmark = pytest.mark.usefixtures("few_rows")


def check_third(pipeline: Pipeline) -> None:
    third = first_interval(pipeline).shifted(2)
    run_step("process_batch", pipeline, third)
    assert stored_results(pipeline, third).equals(expected_matches(pipeline, third))


def foreign(spark: SparkSession, pipeline: Pipeline, sql: str) -> int:
    """Change the state as any user of Spark might; returns the new version."""
    spark.sql(sql.format(state=f"delta.`{pipeline.tables}/state`"))
    return head_version(pipeline.tables)


def test_a_foreign_optimize_is_adopted_by_an_epoch_and_the_interval_builds_on_it(
    spark: SparkSession, matches: Stages, tmp_path: Path
) -> None:
    pipeline = matches.copy(tmp_path, "2 process_batch")
    before = all_epochs(pipeline.tables)
    version = foreign(spark, pipeline, "OPTIMIZE {state}")
    check_third(pipeline)
    adopted, processed = all_epochs(pipeline.tables)[len(before) :]
    assert (adopted.kind, adopted.state_version) == ("maintain", version)
    assert (adopted.interval_id, adopted.function_version) == (before[-1].interval_id, before[-1].function_version)
    assert processed.state_version == version + 1


def test_maintenance_and_a_migration_adopt_a_foreign_optimize_too(
    spark: SparkSession, matches: Stages, tmp_path: Path
) -> None:
    pipeline = matches.copy(tmp_path / "maintained", "2 process_batch")
    version = foreign(spark, pipeline, "OPTIMIZE {state}")
    assert f"version {version}, in which somebody else has rewritten files, adopted" in maintain(pipeline)[0]
    check_third(pipeline)

    pipeline = matches.copy(tmp_path / "migrated", "2 migrate_state")
    foreign(spark, pipeline, "OPTIMIZE {state} ZORDER BY (key)")
    run_step("migrate_state", pipeline, first_interval(pipeline).shifted(2))
    assert [epoch.kind for epoch in all_epochs(pipeline.tables)][-2:] == ["maintain", "migrate"]
    check_third(pipeline)


@pytest.mark.parametrize(
    ("sql", "operation"),
    [
        ("DELETE FROM {state} WHERE channel = 1", "DELETE"),
        ("INSERT INTO {state} SELECT * FROM {state} LIMIT 1", "WRITE"),
        ("ALTER TABLE {state} ADD COLUMN more INT", "ADD COLUMNS"),
    ],
)
def test_a_foreign_change_is_refused_with_its_history_line_and_neither_used_nor_undone(
    spark: SparkSession, matches: Stages, tmp_path: Path, sql: str, operation: str
) -> None:
    pipeline = matches.copy(tmp_path, "2 process_batch")
    epoch = current_epoch(pipeline.tables)
    assert epoch is not None
    version = foreign(spark, pipeline, sql)
    third = first_interval(pipeline).shifted(2)
    said = rf"version {version}, 20\d\d-.* UTC, {operation}, by .*RESTORE TABLE"
    with pytest.raises(ForeignCommitError, match=said):
        run_step("process_batch", pipeline, third)
    with pytest.raises(ForeignCommitError, match=operation):
        maintain(pipeline)
    assert (head_version(pipeline.tables), current_epoch(pipeline.tables)) == (version, epoch)
    foreign(spark, pipeline, f"RESTORE TABLE {{state}} TO VERSION AS OF {epoch.state_version}")
    check_third(pipeline)


def test_what_a_killed_step_of_ours_has_left_is_still_rolled_back_also_under_a_foreign_optimize(
    spark: SparkSession,
    matches: Stages,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = matches.copy(tmp_path, "2 process_batch")

    def killed(moment: str) -> None:
        if moment == "process_batch: state written":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(step, "checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            run_step("process_batch", pipeline, first_interval(pipeline).shifted(2))
    foreign(spark, pipeline, "OPTIMIZE {state}")
    check_third(pipeline)
    assert [epoch.kind for epoch in all_epochs(pipeline.tables)][-1] == "process"
    assert ("OPTIMIZE" in caplog.text) == any(
        action.get("commitInfo", {}).get("operation") == "OPTIMIZE"
        for version in TableFiles(pipeline.tables, "state").commits
        for action in TableFiles(pipeline.tables, "state").actions(version)
    )
