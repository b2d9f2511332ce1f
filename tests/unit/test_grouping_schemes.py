"""Every grouping scheme sends every tuple where its plain transcription does, and keeps the bounds its paper states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.errors import ConfigError
from rebalance.planners.splitting.delegation import Rule
from rebalance.planning.model import Ints
from rebalance.simulate import SCHEMES, Cluster, Stream, make_scheme, simulate_tuples, zipf_stream
from rebalance.simulate.consistent_grouping import ConsistentGrouping, Delegation, Signals
from rebalance.simulate.grouping import (
    AllChoices,
    BoundedRing,
    Grouping,
    HeadChoices,
    KeyGrouping,
    PartialKeyGrouping,
    RandomChoices,
    Setting,
    ShuffleGrouping,
    TwoChoices,
    key_hashes,
    mixed,
)
from tests.reference import grouping as plain
from tests.support.budget import cases

PLAIN: dict[str, Callable[[plain.Case], list[int]]] = {
    "KG": plain.kg,
    "SG": plain.sg,
    "PKG": plain.pkg,
    "PoTC": plain.potc,
    "CH": plain.ch,
    "PoRC": plain.porc,
    "D-C": plain.dc,
    "W-C": plain.wc,
}
#: Seeds of the random streams on which each scheme is compared.
STREAMS = cases(100, long=250)


def random_stream(seed: int) -> tuple[Stream, int, int]:
    """A small stream with few keys or many, flat or steep, and a number of channels and of sources."""
    rng = np.random.default_rng(seed)
    tuples, keys = int(rng.integers(1, 400)), int(rng.choice([1, 3, 20, 200]))
    stream = zipf_stream(tuples, keys, float(rng.choice([0.0, 0.8, 1.5, 2.5])), seed)
    return stream, int(rng.choice([1, 2, 3, 7, 20])), int(rng.choice([1, 1, 2, 5]))


def routed(scheme: Grouping, stream: Stream, channels: int, sources: int, seed: int, cuts: int = 1) -> list[int]:
    """The scheme's channels, asked for in so many pieces."""
    router = scheme.start(Setting(key_hashes(stream.hashes, seed), channels, sources, seed))
    pieces = np.array_split(np.arange(len(stream)), cuts)
    return [d for piece in pieces if len(piece) for d in router.route(stream.keys[piece], int(piece[0])).tolist()]


def plain_case(stream: Stream, channels: int, sources: int, seed: int, epsilon: float = 0.01) -> plain.Case:
    hashes = [plain.mix(int(h), seed) for h in stream.hashes]
    return plain.Case([hashes[k] for k in stream.keys.tolist()], channels, sources, seed, epsilon)


@pytest.mark.parametrize("name", PLAIN)
def test_every_tuple_goes_where_the_plain_transcription_sends_it(name: str) -> None:
    for seed in range(STREAMS):
        stream, channels, sources = random_stream(seed)
        expected = PLAIN[name](plain_case(stream, channels, sources, seed))
        assert routed(make_scheme(name), stream, channels, sources, seed, cuts=1 + seed % 3) == expected, seed


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_bounded_schemes_agree_for_any_epsilon(epsilon: float) -> None:
    for seed in range(60):
        stream, channels, sources = random_stream(seed)
        case = plain_case(stream, channels, sources, seed, epsilon)
        assert routed(RandomChoices(epsilon), stream, channels, sources, seed) == plain.porc(case)
        assert routed(BoundedRing(epsilon, points=3), stream, channels, sources, seed) == plain.ch(case, points=3)


def test_memories_of_full_bins_and_least_choices_change_no_choice_on_long_steep_streams() -> None:
    """One key with two thirds of the tuples over many bins: what the kernels remember is used for nearly every tuple."""
    stream = zipf_stream(6000, 500, 2.2, seed=3)
    for sources in (1, 3):
        case = plain_case(stream, 60, sources, 5)
        for name in ("PoRC", "CH", "D-C", "W-C"):
            assert routed(make_scheme(name), stream, 60, sources, 5, cuts=7) == PLAIN[name](case), name


