"""Epochs: published by compare-and-swap, undone and brought back by rewinding, bound to what the state means."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from rebalance.errors import ConfigError, OrderError, OvertakenError, RebalanceError
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps import rewind as verbs
from rebalance.storage import control
from rebalance.storage.epochs import (
    Epoch,
    Kind,
    all_epochs,
    carried_out,
    current_epoch,
    in_force,
    line_to,
    processed,
    publish,
    require_active,
    undone_by,
)
from rebalance.storage.meaning import check_meaning, meaning_of

RACER = """
import sys
from rebalance.errors import OvertakenError
from rebalance.storage.epochs import current_epoch, publish

root, name, count, won = sys.argv[1], sys.argv[2], int(sys.argv[3]), []
while True:
    base = current_epoch(root)
    number = base.epoch + 1 if base else 0
    if number >= count:
        break
    try:
        publish(root, base, kind="process", interval_id=name, function_version=0, state_version=0)
        won.append(number)
    except OvertakenError:
        pass
print(*won)
"""


def test_of_writers_that_race_for_an_epoch_without_a_lock_exactly_one_wins(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACER, str(tmp_path)]
    racers = [subprocess.Popen([*command, name, "60"], stdout=subprocess.PIPE, text=True) for name in ("a", "b", "c")]
    won = {name: racer.communicate()[0].split() for name, racer in zip("abc", racers, strict=True)}
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert Counter(number for numbers in won.values() for number in numbers) == Counter(map(str, range(60)))
    stored = [(str(epoch.epoch), epoch.interval_id) for epoch in all_epochs(str(tmp_path))]
    assert stored == [(str(n), name) for n in range(60) for name in "abc" if str(n) in won[name]]


def test_a_writer_that_was_overtaken_publishes_nothing_and_says_so(tmp_path: Path) -> None:
    root = str(tmp_path)
    start = publish(root, None, kind="start", function_version=0, state_version=-1)
    require_active(root, start)
    publish(root, start, kind="process", interval_id="a", function_version=0, state_version=0)
    with pytest.raises(OvertakenError, match=r"another process was faster\. Nothing was published here"):
        require_active(root, start)
    with pytest.raises(OvertakenError, match="epoch 0 was to be followed, but 1 is active now"):
        publish(root, start, kind="process", interval_id="a", function_version=0, state_version=1)
    assert len(all_epochs(root)) == 2


def test_a_swap_that_comes_too_late_adds_no_row(tmp_path: Path) -> None:
    row = {"interval_id": "a", "function_version": 0, "rows": 1, "seconds": 0.0}
    assert control.version(str(tmp_path), "batches") == -1
    for _ in range(2):
        control.create(str(tmp_path), "batches")
        assert control.version(str(tmp_path), "batches") == 0
    assert control.append_at(str(tmp_path), "batches", [row], 1)
    assert not control.append_at(str(tmp_path), "batches", [row], 1)
    assert control.read(str(tmp_path), "batches").num_rows == 1


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return write(tmp_path)


def write(folder: Path, key: str = '"user"', window: int = 2, more: str = "") -> Pipeline:
    (folder / "p.toml").write_text(
        f"""
