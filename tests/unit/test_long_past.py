"""What a long past costs whoever looks at a pipeline: nothing; the newest epochs and the rewinds tell as much as all epochs do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.documents.key import key_document
from rebalance.documents.overview import card
from rebalance.documents.plan import plan_document
from rebalance.documents.status import status_document
from rebalance.documents.tables import tables_document
from rebalance.documents.trial import newest_counted
from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline
from rebalance.steps.alerts import tell
from rebalance.steps.run import next_interval
from rebalance.storage import control
from rebalance.storage.approvals import newest_open_plan
from rebalance.storage.epochs import (
    carried_out,
    in_force,
    newest_epochs,
    newest_processed_ids,
    processed_ids,
    skipped_by,
    skips,
    store_function,
)
from rebalance.storage.history import read_history
from rebalance.storage.reader import open_tables
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.served import newest_interval
from tests.support.budget import cases
from tests.support.counted import counted_pipeline, first_interval

FEW, MANY = 200, 10_000


def row(table: str, **values: Any) -> dict[str, Any]:
    """A row with what is said, and nothing wrong in the other columns."""
    plain = {pa.string(): "", pa.int64(): 0, pa.int32(): 0, pa.float64(): 0.0, pa.bool_(): False}
    return {field.name: values.get(field.name, plain.get(field.type)) for field in SCHEMAS[table]}


def put_past(pipeline: Pipeline, intervals: int) -> None:
    """So many intervals, each planned and moved, the third from the end undone and run again, in one commit a table."""
    ids = [first_interval(pipeline).shifted(number).id for number in range(intervals)]
    root, now = pipeline.tables, datetime.now(UTC)
    epochs = [row("epochs", kind="start", rewound_to=-1, published_at=now)]

    def publish(kind: str, interval_id: str, **more: Any) -> None:
        epochs.append(
            row(
                "epochs",
                **{"rewound_to": -1, "published_at": now, **more},
                epoch=len(epochs),
                kind=kind,
                interval_id=interval_id,
            )
        )

    for number, one in enumerate(ids):
        if number == intervals - 3:
            publish("process", one)
            publish("rewind", ids[number - 1], rewound_to=len(epochs) - 2)
        publish("migrate", ids[number - 1] if number else "", plan_id=f"{one}-f0")
        publish("process", one)
    control.append(root, "epochs", epochs)
    plans = [
        row(
            "plans",
            plan_id=f"{one}-f0",
            interval_id=one,
            decision="apply",
        )
        for number, one in enumerate(ids)
    ]
    waiting = row(
        "plans",
        plan_id="waits",
        interval_id=first_interval(pipeline).shifted(intervals).id,
        decision="apply",
    )
    control.append(root, "plans", [*plans, waiting])
    for table in ("batches", "interval_stats"):
        loads = {"loads": [1.0, 1.0, 1.0, 1.0], "task_seconds": [1.0] * 4, "tuples": [1] * 4}
        control.append(root, table, [row(table, interval_id=one, **loads) for one in ids])
    control.append(
        root,
        "channel_stats",
        [row("channel_stats", interval_id=one, channel=channel) for one in ids for channel in range(2)],
    )
    store_function(root, PartitionFunction(version=0, channels=4, slots=consistent_ring(4)), ids[-1])


@pytest.fixture(scope="module")
def pasts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Pipeline]:
    """A short past and a long one."""
    found = {}
    for intervals in (FEW, MANY):
        found[intervals] = counted_pipeline(tmp_path_factory.mktemp(f"past{intervals}"))
        put_past(found[intervals], intervals)
    return found


LOOKS: dict[str, Callable[[Pipeline], object]] = {
    "status": lambda pipeline: len(status_document(pipeline, 8)["intervals"]["id"]),
    "alerts": lambda pipeline: [found.kind for found in tell(pipeline, newest_counted(pipeline), "process_batch")],
    "metrics": lambda pipeline: [record.applied for record in read_history(pipeline.tables, 1)],
    "the next interval": lambda pipeline: next_interval(pipeline) == newest_counted(pipeline).shifted(1),
    "the question": lambda pipeline: (newest_open_plan(pipeline.tables) or {})["plan_id"],
    "inspect": lambda pipeline: len(tables_document(pipeline)["epochs"]),
    "explain": lambda pipeline: key_document(pipeline, "a")["moves"],
    "a plan": lambda pipeline: plan_document(pipeline)["applied"],
    "a card": lambda pipeline: card(pipeline)["health"],
    "open": lambda pipeline: open_tables(pipeline.tables).state_version,
    "an early interval": lambda pipeline: skipped_by(pipeline.tables, first_interval(pipeline).id),
    "maintenance's newest": lambda pipeline: newest_interval(pipeline) == newest_counted(pipeline),
}


@pytest.mark.parametrize("look", LOOKS)
def test_after_ten_thousand_intervals_as_many_rows_are_read_as_after_two_hundred(
    pasts: dict[int, Pipeline], monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    counted: dict[str, int] = {}
    read = control.read

    def counting(root: str, table: str, **how: Any) -> pa.Table:
        found = read(root, table, **how)
        counted[table] = counted.get(table, 0) + found.num_rows
        return found

    monkeypatch.setattr(control, "read", counting)
    said, rows = [], []
    for intervals in (FEW, MANY):
        said.append(LOOKS[look](pasts[intervals]))
        rows.append(dict(counted))
        counted.clear()
    assert said[0] == said[1]
    assert rows[0] == rows[1]
    assert max(rows[1].values(), default=0) < FEW / 2


def test_a_long_past_is_as_it_is_told(pasts: dict[int, Pipeline]) -> None:
    for intervals, pipeline in pasts.items():
        newest = first_interval(pipeline).shifted(intervals - 1)
        records = read_history(pipeline.tables, 5)
        assert [record.interval_id for record in records] == [newest.shifted(-back).id for back in range(4, -1, -1)]
        assert all(record.applied for record in records)
    assert len(read_history(pasts[FEW].tables)) == FEW


@settings(max_examples=cases(25, 300), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(1, 4))
def test_whatever_was_rewound_the_newest_intervals_are_those_of_all_epochs(choices: list[int], count: int) -> None:
    with TemporaryDirectory() as folder:
        pipeline = counted_pipeline(Path(folder))
        epochs = epochs_of(pipeline, choices)
        root = pipeline.tables
        control.append(root, "epochs", epochs)
        line = in_force(root)
        done = [epoch.interval_id for epoch in line if epoch.kind == "process"]
        plans = [str(epoch["plan_id"]) for epoch in epochs if epoch["plan_id"]]
        assert processed_ids(root) == done
        assert newest_processed_ids(root, count) == done[-count:]
        assert skips(root) == [epoch for epoch in line if epoch.skipped_from]
        assert carried_out(root, plans) == [epoch for epoch in line if epoch.kind == "migrate"]
        assert newest_epochs(root, count) == sorted(newest_epochs(root, 99), key=lambda epoch: epoch.epoch)[-count:]
        expected = pipeline.interval_at(pipeline.interval.first).id if not done else ""
        assert next_interval(pipeline).id == expected or next_interval(pipeline).shifted(-1).id == done[-1]


def epochs_of(pipeline: Pipeline, choices: list[int]) -> list[dict[str, Any]]:
    """Epochs as choices have them: an interval with or without a gap before it, planned or not, or a rewind to any epoch before."""
    now = datetime.now(UTC)
    made = [row("epochs", kind="start", rewound_to=-1, published_at=now)]
    for choice in choices:
        newest, kind = made[-1], ("process", "planned", "skip", "rewind")[choice % 4]
        if kind == "rewind":
            target = made[choice // 4 % len(made)]
            made.append(
                {
                    **target,
                    "epoch": len(made),
                    "kind": "rewind",
                    "rewound_to": target["epoch"],
                    "plan_id": "",
                    "skipped_from": "",
                }
            )
            continue
        known = [first_interval(pipeline).shifted(n).id for n in range(40)]
        at = known.index(newest["interval_id"]) + 1 if newest["interval_id"] else 0
        if kind == "planned":
            made.append(
                {
                    **newest,
                    "epoch": len(made),
                    "kind": "migrate",
                    "plan_id": f"p{len(made)}",
                    "rewound_to": -1,
                    "skipped_from": "",
                }
            )
        skipped = known[at] if kind == "skip" else ""
        plain = {**newest, "epoch": len(made), "kind": "process", "plan_id": "", "rewound_to": -1}
        made.append({**plain, "interval_id": known[at + bool(skipped)], "skipped_from": skipped})
    return made
