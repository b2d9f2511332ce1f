"""What the demo says about seconds: it never makes more of a difference than there is."""

from __future__ import annotations

from rebalance.demo.story import OnTheClock, intervals_table, rebalancing_seconds
from rebalance.storage.history import IntervalRecord

STEPS = {"collect_stats": 1.0, "check_quality": 0.5, "make_plan": 0.25, "migrate_state": 2.0, "process_batch": 8.0}


def record(tasks: list[float], seconds: float) -> IntervalRecord:
    return IntervalRecord(
        interval_id="20260101T0000Z",
        rows=100,
        hash_loads=[60.0, 20.0],
        loads_before=[50.0, 30.0],
        loads=[40.0, 40.0],
        task_seconds=tasks,
        seconds=seconds,
        planner="frugal",
        decision="apply",
        reason="",
        predicted=1.0,
        routes=3,
        moved_keys=3,
        moved_bytes=30.0,
        moved_share=0.1,
        applied=True,
    )


def on_the_clock(hashed: float, planned: float, cost: float, cores: int = 2) -> list[str]:
    """The sentences for a slowest task, and a whole process_batch, of so many seconds."""
    slow, even = record([hashed, 1.0], hashed), record([planned, 1.0], planned)
    return OnTheClock(slow, even, even, cost, cores).sentences()


def test_rebalancing_costs_what_all_steps_but_the_processing_take() -> None:
    assert rebalancing_seconds(STEPS) == 3.75


def test_an_interval_shows_its_loads_its_tasks_seconds_and_what_rebalancing_cost_and_moved() -> None:
    table = intervals_table([record([0.5, 1.5], 7.5)], {"20260101T0000Z": STEPS})
    (line,) = zip(*(column.cells for column in table.columns), strict=True)
    assert line == (
        "20260101T0000Z", "1.50", "1.25", "1.00", "1.00", "1.50", "1.00", "8.0", "3.8", "3", "30 B",
    )  # fmt: skip


def test_a_slowest_channel_that_is_clearly_faster_is_said_to_be_with_how_much() -> None:
    slowest, whole, _ = on_the_clock(6.0, 3.0, cost=1.0)
    assert "took 6.00 s by the hash and 3.00 s planned (planned 2.0x as fast)" in slowest
    assert "took 6.0 s and 3.0 s (planned 2.0x as fast), on 2 cores for 2 channels" in whole


def test_a_small_difference_is_called_none() -> None:
    for sentence in on_the_clock(3.0, 2.9, cost=1.0)[:2]:
        assert "no difference to speak of" in sentence


def test_fewer_cores_than_channels_are_named_as_the_reason_for_a_small_difference() -> None:
    assert "1 cores take 2 channels in turns" in on_the_clock(3.0, 2.9, cost=1.0, cores=1)[1]


def test_what_the_plan_cost_is_put_beside_what_it_brought() -> None:
    assert "less than the 3.0 s by which the slowest channel is faster" in on_the_clock(6.0, 3.0, cost=1.0)[2]
    assert "more than it brings at this size" in on_the_clock(6.0, 3.0, cost=4.0)[2]
