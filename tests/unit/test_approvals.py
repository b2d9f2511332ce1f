"""Which plan waits for an answer, and which answers count; on tables made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rebalance.errors import StalePlanError
from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.storage import control
from rebalance.storage.approvals import answer, is_approved, pending
from rebalance.storage.epochs import current_epoch, publish, store_function
from rebalance.storage.schemas import SCHEMAS


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Tables with one active function."""
    root = str(tmp_path / "tables")
    function = store_function(root, PartitionFunction(version=0, channels=2, slots=consistent_ring(2)), "i0")
    publish(root, None, kind="start", function_version=function.version, state_version=-1)
    return root


def plan(root: str, plan_id: str, decision: str = "apply", key: str = "") -> str:
    """Leave a plan on the active epoch, with a function of its own; returns the function's digest."""
    epoch = current_epoch(root)
    assert epoch is not None
    ring = consistent_ring(2)
    function = store_function(
        root, PartitionFunction(version=0, channels=2, slots=ring, routes={key or plan_id: 1}), plan_id
    )
    row: dict[str, Any] = dict.fromkeys(SCHEMAS["plans"].names)
    row |= {"plan_id": plan_id, "interval_id": plan_id, "decision": decision, "reason": "because"}
    row |= {"base_function": epoch.function_version}
    control.replace(root, "plans", [{**row, "function_version": function.version}], plan_id=plan_id)
    return function.digest()


def waiting(root: str) -> str | None:
    found = pending(root)
    return found and str(found["plan_id"])


def process(root: str, interval_id: str) -> None:
    epoch = current_epoch(root)
    assert epoch is not None
    publish(
        root,
        epoch,
        kind="process",
        interval_id=interval_id,
        function_version=epoch.function_version,
        state_version=epoch.state_version + 1,
    )


def carry_out(root: str, plan_id: str) -> None:
    (row,) = control.rows(root, "plans", plan_id=plan_id)
    epoch = current_epoch(root)
    version = row["function_version"]
    publish(root, epoch, kind="migrate", function_version=version, state_version=9, plan_id=plan_id)


def test_no_plan_waits_before_there_is_one(root: str, tmp_path: Path) -> None:
    assert pending(str(tmp_path / "nowhere")) is None
    assert pending(root) is None


def test_a_plan_that_is_to_be_applied_waits_with_the_digest_of_its_function(root: str) -> None:
    digest = plan(root, "i1")
    found = pending(root)
    assert found is not None
    assert (found["plan_id"], found["digest"]) == ("i1", digest)


def test_a_plan_that_keeps_the_function_does_not_wait(root: str) -> None:
    plan(root, "i1", decision="keep")
    assert waiting(root) is None


@pytest.mark.parametrize("given", ["approve", "reject"])
def test_a_plan_waits_until_it_is_answered(root: str, given: Any) -> None:
    digest = plan(root, "i1")
    answer(root, "i1", digest, given, "Ann")
    assert waiting(root) is None
    assert is_approved(root, "i1", digest) is (given == "approve")


def test_a_plan_waits_on_while_intervals_are_processed_by_the_same_function(root: str) -> None:
    plan(root, "i1")
    process(root, "i1")
    plan(root, "i2", decision="keep")
    process(root, "i2")
    assert waiting(root) == "i1"


def test_a_newer_plan_takes_the_place_of_an_older_one(root: str) -> None:
    old = plan(root, "i1")
    process(root, "i1")
    new = plan(root, "i2")
    assert waiting(root) == "i2"
    with pytest.raises(StalePlanError, match=r"plan i1 has been superseded by plan i2.* Plan i2 waits for an answer"):
        answer(root, "i1", old, "approve", "Ann")
    answer(root, "i2", new, "reject", "Ann")
    assert waiting(root) is None, "the older one does not come back"


def test_a_plan_for_a_function_that_is_no_longer_active_neither_waits_nor_can_be_approved(root: str) -> None:
    old = plan(root, "i1")
    plan(root, "i2")
    carry_out(root, "i2")
    assert waiting(root) is None
    with pytest.raises(StalePlanError, match=r"to follow function v0, but v2 is active. No plan waits"):
        answer(root, "i1", old, "approve", "Ann")


@pytest.mark.parametrize("given", ["approve", "reject"])
def test_a_plan_that_was_carried_out_cannot_be_answered(root: str, given: Any) -> None:
    digest = plan(root, "i1")
    carry_out(root, "i1")
    with pytest.raises(StalePlanError, match="plan i1 was carried out already, by epoch 1"):
        answer(root, "i1", digest, given, "Ann")
    assert not control.exists(root, "approvals")


def test_an_unknown_plan_and_one_that_moves_nothing_cannot_be_answered(root: str) -> None:
    digest = plan(root, "i1", decision="keep")
    with pytest.raises(StalePlanError, match="there is no plan 'i7'"):
        answer(root, "i7", digest, "approve", "Ann")
    with pytest.raises(StalePlanError, match="plan i1 is to keep, not to move anything: because"):
        answer(root, "i1", digest, "approve", "Ann")


def test_an_answer_is_for_one_function_only(root: str) -> None:
    shown = plan(root, "i1", key="a")
    answer(root, "i1", shown, "approve", "Ann")
    made_anew = plan(root, "i1", key="b")
    assert waiting(root) == "i1"
    assert not is_approved(root, "i1", made_anew)
    with pytest.raises(StalePlanError, match="it was made anew"):
        answer(root, "i1", shown, "approve", "Ann")


def test_the_newest_answer_counts(root: str) -> None:
    digest = plan(root, "i1")
    for given in ("approve", "reject", "approve"):
        answer(root, "i1", digest, given, "Ann")  # type: ignore[arg-type]
        assert is_approved(root, "i1", digest) is (given == "approve")


def test_an_approval_can_be_taken_back_even_if_a_newer_plan_waits(root: str) -> None:
    digest = plan(root, "i1")
    answer(root, "i1", digest, "approve", "Ann")
    process(root, "i1")
    plan(root, "i2")
    answer(root, "i1", digest, "reject", "Bob")
    assert not is_approved(root, "i1", digest)
    assert waiting(root) == "i2"


def test_of_two_answers_at_the_same_time_the_rejection_counts(root: str) -> None:
    digest = plan(root, "i1")
    same = {"plan_id": "i1", "digest": digest, "who": "Ann", "answered_at": datetime(2026, 1, 1, tzinfo=UTC)}
    control.append(root, "approvals", [{**same, "answer": "reject"}])
    control.append(root, "approvals", [{**same, "answer": "approve"}])
    assert not is_approved(root, "i1", digest)