tables = "tables"
[source]
path = "events"
key = {key}
time = "ts"
[interval]
length = "1 h"
first = 2026-01-01T00:00:00Z
[operator]
name = "windowed_sum"
window = {window}
parameters = {{ value = "price" }}
{more}
"""
    )
    return load_pipeline(folder / "p.toml")


def interval(pipeline: Pipeline, number: int) -> Any:
    return pipeline.interval_at(pipeline.interval.first).shifted(number)


def history(pipeline: Pipeline, intervals: int = 3) -> None:
    """A start, then for each interval a migration of its own plan and its processing."""
    meaning, root = meaning_of(pipeline), pipeline.tables
    epoch = publish(root, None, kind="start", function_version=0, state_version=-1, meaning=meaning)
    for number in range(intervals):
        same = {"function_version": number + 1, "state_version": -1}
        plan = f"{interval(pipeline, number).id}-f{number}"
        epoch = publish(root, epoch, kind="migrate", interval_id=epoch.interval_id, plan_id=plan, **same)
        epoch = publish(root, epoch, kind="process", interval_id=interval(pipeline, number).id, **same)


def test_a_rewind_makes_the_epoch_before_the_interval_and_its_plan_count_again(pipeline: Pipeline) -> None:
    history(pipeline)
    said = verbs.rewind(pipeline, interval(pipeline, 1))
    root, active = pipeline.tables, current_epoch(pipeline.tables)
    assert active is not None
    assert (active.kind, active.interval_id, active.function_version, active.rewound_to) == (
        "rewind",
        interval(pipeline, 0).id,
        1,
        2,
    )
    assert "2 intervals, 20260101T0100Z to 20260101T0200Z, are to be run again" in said
    assert [epoch.epoch for epoch in in_force(root)] == [0, 1, 2, 7]
    assert processed(root, interval(pipeline, 0).id) is not None
    assert processed(root, interval(pipeline, 1).id) is None
    assert carried_out(root, [f"{interval(pipeline, 1).id}-f1"]) == []
    assert len(carried_out(root, [f"{interval(pipeline, 0).id}-f0"])) == 1


def test_a_rewind_to_the_first_interval_goes_back_to_the_start(pipeline: Pipeline) -> None:
    history(pipeline)
    verbs.rewind(pipeline, interval(pipeline, 0))
    assert [epoch.kind for epoch in in_force(pipeline.tables)] == ["start", "rewind"]


def test_a_rewind_is_taken_back_and_rewound_again(pipeline: Pipeline) -> None:
    history(pipeline)
    before = current_epoch(pipeline.tables)
    assert before is not None
    for _ in range(2):
        verbs.rewind(pipeline, interval(pipeline, 1))
        verbs.undo(pipeline)
        active = current_epoch(pipeline.tables)
        assert active is not None
        assert (active.interval_id, active.function_version) == (before.interval_id, before.function_version)
        assert processed(pipeline.tables, interval(pipeline, 2).id) is not None


def test_only_a_rewind_that_nothing_was_done_on_is_taken_back(pipeline: Pipeline) -> None:
    history(pipeline)
    with pytest.raises(OrderError, match=r"the active epoch is 6 \(process\), no rewind"):
        verbs.undo(pipeline)


def test_an_interval_that_was_not_processed_cannot_be_rewound_to(pipeline: Pipeline) -> None:
    with pytest.raises(OrderError, match="none was processed yet"):
        verbs.rewind(pipeline, interval(pipeline, 0))
    history(pipeline)
    with pytest.raises(OrderError, match="the newest interval is 20260101T0200Z"):
        verbs.rewind(pipeline, interval(pipeline, 3))
    assert len(all_epochs(pipeline.tables)) == 7


def test_a_rewind_to_state_whose_files_are_gone_is_refused_and_changes_nothing(pipeline: Pipeline) -> None:
    root, epoch, path = pipeline.tables, None, f"{pipeline.tables}/state"
    for number in range(2):
        write_deltalake(path, pa.table({"key": [number]}), mode="overwrite")
        name = interval(pipeline, number).id
        epoch = publish(root, epoch, kind="process", interval_id=name, function_version=0, state_version=number)
    (file,) = DeltaTable(path, version=0).file_uris()
    Path(file.removeprefix("file://")).unlink()
    with pytest.raises(RebalanceError, match=r"1 files of the state at epoch 0 \(version 0\) are gone"):
        verbs.rewind(pipeline, interval(pipeline, 1))
    assert current_epoch(root) == epoch


CHANGES = {
    "another key": ({"key": '["user", "side"]'}, 'source.key was ["user"] and is ["user", "side"]'),
    "another window": ({"window": 3}, "operator.window was 2 and is 3"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_gives_the_state_another_meaning_is_refused_until_somebody_adopts_it(
    pipeline: Pipeline, tmp_path: Path, change: str
) -> None:
    history(pipeline)
    knobs, said = CHANGES[change]
    changed = write(tmp_path, **knobs)
    active = current_epoch(pipeline.tables)
    assert active is not None
    check_meaning(pipeline, active)
    with pytest.raises(ConfigError, match="rebalance adopt p") as refused:
        check_meaning(changed, active)
    assert said in str(refused.value)
    assert "rebalance rewind p --to 20260101T0000Z" in str(refused.value)
    verbs.adopt(changed)
    active = current_epoch(pipeline.tables)
    assert active is not None
    check_meaning(changed, active)
    assert "nothing changed" in verbs.adopt(changed)


def test_channels_planner_and_limits_may_change_at_any_time(pipeline: Pipeline, tmp_path: Path) -> None:
    history(pipeline)
    more = '[channels]\ncount = 9\n[planning]\nplanner = "redist"\ntheta_max = 0.3'
    assert meaning_of(write(tmp_path, more=more)) == meaning_of(pipeline)


def test_before_any_interval_a_file_may_mean_anything(pipeline: Pipeline, tmp_path: Path) -> None:
    start = publish(
        pipeline.tables, None, kind="start", function_version=0, state_version=-1, meaning=meaning_of(pipeline)
    )
    check_meaning(write(tmp_path, window=7), start)


def test_a_meaning_is_plain_json(pipeline: Pipeline) -> None:
    assert json.loads(meaning_of(pipeline)) == {
        "interval.length": "3600 s",
        "operator": "windowed_sum",
        "operator.parameters": {"value": "price"},
        "operator.window": 2,
        "source.key": ["user"],
    }


@given(st.lists(st.integers(0, 100), max_size=30))
def test_the_rewinds_alone_tell_which_epochs_count(choices: list[int]) -> None:
    epochs: list[Epoch] = []
    for number, choice in enumerate([1, *choices]):
        # One of three is a rewind, to any epoch before.
        back = choice // 3 % number if number and choice % 3 == 0 else -1
        kind: Kind = "process" if back < 0 else "rewind"
        epochs.append(Epoch(number, kind, "", 0, 0, "", back, "", "{}", datetime.now(UTC)))
    undone = undone_by([epoch for epoch in epochs if epoch.kind == "rewind"])
    counting = [epoch for epoch in epochs if not any(epoch.epoch in numbers for numbers in undone)]
    assert counting == line_to(epochs, epochs[-1])
