"""How busy the channels were: the seconds their tasks ran over the length of the interval, and what Consistent Grouping makes of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from rebalance.planners.splitting.cg import CG
from rebalance.planning.model import KeyStats, Proposal, Request
from rebalance.storage import control
from rebalance.storage.epochs import publish
from rebalance.storage.statistics import measured_utilisation

ALL = np.array([True, True, True])
HOUR = timedelta(hours=1)


def with_seconds(root: Path, *seconds: float) -> str:
    row = {"interval_id": "a", "rows": 1, "seconds": 1.0, "task_seconds": list(seconds)}
    control.append(str(root), "batches", [row])
    publish(str(root), None, kind="process", interval_id="a", function_version=0, state_version=0)
    return str(root)


def test_utilisation_is_the_share_of_the_interval_that_the_tasks_ran(tmp_path: Path) -> None:
    root = with_seconds(tmp_path, 360.0, 2880.0, 4500.0)
    assert measured_utilisation(root, ALL, HOUR) == pytest.approx([0.1, 0.8, 1.25])
    assert measured_utilisation(root, ALL, HOUR / 2) == pytest.approx([0.2, 1.6, 2.5])


@pytest.mark.parametrize("seconds", [(0.0, 0.0, 0.0), (1.0, 2.0), ()], ids=["zeros", "other channels", "no channels"])
def test_what_was_not_measured_is_not_known(tmp_path: Path, seconds: tuple[float, ...]) -> None:
    assert measured_utilisation(with_seconds(tmp_path, *seconds), ALL, HOUR) is None


def test_what_only_channels_did_that_take_no_part_says_nothing(tmp_path: Path) -> None:
    root = with_seconds(tmp_path, 0.0, 0.0, 5.0)
    assert measured_utilisation(root, np.array([True, True, False]), HOUR) is None


def test_before_the_first_interval_nothing_is_known(tmp_path: Path) -> None:
    assert measured_utilisation(str(tmp_path), ALL, HOUR) is None


def grouped(planner: CG, root: str, length: timedelta) -> Proposal:
    column = np.ones(300)
    ring = planner.first_ring(3, ())
    slots = np.arange(300, dtype=np.int32)
    return planner.propose(
        Request(
            stats=KeyStats(slots, slots, column, column, column),
            current=ring[slots],
            ring=ring,
            capacity=np.ones(3),
            utilisation=measured_utilisation(root, ALL, length),
        )
    )


def test_by_the_papers_rule_nothing_moves_while_no_channel_needs_most_of_its_interval(tmp_path: Path) -> None:
    root = with_seconds(tmp_path, 20.0, 60.0, 2.0)
    planner = CG(settle=False)
    assert grouped(planner, root, HOUR).notes == ()
    assert grouped(planner, root, timedelta(minutes=1)).notes == ("virtual workers moved: 1 → 0",)


def test_by_default_channels_with_time_to_spare_are_evened_out_too(tmp_path: Path) -> None:
    root = with_seconds(tmp_path, 20.0, 60.0, 20.0)
    assert grouped(CG(), root, HOUR).notes == ("virtual workers moved: 1 → 0",)


def test_half_a_virtual_worker_of_noise_moves_nothing_where_all_channels_are_idle(tmp_path: Path) -> None:
    """Ten virtual workers each, so 7 % is two thirds of one; with thresholds between them the two channels would swap it."""
    root = with_seconds(tmp_path, 20.0, 21.4, 18.6)
    assert grouped(CG(), root, HOUR).notes == ()
    assert grouped(CG(), root, timedelta(seconds=25)).notes == ("virtual workers moved: 1 → 2",)
