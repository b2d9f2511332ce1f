"""The tuple-level simulator: queues against a plain event simulation, and the results the paper reports, on seeded runs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.errors import ConfigError, SourceError
from rebalance.simulate import (
    SCHEMES,
    Cluster,
    Stream,
    drifting_stream,
    make_scheme,
    recorded_stream,
    simulate_tuples,
    zipf_stream,
)
from rebalance.simulate.__main__ import main
from rebalance.simulate.grouping import Grouping, Router, Setting
from rebalance.simulate.workload import Workload
from tests.reference import grouping as plain
from tests.support.budget import cases


class Given(Grouping):
    """Sends tuples where it was told."""

    name = "given"

    def __init__(self, channel: list[int]) -> None:
        self.channel = np.array(channel, np.int32)

    def start(self, setting: Setting) -> Router:
        return Router(lambda keys, first: self.channel[first : first + len(keys)])


def stream_of(keys: list[int]) -> Stream:
    return Stream("given", np.array(keys, np.int32), np.arange(max(keys) + 1, dtype=np.uint32))


CAPACITY = st.fractions(Fraction(1, 5), 5, max_denominator=7)
#: No nice numbers: where a tuple ends in the very moment in which a slot ends, rounding decides.
LOAD = st.sampled_from([0.3137, 0.8029, 1.5071])


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[int], Cluster, float, int]:
    """Channels of some tuples, a cluster of one to three phases, a load and a slot."""
    n = draw(st.integers(1, 4))
    channel = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=60))
    phases = draw(st.integers(1, 3))
    capacities = tuple(tuple(float(draw(CAPACITY)) for _ in range(n)) for _ in range(phases))
    return channel, Cluster(capacities, (0.0, 0.31, 0.62)[:phases]), draw(LOAD), draw(st.integers(1, 70))


@settings(max_examples=cases(60, long=150))
@given(runs())
def test_latency_and_queues_are_those_of_a_plain_event_simulation(run: tuple[list[int], Cluster, float, int]) -> None:
    channel, cluster, load, slot = run
    outcome = simulate_tuples(Given(channel), stream_of([0] * len(channel)), cluster, load=load, slot=slot)
    rate = Fraction(load) * cluster.channels
    starts = [int(np.ceil(share * len(channel))) for share in cluster.begins]
    phases = [
        (start, list(map(Fraction, speeds))) for start, speeds in zip(starts, cluster.speeds.tolist(), strict=True)
    ]
    jobs = plain.serve(channel, phases, rate)
    finish = [job.finish or Fraction(0) for job in jobs]
    expected = [float(end - job.arrival) for end, job in zip(finish, jobs, strict=True)]
    assert outcome.latency == pytest.approx(expected, rel=1e-5)
    for row, tuples in enumerate(outcome.tuples.tolist()):
        now = Fraction(tuples) / rate
        waiting = [
            sum(job.channel == d and (job.finish or 0) > now for job in jobs[:tuples]) for d in range(cluster.channels)
        ]
        assert outcome.queue[row].tolist() == waiting


@pytest.mark.parametrize("name", [scheme.name for scheme in SCHEMES])
def test_what_has_arrived_is_finished_or_waits_and_loads_add_up(name: str) -> None:
    cluster = Cluster.parse(7, "2x3,3x2")
    outcome = simulate_tuples(make_scheme(name), zipf_stream(20_000, 500, 1.2), cluster, sources=3, slot=900, load=0.9)
    assert outcome.tuples[-1] == 20_000
    assert np.array_equal(outcome.loads.sum(axis=1), outcome.tuples)
    ends = np.arange(20_000) / (0.9 * 7) + outcome.latency
    for row, time in enumerate(outcome.time):
        arrived = int(outcome.tuples[row])
        assert (
            abs(int(np.count_nonzero(ends[:arrived] <= time)) - int(outcome.processed[row])) <= 7
        )  # rounding at the slot's end
    assert np.all(outcome.queue <= outcome.loads)
    assert np.all(np.diff(outcome.memory) >= 0)
    assert outcome.distinct <= outcome.memory[-1] <= min(7 * outcome.distinct, 20_000)
    assert outcome.latency_percentiles.shape == (len(outcome.tuples), 3)


def test_memory_is_the_number_of_distinct_keys_per_channel() -> None:
    keys, channel = [0, 1, 0, 2, 2, 0, 1], [0, 0, 0, 1, 1, 1, 0]
    outcome = simulate_tuples(Given(channel), stream_of(keys), Cluster.alike(2), slot=3)
    assert outcome.keys.tolist() == [[2, 0], [2, 2], [2, 2]]
    assert outcome.replication == 4 / 3


def test_memory_counts_channels_beyond_the_first_word_of_bits() -> None:
    outcome = simulate_tuples(Given([*range(130), *range(130)]), stream_of([0] * 260), Cluster.alike(130))
    assert outcome.keys[-1].tolist() == [1] * 130


def test_imbalance_by_hand() -> None:
    """Capacities 3 and 1 scaled to 1.5 and 0.5; loads 3 and 3: U = 2 and 6, max - mean = 2, mean load 3."""
    outcome = simulate_tuples(Given([0, 1] * 3), stream_of([0] * 6), Cluster.stronger(2, (1, 3)), load=0.5, slot=6)
    assert outcome.imbalance[-1] == pytest.approx(2 / 3)
    # In 6 units of time channel 0 could have served 9 tuples and channel 1 three.
    assert outcome.utilisation[-1] == pytest.approx([1 / 3, 1.0])
    assert outcome.slot_imbalance[-1] == pytest.approx(1 / 3)


def test_a_run_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    stream = zipf_stream(20_000, 300, 1.0, seed=4)
    for scheme in SCHEMES:
        one, again, other = (simulate_tuples(scheme(), stream, Cluster.alike(6), seed=seed) for seed in (1, 1, 2))
        assert np.array_equal(one.loads, again.loads)
        assert np.array_equal(one.latency, again.latency)
        if scheme.name != "SG":
            assert not np.array_equal(one.latency, other.latency)


# Streams and clusters


def test_recorded_streams_keep_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "events.parquet"
    pq.write_table(pa.table({"key": ["b", "a", "b", None, "c", "a"], "n": [1, 2, 2, 1, 3, 2]}), file)
    assert recorded_stream(file, "key").keys.tolist() == [0, 1, 0, 2, 3, 1]
    assert recorded_stream(file, "n").keys.tolist() == [0, 1, 1, 0, 2, 1]
    with pytest.raises(SourceError, match="cannot read column 'word'"):
        recorded_stream(file, "word")
    with pytest.raises(SourceError, match="give a Parquet file"):
        recorded_stream(tmp_path / "none.parquet", "key")


def test_a_zipf_stream_has_the_frequencies_of_its_ranks() -> None:
    stream = zipf_stream(200_000, 50, 1.0, seed=3)
    shares = np.bincount(stream.keys, minlength=50) / len(stream)
    expected = 1 / np.arange(1, 51) / sum(1 / np.arange(1, 51))
    assert shares == pytest.approx(expected, abs=5e-3)


def test_a_drifting_stream_has_all_tuples_and_changes_from_interval_to_interval() -> None:
    stream = drifting_stream(Workload(keys=300, channels=5, seed=2), intervals=3, tuples=30_001)
    first, second = (np.bincount(stream.keys[a : a + 10_000], minlength=300) for a in (0, 10_000))
    assert len(stream) == 30_001
    assert np.abs(first - second).sum() > 0.2 * 10_000


@pytest.mark.parametrize("text", ["3", "x5", "3x0", "11x2", "3x5;2x2"])
def test_clusters_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Cluster.parse(10, text)


def test_a_change_of_capacities_leaves_their_sum() -> None:
    cluster = Cluster.parse(10, "3x5,5x4,2x10")
    assert cluster.speeds.sum(axis=1) == pytest.approx([10, 10, 10])
    assert cluster.begins == pytest.approx((0, 1 / 3, 2 / 3))
    ratios = cluster.speeds[0][0] / cluster.speeds[0][9], cluster.speeds[2][1] / cluster.speeds[2][2]
    assert ratios == pytest.approx((5, 10))


def test_impossible_runs_are_refused() -> None:
    stream = zipf_stream(10, 3)
    with pytest.raises(ConfigError, match="load above 0"):
        simulate_tuples(SCHEMES[0](), stream, Cluster.alike(2), load=0)
    with pytest.raises(ConfigError, match="no tuples"):
        stream.first(0)


# The command


def test_the_command_prints_a_line_per_scheme_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "grouping.png"
    words = f"--tuples 3000 --keys 50 --cluster 2x3,1x4 --schemes kg,CG --widths 2,4 --figure {picture}"
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if line.strip().startswith(("KG", "CG"))] == ["KG", "CG"]
    assert "stronger 2x3 then 1x4" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_takes_recorded_and_drifting_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.parquet"
    pq.write_table(pa.table({"user": list("abacabad") * 50}), file)
    assert main(["--parquet", str(file), "--key", "user", "--tuples", "300", "--schemes", "SG"]) == 0
    assert "events, user: 300 tuples" in capsys.readouterr().out
    assert main(["--drift", "0.5", "--intervals", "2", "--keys", "100", "--tuples", "2000", "--schemes", "PoRC"]) == 0
    assert "drift f=0.5" in capsys.readouterr().out


def test_the_command_runs_consistent_grouping_by_the_papers_rule_and_with_its_signals_if_asked_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "--tuples 40000 --keys 300 --channels 6 --cluster 2x5 --slot 400 --alpha 40 --schemes CG"
    lines = []
    for more in ([], ["--no-settle"], ["--no-settle", "--piggyback"]):
        assert main([*words.split(), *more]) == 0
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("CG"))
        lines.append(line.split()[1:3])
    assert lines[0] != lines[1] != lines[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--schemes XG", "there is no scheme"),
        ("--schemes CG --piggyback", "settle = False"),
        ("--cluster 3", "written like 3x5"),
        ("--parquet nowhere", "cannot read"),
    ],
)
def test_the_command_says_what_is_wrong(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tuples", "100", "--keys", "10", *words.split()]) == 1
    assert says in " ".join(capsys.readouterr().out.split())