RULES = [
    pytest.param({"settle": True}, id="settle"),
    pytest.param({"settle": False}, id="the paper's rule"),
    pytest.param({"settle": False, "piggyback": True}, id="signals on acknowledgements"),
]


@pytest.mark.parametrize("rule", RULES)
def test_consistent_grouping_agrees_slot_by_slot_with_its_plain_transcription(rule: dict[str, bool]) -> None:
    for seed in range(cases(60, long=150)):
        stream, channels, sources = random_stream(seed)
        rng = np.random.default_rng(seed)
        capacity, alpha = rng.choice([1.0, 2.0, 5.0], channels).tolist(), int(rng.choice([1, 2, 5]))
        # Loads with which no utilisation is exactly on a threshold, where the last bit would decide.
        load, slot = float(rng.choice([0.4973, 0.8011, 1.2017])), int(rng.choice([5, 30]))
        outcome = simulate_tuples(
            ConsistentGrouping(alpha, **rule),
            stream,
            Cluster((tuple(capacity),)),
            sources=sources,
            load=load,
            slot=slot,
            seed=seed,
        )
        case = plain_case(stream, channels, sources, seed)
        if "piggyback" in rule:
            expected = plain.cg_piggybacked(case, capacity, alpha, slot, load)
        else:
            expected = plain.cg(case, capacity, alpha, slot, load, rule["settle"])
        ends = [expected[:end] for end in outcome.tuples.tolist()]
        assert outcome.loads.tolist() == [[sent.count(d) for d in range(channels)] for sent in ends], seed


def test_the_hash_of_an_array_is_the_hash_of_each() -> None:
    values = np.random.default_rng(0).integers(0, 2**63, 50).astype(np.uint64)
    assert mixed(values, 9).tolist() == [plain.mix(int(value), 9) for value in values]


def test_salts_spread_a_key_evenly_over_the_bins() -> None:
    bins = np.bincount([plain.h(plain.mix(12345, 0), salt, 50) for salt in range(1, 20_001)], minlength=50)
    assert np.all(np.abs(bins - 400) < 5 * np.sqrt(400))


# Bounds of the papers


def loads_over_time(scheme: Grouping, stream: Stream, channels: int, sources: int) -> Any:
    """L(d) after every tuple."""
    sent = np.array(routed(scheme, stream, channels, sources, seed=1))
    return np.cumsum(sent[:, None] == np.arange(channels), axis=0)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.01, 0.1, 1.0]), st.sampled_from([RandomChoices, BoundedRing]))
def test_a_bounded_load_is_at_most_one_over_its_bound_after_every_tuple(
    seed: int, epsilon: float, scheme: type[RandomChoices]
) -> None:
    stream, channels, sources = random_stream(seed)
    loads = loads_over_time(scheme(epsilon), stream, channels, sources)
    mean = np.arange(1, len(stream) + 1) / channels
    assert np.all(loads.max(axis=1) <= (1 + epsilon) * mean + sources)


@given(st.integers(0, 10**6))
def test_shuffle_grouping_is_at_most_one_tuple_per_source_off_balance(seed: int) -> None:
    stream, channels, sources = random_stream(seed)
    loads = loads_over_time(ShuffleGrouping(), stream, channels, sources)
    assert np.all(loads.max(axis=1) - loads.min(axis=1) <= sources)


@given(st.integers(0, 10**6))
def test_a_key_stays_on_as_many_channels_as_its_scheme_allows(seed: int) -> None:
    stream, channels, sources = random_stream(seed)
    for scheme, most in ((KeyGrouping(), 1), (PartialKeyGrouping(), 2)):
        sent = routed(scheme, stream, channels, sources, seed)
        places: dict[int, set[int]] = {}
        for key, d in zip(stream.keys.tolist(), sent, strict=True):
            places.setdefault(key, set()).add(d)
        assert max(map(len, places.values())) <= most


