"""The built-in checks: every kind of bad statistics is found and named, and what is ordinary passes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rebalance.errors import ConfigError, OrderError, QualityError, RebalanceError
from rebalance.quality.docs import docs_index
from rebalance.quality.runs import require_passed
from rebalance.storage import control
from tests.support.checking import check_quality
from tests.support.counted import CHANNELS, counted_pipeline, first_interval, key_row, put_statistics, put_volume

GOOD = [key_row("a"), key_row("b", channel=CHANNELS - 1), key_row("ö", tuples=0, cost=0.0)]


@pytest.mark.parametrize(
    ("changed", "rows", "said"),
    [
        pytest.param(
            {"tuples": -3}, 7, r"values_to_be_between on tuples .*1 bad rows, for example -3", id="a negative count"
        ),
        pytest.param(
            {"cost": -0.5}, 20, r"values_to_be_between on cost .*1 bad rows, for example -0.5", id="a negative cost"
        ),
        pytest.param(
            {"cost": math.inf}, 20, r"values_to_be_between on cost .*1 bad rows, for example inf", id="an infinite cost"
        ),
        pytest.param({"cost": None}, 20, r"not_be_null on cost: 1 bad rows", id="a missing cost"),
        pytest.param({"held_bytes": None}, 20, r"not_be_null on held_bytes: 1 bad rows", id="a missing size"),
        pytest.param({"key": None}, 20, r"not_be_null on key: 1 bad rows", id="a missing key"),
        pytest.param({"key": "a"}, 20, r"be_unique on key: 2 bad rows, for example a, a", id="a key twice"),
        pytest.param(
            {"channel": CHANNELS},
            20,
            rf"max_value {CHANNELS - 1}\).*for example {CHANNELS}",
            id="a channel that the function does not have",
        ),
        pytest.param({"hash_channel": -1}, 20, r"between on hash_channel .*for example -1", id="no hash channel"),
        pytest.param({"slot": 1 << 16}, 20, r"between on slot .*for example 65536", id="a slot off the ring"),
        pytest.param(
            {"added_rows": 31}, 20, r"column_A held_rows.*for example \(30, 31\)", id="more rows added than held"
        ),
        pytest.param({"added_bytes": 241}, 20, r"column_A held_bytes.*\(240, 241\)", id="more bytes added than held"),
        pytest.param(
            {}, 21, r"sum_to_be_between on tuples .*the interval has 21 rows\): observed 20", id="rows that are missing"
        ),
    ],
)
def test_each_kind_of_bad_statistics_stops_planning_and_is_named(
    tmp_path: Path, changed: dict[str, Any], rows: int, said: str
) -> None:
    pipeline = counted_pipeline(tmp_path)
    interval = first_interval(pipeline)
    put_statistics(pipeline, interval, [key_row("a"), {**key_row("b"), **changed}], rows=rows)
    with pytest.raises(QualityError, match=said) as failure:
        check_quality(pipeline, interval)
    assert str(failure.value).endswith(f"Details: {docs_index(pipeline)}")
    assert re.search(r"\d of \d+ checks on interval 20260101T0000Z failed", str(failure.value))
    failed = [row for row in control.rows(pipeline.tables, "quality_runs") if not row["success"]]
    assert {(row["suite"], row["severity"]) for row in failed} == {("key_stats", "stop")}
    assert all(row["detail"] in str(failure.value) for row in failed)
    with pytest.raises(QualityError, match="Nothing was planned"):
        require_passed(pipeline.tables, interval.id)


def test_a_column_of_another_type_or_too_many_are_found(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    interval = first_interval(pipeline)
    put_volume(pipeline, interval, 10)
    rows = [{"interval_id": interval.id, **key_row("a", cost=12), "slot": 0.5, "surplus": 1}]
    write_deltalake(control.table_path(pipeline.tables, "key_stats"), pa.Table.from_pylist(rows))
    with pytest.raises(QualityError) as failure:
        check_quality(pipeline, interval)
    for wrong in (
        "columns_to_match_set",
        "be_of_type on cost (type_ float64): observed int64",
        "be_of_type on slot (type_ int64): observed float64",
    ):
        assert wrong in str(failure.value)


def test_good_statistics_pass(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    interval = first_interval(pipeline)
    put_statistics(pipeline, interval, GOOD)
    assert re.fullmatch(r"\d+ checks on 3 keys passed", check_quality(pipeline, interval))
    require_passed(pipeline.tables, interval.id)


def test_integer_keys_pass_and_texts_in_their_place_do_not(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path, key_type="long")
    interval = first_interval(pipeline)
    put_statistics(pipeline, interval, [key_row(1), key_row(-(2**63))], key_type="long")
    assert "2 keys passed" in check_quality(pipeline, interval)
    other = counted_pipeline(tmp_path / "other", key_type="long")
    put_statistics(other, interval, GOOD)
    with pytest.raises(QualityError, match=r"be_of_type on key \(type_ int64\)"):
        check_quality(other, interval)


@pytest.mark.parametrize("key_type", ["string", "long"])
@pytest.mark.parametrize(
    "keys", [[], [key_row("a", tuples=0, cost=0.0)]], ids=["no keys at all", "a key that only holds state"]
)
def test_an_interval_without_rows_passes_every_check(tmp_path: Path, keys: list[dict[str, Any]], key_type: Any) -> None:
    pipeline = counted_pipeline(tmp_path, key_type=key_type)
    interval = first_interval(pipeline)
    put_statistics(
        pipeline, interval, [{**row, "key": 5} if key_type == "long" else row for row in keys], key_type=key_type
    )
    assert f"checks on {len(keys)} keys passed" in check_quality(pipeline, interval)
    checks = control.rows(pipeline.tables, "quality_runs")
    assert len(checks) > 30
    assert all(check["success"] for check in checks)


def test_an_interval_without_keys_in_a_table_that_was_never_written_passes(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    put_volume(pipeline, first_interval(pipeline), 0)
    assert "checks on 0 keys passed" in check_quality(pipeline, first_interval(pipeline))


def test_rows_without_keys_are_found(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    put_statistics(pipeline, first_interval(pipeline), [], rows=5)
    with pytest.raises(QualityError, match=r"the interval has 5 rows\): observed 0"):
        check_quality(pipeline, first_interval(pipeline))


def test_statistics_are_needed_first(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    with pytest.raises(OrderError, match="Run collect_stats first"):
        check_quality(pipeline, first_interval(pipeline))
    with pytest.raises(QualityError, match="Run check_quality first"):
        require_passed(pipeline.tables, first_interval(pipeline).id)


def test_statistics_of_a_function_that_is_not_there_are_refused(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    put_statistics(pipeline, first_interval(pipeline), GOOD)
    control.replace(pipeline.tables, "functions", [], version=0)
    with pytest.raises(RebalanceError, match="function v0, which is not in"):
        check_quality(pipeline, first_interval(pipeline))


def test_what_passed_is_not_checked_again_and_what_failed_is(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    interval = first_interval(pipeline)
    put_statistics(pipeline, interval, [key_row("a", channel=99)])
    with pytest.raises(QualityError):
        check_quality(pipeline, interval)
    with pytest.raises(QualityError):
        check_quality(pipeline, interval)
    DeltaTable(control.table_path(pipeline.tables, "key_stats")).update(updates={"channel": "1"})
    assert "1 keys passed" in check_quality(pipeline, interval)
    before = docs_index(pipeline).read_text()
    assert "passed already; nothing changed" in check_quality(pipeline, interval)
    assert docs_index(pipeline).read_text() == before
    control.replace(pipeline.tables, "quality_runs", [], interval_id=interval.id)
    assert "1 keys passed" in check_quality(pipeline, interval)


def test_checks_of_other_intervals_stay(tmp_path: Path) -> None:
    pipeline = counted_pipeline(tmp_path)
    for number in range(2):
        put_statistics(pipeline, first_interval(pipeline).shifted(number), GOOD)
        check_quality(pipeline, first_interval(pipeline).shifted(number))
    checked = {row["interval_id"] for row in control.rows(pipeline.tables, "quality_runs")}
    assert checked == {"20260101T0000Z", "20260101T0100Z"}


def test_data_docs_need_a_local_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Data Docs need a local folder: set quality.docs .* on an object store"):
        counted_pipeline(tmp_path, 'docs = "s3a://bucket/docs"')
