"""Worker delegation by itself: with exact utilisation it comes to rest within one virtual worker of the optimum, whatever the thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.planners.splitting.delegation import Pairing, Rule, excess
from rebalance.planning.measure import relative_utilisation
from rebalance.planning.model import Floats, Indices
from tests.reference.spread import Grouping, too_many
from tests.support.budget import cases

STRENGTHS = st.lists(st.integers(1, 10), min_size=2, max_size=8).map(lambda s: np.array(s, dtype=float))


class Channels:
    """Channels of some strength, whose virtual workers are all exactly equal."""

    def __init__(self, strength: Floats, alpha: int, rule: Rule, load: float | None = None) -> None:
        self.strength, self.rule, self.load = strength, rule, load
        self.held: Indices = np.full(len(strength), alpha, np.int64)
        self.optimum = self.held.sum() * strength / strength.sum()
        self.last = Pairing([], [], [])

    @property
    def utilisation(self) -> Floats:
        """As the simulator has it where a load is given; else with a mean of 0.8, as in a pipeline."""
        if self.load is not None:
            return self.load * self.held / self.optimum
        relative = relative_utilisation(self.held / self.strength, self.strength > 0)
        assert relative is not None
        return relative

    def slot(self) -> Pairing:
        self.last = self.rule.slot_ends(self.utilisation, self.held, self.last.giving, self.last.taking)
        for giver, taker in self.last.pairs:
            self.held[giver] -= 1
            self.held[taker] += 1
        return self.last

    @property
    def off(self) -> float:
        return float(np.abs(self.held - self.optimum).max())


@settings(max_examples=150)
@given(
    strength=STRENGTHS,
    alpha=st.sampled_from([10, 40]),
    load=st.none() | st.floats(0.3, 1.2),
    keep=st.sampled_from([0, 1]),
)
def test_with_the_papers_thresholds_every_channel_comes_to_rest_within_one_of_its_optimum(
    strength: Floats, alpha: int, load: float | None, keep: int
) -> None:
    channels = Channels(strength, alpha, Rule(0.85, 0.75, settle=True, keep=keep), load)
    for _ in range(alpha * len(strength)):
        channels.slot()
    assert channels.off <= 1 + 1e-9
    assert all(channels.slot().pairs == [] for _ in range(5))
    assert channels.held.sum() == alpha * len(strength)


@settings(max_examples=100)
@given(strength=STRENGTHS, alpha=st.integers(8, 40), load=st.none() | st.floats(0.3, 1.2))
def test_every_pair_brings_the_sum_of_squares_down(strength: Floats, alpha: int, load: float | None) -> None:
    channels = Channels(strength, alpha, Rule(0.85, 0.75, settle=True), load)
    for _ in range(2 * alpha):
        before = float(((channels.held - channels.optimum) ** 2).sum())
        pairs = channels.slot().pairs
        after = float(((channels.held - channels.optimum) ** 2).sum())
        assert after < before if pairs else after == before
        assert len({d for pair in pairs for d in pair}) == 2 * len(pairs)


def test_the_papers_rule_alone_rests_several_off_and_where_nobody_is_busy() -> None:
    strength = np.array([1.0, 2, 3, 4, 10, 10])
    for load in (None, 0.5):
        channels = Channels(strength, 40, Rule(0.85, 0.75, settle=False), load)
        for _ in range(400):
            channels.slot()
        assert channels.off > 2


@settings(max_examples=cases(100, long=300))
@given(
    data=st.data(),
    channels=st.integers(1, 7),
    alpha=st.integers(1, 5),
    keep=st.sampled_from([0, 1]),
    settle=st.booleans(),
)
def test_queues_pairs_and_answers_are_those_of_the_plain_transcription(
    data: st.DataObject, channels: int, alpha: int, keep: int, settle: bool
) -> None:
    plain, rule = Grouping(channels, alpha, keep), Rule(0.85, 0.75, settle, keep)
    slot = Pairing([], [], [])
    for _ in range(5):
        level = st.sampled_from([0.0, 0.3, 0.7, 0.8, 0.9, 1.6]) | st.floats(0, 3)
        utilisation = data.draw(st.lists(level, min_size=channels, max_size=channels))
        held = np.array(plain.workers)
        assert excess(np.array(utilisation), held) == pytest.approx(too_many(utilisation, held.tolist()), abs=1e-9)
        slot = rule.slot_ends(np.array(utilisation), held, slot.giving, slot.taking)
        assert slot.pairs == plain.slot_ends(utilisation, 0.85, 0.75, settle)
        assert (slot.giving, slot.taking) == (list(plain.busy), list(plain.idle))


def test_excess_is_known_without_capacities_and_sums_to_nothing() -> None:
    held, capacity = np.array([4, 1, 7]), np.array([3.0, 1.0, 2.0])
    off = excess(5 * held / capacity, held)
    assert off == pytest.approx(held - 12 * capacity / 6)


def test_who_has_no_part_in_it_or_nothing_to_show_upsets_nobody() -> None:
    nothing = np.array([np.nan, np.inf, 0.0, 0.0])
    assert excess(nothing, np.array([2, 2, 2, 0])).tolist()[2:] == [0.0, -1.0]
    assert np.isnan(excess(nothing, np.array([2, 2, 2, 0]))[:2]).all()
    rule = Rule(0.85, 0.75, settle=True)
    assert rule.slot_ends(nothing, np.array([2, 2, 2, 2]), [0, 1], [2, 9]).pairs == []
    # Nothing came to channel 3: it counts as a hundred times stronger than the mean, not as infinitely strong.
    off = excess(np.array([0.8, 0.8, 0.8, 0.0]), np.array([2, 2, 2, 2]))
    assert np.isfinite(off).all()
    assert off.sum() == pytest.approx(0, abs=1e-8)
    # A closed channel neither gives nor takes, however far off the others are.
    closed = rule.slot_ends(np.array([np.nan, 2.0, 0.2]), np.array([0, 10, 10]), [], [])
    assert closed.pairs == [(1, 2)]


def test_a_giver_keeps_what_it_must() -> None:
    held, utilisation = np.array([1, 1, 8]), np.array([1.5, 1.5, 0.3])
    assert Rule(0.85, 0.75, settle=True, keep=1).slot_ends(utilisation, held, [], []).pairs == []
    assert Rule(0.85, 0.75, settle=True, keep=0).slot_ends(utilisation, held, [], []).pairs == [(0, 2)]


def test_who_waits_longest_is_answered_first_and_by_the_one_furthest_from_it() -> None:
    held, utilisation = np.full(5, 40), np.array([0.845, 0.84, 0.8, 0.797, 0.8])
    off = excess(utilisation, held)
    assert off[0] > off[1] > 1
    assert (off[2:] > -1).all()  # so nobody asks for more
    rule = Rule(0.85, 0.75, settle=True)
    assert rule.slot_ends(utilisation, held, [1], []).pairs == [(1, 3), (0, 2)]
    assert rule.slot_ends(utilisation, held, [], []).pairs == [(0, 3), (1, 2)]
