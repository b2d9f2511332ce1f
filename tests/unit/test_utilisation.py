"""How busy the channels were, from the seconds their tasks ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rebalance.storage import control
from rebalance.storage.epochs import publish
from rebalance.storage.statistics import measured_utilisation

ALL = np.array([True, True, True])


def with_seconds(root: Path, *seconds: float) -> str:
    row = {"interval_id": "a", "rows": 1, "seconds": 1.0, "task_seconds": list(seconds)}
    control.append(str(root), "batches", [row])
    publish(str(root), None, kind="process", interval_id="a", function_version=0, state_version=0)
    return str(root)


def test_seconds_become_utilisation_with_a_mean_of_080(tmp_path: Path) -> None:
    found = measured_utilisation(with_seconds(tmp_path, 1.0, 2.0, 3.0), ALL)
    assert found == pytest.approx([0.4, 0.8, 1.2])


def test_channels_that_take_no_part_do_not_lower_the_mean(tmp_path: Path) -> None:
    found = measured_utilisation(with_seconds(tmp_path, 1.0, 3.0, 0.0), np.array([True, True, False]))
    assert found == pytest.approx([0.4, 1.2, 0.0])


@pytest.mark.parametrize("seconds", [(0.0, 0.0, 0.0), (1.0, 2.0), ()], ids=["zeros", "other channels", "no channels"])
def test_what_was_not_measured_is_not_known(tmp_path: Path, seconds: tuple[float, ...]) -> None:
    assert measured_utilisation(with_seconds(tmp_path, *seconds), ALL) is None


def test_before_the_first_interval_nothing_is_known(tmp_path: Path) -> None:
    assert measured_utilisation(str(tmp_path), ALL) is None
