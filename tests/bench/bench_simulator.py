"""`python -m tests.bench.bench_simulator`: tuples per second of every scheme, whole runs with queues, latencies and memory.

The yardstick of the same run is one plain pass of numpy over the same tuples: look up each key's hash, take it modulo the channels,
count. A ratio of 0.2 means a whole simulated tuple costs as much as five of those. Seconds are those of the processor, on one core.
"""

# ruff: noqa: T201 - a table for a person at a terminal

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from rebalance.simulate import SCHEMES, Cluster, Stream, make_scheme, simulate_tuples, zipf_stream


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=2, help="runs, of which the fastest counts")
    given = parser.parse_args()
    streams = {z: zipf_stream(given.tuples, given.keys, z) for z in (0.5, 1.0, 2.0)}
    schemes = {scheme.name: scheme() for scheme in SCHEMES}
    schemes["CG, ack"] = make_scheme("CG", settle=False, piggyback=True)
    for scheme in schemes.values():
        simulate_tuples(scheme, streams[1.0].first(1000), Cluster.alike(4))  # compile
    slowest = np.inf
    for sources in (1, 10):
        for channels in (10, 100, 1000):
            print(f"\n{channels} channels, {sources} source(s): million tuples/s (ratio to the numpy pass)")
            print(f"{'':<8}" + "".join(f"{f'z={z:g}':>20}" for z in streams))
            plain = {z: best(partial(numpy_pass, s, channels), 3) for z, s in streams.items()}
            print(f"{'numpy':<8}" + "".join(f"{given.tuples / plain[z] / 1e6:>20.1f}" for z in streams))
            for name, scheme in schemes.items():
                row = f"{name:<8}"
                for z, stream in streams.items():
                    run = partial(simulate_tuples, scheme, stream, Cluster.alike(channels), sources=sources)
                    seconds = best(run, given.repeat)
                    slowest = min(slowest, given.tuples / seconds)
                    cell = f"{given.tuples / seconds / 1e6:.1f} ({plain[z] / seconds:.2f})"
                    row += f"{cell:>20}"
                print(row, flush=True)
    print(f"\nslowest: {slowest / 1e6:.2f} million tuples/s")


def numpy_pass(stream: Stream, channels: int) -> None:
    """Key grouping's loads, as plain as numpy does it."""
    np.bincount(stream.hashes[stream.keys] % np.uint32(channels), minlength=channels)


def best(run: Callable[[], object], repeat: int) -> float:
    """Processor seconds of the fastest run: others on the same machine do not count."""
    seconds = []
    for _ in range(repeat):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
