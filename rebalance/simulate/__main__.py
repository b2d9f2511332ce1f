"""`python -m rebalance.simulate`: grouping schemes side by side on a stream, tuple by tuple; a table and, if wanted, a picture.

Examples:
  python -m rebalance.simulate                                            Zipf z=1, ten channels alike
  python -m rebalance.simulate --cluster 3x5,5x4,2x10 --alpha 100 --figure grouping.png
  python -m rebalance.simulate --parquet events.parquet --key user --channels 20
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rebalance.errors import RebalanceError, extras_named
from rebalance.simulate.cluster import Cluster
from rebalance.simulate.grouping import Grouping
from rebalance.simulate.report import draw, outcome_table
from rebalance.simulate.schemes import SCHEMES, make_scheme
from rebalance.simulate.streams import Stream, drifting_stream, recorded_stream, zipf_stream
from rebalance.simulate.tuples import Outcome, simulate_tuples
from rebalance.simulate.workload import Workload


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m rebalance.simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stream = options.add_argument_group("stream (Zipf unless a file or a drift is given)")
    stream.add_argument("--tuples", type=int, help="tuples; default 1,000,000, or all of a file")
    stream.add_argument("--keys", type=int, default=100_000, help="distinct keys of a generated stream (%(default)s)")
    stream.add_argument("--zipf", type=float, default=1.0, metavar="Z", help="skewness z (%(default)s)")
    stream.add_argument("--drift", type=float, metavar="F", help="hot keys change every interval, by F mean loads")
    stream.add_argument("--intervals", type=int, default=10, help="intervals of a drifting stream (%(default)s)")
    stream.add_argument("--parquet", metavar="FILE", help="a recorded stream, in the file's order")
    stream.add_argument("--key", metavar="COLUMN", help="its key column")
    cluster = options.add_argument_group("cluster")
    cluster.add_argument("--channels", type=int, default=10, help="channels (%(default)s)")
    cluster.add_argument(
        "--cluster",
        default="",
        metavar="YxZ,…",
        help="phases of equal length, Y channels Z times stronger; default: alike",
    )
    cluster.add_argument("--load", type=float, default=0.8, help="arrivals over what all can serve (%(default)s)")
    cluster.add_argument("--sources", type=int, default=1, help="sources, each with its own view (%(default)s)")
    cluster.add_argument(
        "--slot", type=int, help="tuples per time slot; default a thousandth of the stream, at least 100 a channel"
    )
    names = ",".join(scheme.name for scheme in SCHEMES)
    options.add_argument("--schemes", default=names, help="which, by commas (%(default)s)")
    options.add_argument("--alpha", type=int, default=10, help="CG: virtual workers per channel (%(default)s)")
    options.add_argument(
        "--no-settle", action="store_true", help="CG: by the paper's rule alone, anywhere between its thresholds"
    )
    options.add_argument(
        "--piggyback", action="store_true", help="CG: signals come with acknowledgements, to each source its own"
    )
    options.add_argument("--epsilon", type=float, default=0.01, help="CG, PoRC, CH: room above the mean (%(default)s)")
    options.add_argument("--seed", type=int, default=0, help="of the stream and of the hashes (%(default)s)")
    options.add_argument("--figure", type=Path, metavar="FILE", help="write a PNG here")
    options.add_argument("--widths", default="5,10,50,100", help="numbers of channels in the figure (%(default)s)")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, draw."""
    given = parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    try:
        _compare(console, given)
    except RebalanceError as error:
        console.print(f"[bold red]Not simulated.[/] {error}")
        return 1
    return 0


def _compare(console: Console, given: argparse.Namespace) -> None:
    schemes = [_scheme(name.strip(), given) for name in given.schemes.split(",")]
    stream, cluster = _stream(given), Cluster.parse(given.channels, given.cluster)
    for scheme in schemes:
        # Compiled now, so that the speeds shown are those of the schemes.
        simulate_tuples(scheme, stream.first(1000), cluster, sources=given.sources)
    outcomes, seconds = [], []
    for scheme in schemes:
        started = time.process_time()
        outcomes.append(_run(scheme, stream, cluster, given))
        seconds.append(time.process_time() - started)
    how = f"{given.channels} channels" + (
        f", stronger {given.cluster.replace(',', ' then ')}" if given.cluster else " alike"
    )
    title = f"{stream.name}: {len(stream):,} tuples, {how}, load {given.load:g}, {given.sources} source(s)"
    console.print(outcome_table(outcomes, seconds, title))
    console.print(
        "Imbalance: max U - mean U, U = load / capacity, of the whole run; beside it that of a slot, in the last quarter. Latency: in service times of a mean channel."
    )
    if given.figure:
        widths = {
            n: [_run(scheme, stream, Cluster.alike(n), given) for scheme in schemes] for n in _widths(given.widths)
        }
        with extras_named():
            draw(outcomes, widths, given.figure, title=title, changes=cluster.begins[1:])
        console.print(f"The picture: {given.figure}")


def _run(scheme: Grouping, stream: Stream, cluster: Cluster, given: argparse.Namespace) -> Outcome:
    return simulate_tuples(
        scheme, stream, cluster, sources=given.sources, load=given.load, slot=given.slot, seed=given.seed
    )


def _scheme(name: str, given: argparse.Namespace) -> Grouping:
    """With the parameters of the command line that it has."""
    parameters: dict[str, dict[str, float]] = {
        "cg": {
            "alpha": given.alpha,
            "epsilon": given.epsilon,
            "settle": not given.no_settle,
            "piggyback": given.piggyback,
        },
        "porc": {"epsilon": given.epsilon},
        "ch": {"epsilon": given.epsilon},
    }
    return make_scheme(name, **parameters.get(name.lower(), {}))


def _stream(given: argparse.Namespace) -> Stream:
    if given.parquet:
        stream = recorded_stream(given.parquet, given.key or "key")
        return stream.first(given.tuples) if given.tuples else stream
    tuples = given.tuples or 1_000_000
    if given.drift is not None:
        workload = Workload(keys=given.keys, channels=given.channels, z=given.zipf, f=given.drift, seed=given.seed)
        return drifting_stream(workload, given.intervals, tuples)
    return zipf_stream(tuples, given.keys, given.zipf, given.seed)


def _widths(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise RebalanceError(f"--widths is {text!r}; give numbers of channels by commas, as in 5,10,50") from None


if __name__ == "__main__":
    sys.exit(main())
