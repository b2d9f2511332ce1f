"""LLFD's family over compact records: against the plain transcription, and back to concrete keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.planners.fang.compact import compact_records, concrete_channels
from rebalance.planners.fang.records import Placement, Records
from rebalance.planners.registry import make_planner
from rebalance.planning.model import Request
from tests.reference import fang_records
from tests.support.strategies import request_of, requests
from tests.unit.test_mixed_family import FAMILY, random_request


def problem_of(request: Request, records: Records) -> fang_records.Problem:
    columns = (records.planned, records.current, records.home, records.cost, records.state, records.count)
    rows = [
        fang_records.Row(*(int(value) for value in row), movable=bool(m), origin=i)
        for i, (*row, m) in enumerate(zip(*columns, records.movable, strict=True))
    ]
    excluded = set() if request.excluded is None else set(np.flatnonzero(request.excluded).tolist())
    return fang_records.Problem(
        rows,
        request.capacity.astype(int).tolist(),
        Fraction(str(request.limits.theta_max)),
        records.max_routes,
        excluded,
    )


def counts_of(placement: Placement) -> Counter[tuple[int, int]]:
    records, result = placement.records, Counter[tuple[int, int]]()
    for row, keys in enumerate(placement.stay.tolist()):
        result[int(records.origin[row]), int(records.planned[row])] += keys
    for row, channel, keys in placement.placed.tolist():
        result[int(records.origin[row]), channel] += keys
    return +result


def few_values(request: Request, rng: np.random.Generator) -> Request:
    """Costs and states with many alike, so that records have many keys; whole numbers from 1, so that HLHE's are whole too."""
    size = len(request.stats)
    cost, state = rng.choice([1, 1, 1, 2, 7], size).astype(float), rng.choice([1.0, 3.0], size)
    return replace(request, stats=replace(request.stats, tuples=cost, cost=cost, state=state))


@pytest.mark.parametrize("name", FAMILY)
def test_agrees_with_the_plain_transcription_on_hundreds_of_random_requests(name: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(150 if name != "mixedbf" else 40):
        request = few_values(random_request(rng, most_keys=25, most_channels=3), rng)
        records = compact_records(request, r=int(rng.integers(0, 4))).records
        placement, _ = make_planner(name).plan(records)
        expected, refused = fang_records.plan(problem_of(request, records), name)
        assert counts_of(placement) == expected
        assert placement.refused == refused


@settings(max_examples=40, deadline=None)
@given(request=requests(), r=st.integers(0, 8), name=st.sampled_from(list(FAMILY)))
def test_every_channel_gets_the_planned_number_of_keys_of_every_record(request: Request, r: int, name: str) -> None:
    compact = compact_records(request, r)
    placement, _ = make_planner(name).plan(compact.records)
    channel = concrete_channels(compact, placement)
    record_of_key = np.empty(len(request.stats), dtype=int)
    record_of_key[compact.keys] = np.repeat(np.arange(len(compact.records.count)), compact.records.count)
    assert Counter(zip(record_of_key.tolist(), channel.tolist(), strict=True)) == counts_of(placement)


@settings(max_examples=40, deadline=None)
@given(request=requests(), r=st.integers(0, 8))
def test_a_record_holds_keys_that_are_alike(request: Request, r: int) -> None:
    compact = compact_records(request, r)
    starts = np.cumsum(compact.records.count) - compact.records.count
    for record, keys in enumerate(np.split(compact.keys, starts[1:])):
        assert set(request.current[keys].tolist()) == {compact.records.current[record]}
        assert set(request.home[keys].tolist()) == {compact.records.home[record]}


def test_the_number_of_records_does_not_grow_with_the_keys() -> None:
    def records(size: int) -> int:
        request = request_of(cost=[1 + k % 5 for k in range(size)], home=[k % 3 for k in range(size)])
        return len(compact_records(request, r=2).records.cost)

    assert records(300) == records(30_000)