def test_a_heavy_key_needs_at_least_the_bins_the_bound_says() -> None:
    stream, channels, epsilon = zipf_stream(20_000, 100, 1.5, seed=2), 20, 0.01
    sent = np.array(routed(RandomChoices(epsilon), stream, channels, 1, seed=0))
    for key in range(5):
        share = np.mean(stream.keys == key)
        assert len(set(sent[stream.keys == key].tolist())) >= np.ceil(share * channels / (1 + epsilon) - 1e-3)


@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0, 10.0]), min_size=2, max_size=8),
    st.integers(1, 12),
    st.floats(0.3, 1.2),
)
def test_the_papers_delegation_comes_within_one_virtual_worker_of_the_optimum_and_stays_there(
    capacity: list[float], alpha: int, load: float
) -> None:
    """With no band between busy and idle, and utilisations as exact as virtual workers of equal size give them."""
    n = len(capacity)
    optimum = alpha * n * np.array(capacity) / sum(capacity)
    delegation = Delegation(n, alpha, Rule(load * (1 + 1e-9), load * (1 - 1e-9), settle=False))

    def slot() -> Any:
        owned = np.bincount(delegation.owner, minlength=n)
        delegation.signal(load * owned / optimum)
        return np.abs(np.bincount(delegation.owner, minlength=n) - optimum)

    for _ in range(n * n * alpha):
        slot()
    assert all(np.all(slot() < 1) for _ in range(20))
    assert len(delegation.owner) == alpha * n


def test_queues_are_first_come_first_served_and_old_signals_are_forgotten() -> None:
    delegation = Delegation(4, 2, Rule(0.85, 0.75, settle=False))
    delegation.signal(np.array([0.9, 0.9, 0.8, 0.8]))  # 0 and 1 wait
    assert delegation.owner.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    delegation.signal(np.array([0.8, 0.9, 0.9, 0.7]))  # 0 has gone, 1 came before 2; the highest of 1's moves to 3
    assert delegation.owner.tolist() == [0, 1, 2, 3, 0, 3, 2, 3]
    delegation.signal(np.array([0.7, 0.8, 0.9, 0.7]))  # 2 is still waiting; 0 is the first idle one
    assert delegation.owner.tolist() == [0, 1, 2, 3, 0, 3, 0, 3]


@pytest.mark.parametrize("settle", [True, False])
def test_a_channel_that_owns_nothing_is_not_asked_to_give(settle: bool) -> None:
    delegation = Delegation(2, 1, Rule(0.85, 0.75, settle))
    delegation.signal(np.array([0.9, 0.1]))
    assert delegation.owner.tolist() == [1, 1]
    delegation.signal(np.array([0.9, 0.1]))
    assert delegation.owner.tolist() == [1, 1]


def piggybacked(sources: int) -> Signals:
    """Two virtual workers for each of three channels: 0 is busy, 2 is idle, and nobody has heard of it."""
    signals = Signals(Setting(np.zeros(1, np.uint64), 3, sources, 0), alpha=2, busy=0.85, idle=0.75)
    signals.end_slot(np.array([0.9, 0.8, 0.1]))
    return signals


def test_a_source_hears_of_a_channel_only_by_its_own_tuples() -> None:
    signals = piggybacked(sources=2)
    everyone: Ints = np.arange(6, dtype=np.int32)
    assert signals.route(everyone[[0, 2, 2, 2]], first=0).tolist() == [0, 2, 2, 2]
    # The first source sent to 0 and then to 2, and so knows of both; the second only knows of 2.
    assert signals.views.owner.tolist() == [[0, 1, 2, 2, 1, 2], [0, 1, 2, 0, 1, 2]]
    assert signals.route(everyone[[3, 3]], first=4).tolist() == [2, 0]
    assert signals.views.owner.tolist() == [[0, 1, 2, 2, 1, 2], [0, 1, 2, 2, 1, 2]]


