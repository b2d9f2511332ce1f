"""What an interval costs does not grow with those before it: of the pipeline's own tables its steps read the same rows and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import STEPS, run_step
from rebalance.storage import control
from tests.support.world import Stages, first_interval, stored

pytestmark = pytest.mark.usefixtures("few_rows")

#: More than the checks look back.
FEW = 200
PAST = 2000


def put_past(pipeline: Pipeline, before: Interval, intervals: int) -> None:
    """Rows of many more intervals in the tables, and epochs that lead to the first; large tables get files that are not there at all."""
    ids = [before.shifted(-number).id for number in range(1, intervals + 1)]
    for table in ("interval_stats", "channel_stats", "quality_runs", "plans", "plan_moves", "batches", "epochs"):
        row = control.read(pipeline.tables, table).slice(0, 1)
        past = pa.concat_tables([row] * intervals)
        own = {"interval_id": ids, "state_newest": [*ids[1:], ""], "plan_id": [f"{one}-f0" for one in ids]}
        for name, values in {**own, "epoch": range(-1, -intervals - 1, -1)}.items():
            if name in past.column_names:
                past = past.set_column(past.column_names.index(name), name, pa.array(values))
        control.append(pipeline.tables, table, past)
    for table in ("key_stats", "results"):
        delta = DeltaTable(control.table_path(pipeline.tables, table))
        adds = [
            AddAction(f"interval_id={one}/gone.parquet", 1000, {"interval_id": one}, 0, True, '{"numRecords": 10}')
            for one in ids
        ]
        delta.create_write_transaction(adds, mode="append", schema=delta.schema(), partition_by=["interval_id"])


def rows_read(pipeline: Pipeline, interval: Interval) -> dict[str, int]:
    """Rows that the steps of an interval have read of each of the small tables."""
    counted: dict[str, int] = {}
    read = control.read

    def counting(root: str, table: str, **how: Any) -> pa.Table:
        found = read(root, table, **how)
        counted[table] = counted.get(table, 0) + found.num_rows
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(control, "read", counting)
        for step in STEPS:
            run_step(step.name, pipeline, interval)
    return counted


@pytest.mark.parametrize("mode", ["auto", "approve"])
def test_after_two_thousand_intervals_the_steps_read_as_many_rows_of_the_tables_as_after_two_hundred(
    matches: Stages, tmp_path: Path, mode: str
) -> None:
    planning = f'theta_max = 0.02\nmode = "{mode}"'
    young = matches.copy(tmp_path / "young", "2 collect_stats", "theta_max = 0.02", planning)
    old = matches.copy(tmp_path / "old", "2 collect_stats", "theta_max = 0.02", planning)
    put_past(young, first_interval(young), FEW)
    put_past(old, first_interval(old), PAST)
    third = first_interval(old).shifted(2)
    expected = rows_read(young, third)
    assert expected["epochs"] > 0
    assert rows_read(old, third) == expected
    assert stored(old, "epochs").height == stored(young, "epochs").height + PAST - FEW
    assert control.rows(old.tables, "batches", columns=["tuples", "loads"], interval_id=third.id) == control.rows(
        young.tables, "batches", columns=["tuples", "loads"], interval_id=third.id
    )
