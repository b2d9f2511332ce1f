"""What maintenance may remove, by the tables alone: ages in intervals, and what is needed whatever its age."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rebalance.errors import ConfigError
from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.storage import control
from rebalance.storage.epochs import current_epoch, publish
from rebalance.storage.retention import expired
from rebalance.storage.schemas import schema_of
from rebalance.storage.served import served_epochs

FILE = """
tables = "tables"
[source]
path = "events"
key = "user"
time = "ts"
[interval]
length = "6 h"
first = 2026-01-01T00:00:00Z
[operator]
name = "windowed_sum"
window = 2
parameters = { value = "price" }
[retention]
"""


def pipeline_of(folder: Path, knobs: str) -> Pipeline:
    (folder / "kept.toml").write_text(FILE + knobs)
    return load_pipeline(folder / "kept.toml")


def interval(pipeline: Pipeline, number: int) -> Interval:
    return pipeline.interval_at(pipeline.interval.first).shifted(number)


def plan(name: str, base: int, function: int) -> dict[str, object]:
    row = {"plan_id": name, "interval_id": name.split("-")[0], "base_function": base, "function_version": function}
    return {**row, "decision": "apply"}


def process(pipeline: Pipeline, numbers: range, function: int = 0) -> None:
    """Epochs as processing publishes them, and a row of statistics for each."""
    for number in numbers:
        name = interval(pipeline, number).id
        control.append(pipeline.tables, "batches", [{"interval_id": name, "rows": 1}])
        base = current_epoch(pipeline.tables)
        publish(
            pipeline.tables, base, kind="process", interval_id=name, function_version=function, state_version=number
        )


def removed(pipeline: Pipeline) -> dict[str, int]:
    """What goes of each table that has rows to lose."""
    counts = {old.table: old.count(pipeline.tables) for old in expired(pipeline)}
    for old in list(expired(pipeline)):
        if counts[old.table]:
            old.remove(pipeline.tables)
    assert all(old.count(pipeline.tables) == 0 for old in expired(pipeline))
    return {table: count for table, count in counts.items() if count}


@pytest.mark.parametrize("value", ["0", "-3", "1.5", "true", "'0 d'", "'soon'", "'3 weeks'", "[1]"])
@pytest.mark.parametrize("knob", ["results", "epochs", "files"])
def test_nonsense_is_refused_with_the_knob_and_what_to_write(tmp_path: Path, knob: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"retention\.{knob} = .* is not .*'90 d'"):
        pipeline_of(tmp_path, f"{knob} = {value}")


def test_a_length_of_time_is_as_many_intervals_as_begin_in_it(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "results = '7 h'\nstatistics = '1 d'\nplans = 3")
    kept = [pipeline.retained(what) for what in ("results", "statistics", "plans", "functions", "epochs")]  # type: ignore[arg-type]
    assert kept == [2, 4, 3, None, 28]


def test_without_a_word_every_row_is_kept(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "epochs = 1")
    process(pipeline, range(9))
    assert list(expired(pipeline)) == []


def test_statistics_that_the_oldest_served_epoch_builds_on_stay_whatever_their_age(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "statistics = 1\nepochs = 2")
    process(pipeline, range(10))
    assert [epoch.interval_id for epoch in served_epochs(pipeline)] == [interval(pipeline, n).id for n in (7, 8, 9)]
    assert removed(pipeline) == {"batches": 4}
    assert min(row["interval_id"] for row in control.rows(pipeline.tables, "batches")) == interval(pipeline, 4).id


def test_after_a_rewind_what_it_has_undone_is_served_until_something_runs_on_top_of_it(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "epochs = 1")
    process(pipeline, range(6))
    base = current_epoch(pipeline.tables)
    rewound = publish(
        pipeline.tables,
        base,
        kind="rewind",
        interval_id=interval(pipeline, 1).id,
        function_version=0,
        state_version=1,
        rewound_to=1,
    )
    assert [epoch.epoch for epoch in served_epochs(pipeline)] == [0, 1, 4, 5, 6]
    publish(
        pipeline.tables, rewound, kind="maintain", interval_id=rewound.interval_id, function_version=0, state_version=7
    )
    assert [epoch.epoch for epoch in served_epochs(pipeline)] == [0, 1, 4, 5, 6, 7]
    process(pipeline, range(2, 3))
    assert [epoch.epoch for epoch in served_epochs(pipeline)] == [7, 8]


def test_a_plan_that_waits_for_an_answer_stays_with_its_function_and_so_do_served_functions(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "plans = 1\nfunctions = 1\nepochs = 1")
    root = pipeline.tables
    first = interval(pipeline, 0).id
    for version in range(5):
        record = PartitionFunction(version=version, channels=4, slots=consistent_ring(4)).to_record()
        control.append(root, "functions", [{**record, "interval_id": first}])
    waiting = plan(f"{interval(pipeline, 3).id}-f1", base=1, function=4)
    done = plan(f"{first}-f0", base=0, function=1)
    control.append(root, "plans", [done, plan(f"{interval(pipeline, 2).id}-f2", base=2, function=3), waiting])
    process(pipeline, range(9), function=1)
    assert removed(pipeline) == {"plans": 2, "functions": 3}
    assert [row["plan_id"] for row in control.rows(root, "plans")] == [waiting["plan_id"]]
    assert sorted(row["version"] for row in control.rows(root, "functions")) == [1, 4]


def test_sums_of_all_keys_go_once_no_later_count_builds_on_them_whatever_is_kept(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, "epochs = 2")
    process(pipeline, range(10))
    rows = [{"interval_id": interval(pipeline, number).id, "key": 7} for number in range(10)]
    sums = pa.Table.from_pylist(rows, schema=schema_of("key_sums", "long"))
    control.append(pipeline.tables, "key_sums", sums)
    assert removed(pipeline) == {"key_sums": 4}
    left = control.read(pipeline.tables, "key_sums", columns=["interval_id"])["interval_id"].to_pylist()
    assert min(left) == interval(pipeline, 4).id