def test_a_signal_is_heard_once_a_slot_and_forgotten_when_the_channel_takes_it_back() -> None:
    signals = piggybacked(sources=1)
    workers: Ints = np.array([2, 2, 5, 2], np.int32)
    signals.route(workers, first=0)  # 2 waits for somebody busy
    signals.end_slot(np.array([0.9, 0.8, 0.8]))
    signals.route(np.array([2, 0, 0], np.int32), first=4)  # 2 has taken it back before 0 is heard of
    assert signals.views.owner.tolist() == [[0, 1, 2, 0, 1, 2]]
    signals.end_slot(np.array([0.9, 0.7, 0.7]))
    signals.route(np.array([1, 2, 1, 2], np.int32), first=7)  # 1 was heard of first, 2 goes on waiting
    assert signals.views.owner.tolist() == [[0, 1, 2, 1, 1, 2]]
    assert signals.views.taking.tolist()[0][2] > 0


def test_every_source_keeps_a_virtual_worker_of_every_channel_and_their_number_is_constant() -> None:
    rng = np.random.default_rng(4)
    signals = Signals(Setting(np.zeros(1, np.uint64), 5, 3, 0), alpha=4, busy=0.85, idle=0.75)
    for slot in range(300):
        signals.route(rng.integers(0, 20, 30).astype(np.int32), first=30 * slot)
        signals.end_slot(np.array([2.0, 2.0, 2.0, 2.0, 0.1]))
    for owner in signals.views.owner:
        assert np.bincount(owner, minlength=5).tolist() == [1, 1, 1, 1, 16]


def test_signals_of_one_bit_do_not_go_with_settle() -> None:
    with pytest.raises(ConfigError, match="settle = False"):
        ConsistentGrouping(piggyback=True)


# Head keys


def test_a_head_key_gets_at_least_as_many_choices_as_its_share_needs() -> None:
    """p1 = 0.5 on ten channels: five, and more because its choices may fall together."""
    from rebalance.simulate.choices_kernel import enough_choices

    counts: Ints = np.array([500] + [1] * 500, np.int32)
    d = enough_choices(counts, 1000, 0.02, 1e-4, 10)
    assert 5 <= d <= 10
    assert enough_choices(np.ones(1000, np.int32), 1000, 0.02, 1e-4, 10) == 2


def test_with_all_choices_a_head_key_alone_is_spread_evenly() -> None:
    stream = Stream("one key", np.zeros(100, np.int32), np.array([7], np.uint32))
    assert np.bincount(routed(AllChoices(), stream, 10, 1, 0)).tolist() == [10] * 10


# Arguments


def test_schemes_are_found_by_name_and_others_refused_with_the_names_there_are() -> None:
    assert [make_scheme(scheme.name.lower()).name for scheme in SCHEMES] == [scheme.name for scheme in SCHEMES]
    with pytest.raises(ConfigError, match="no scheme 'XG'; there are KG, PKG"):
        make_scheme("XG")
    with pytest.raises(ConfigError, match="KG cannot take"):
        make_scheme("KG", epsilon=0.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomChoices(-0.1),
        lambda: BoundedRing(points=0),
        lambda: ConsistentGrouping(alpha=0),
        lambda: ConsistentGrouping(idle=0.9),
        lambda: HeadChoices(theta=0),
    ],
)
def test_impossible_parameters_are_refused(make: Callable[[], Grouping]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_two_choices_depend_on_the_seed_and_on_nothing_else() -> None:
    stream = zipf_stream(1000, 10, 1.0)
    one, again, other = (routed(TwoChoices(), stream, 5, 1, seed) for seed in (1, 1, 2))
    assert one == again != other
