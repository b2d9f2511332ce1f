"""What a person sees of tuple-level runs: a table in the terminal and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from rebalance.simulate.tuples import Outcome

#: One colour and mark per scheme in every picture (Okabe and Ito's colours, told apart without red and green).
STYLES = {
    "KG": ("#000000", "o"),
    "PKG": ("#e69f00", "s"),
    "D-C": ("#8c6d31", "P"),
    "W-C": ("#b3a125", "X"),
    "PoRC": ("#56b4e9", "^"),
    "CG": ("#d55e00", "D"),
    "CH": ("#009e73", "v"),
    "PoTC": ("#cc79a7", "<"),
    "SG": ("#0072b2", ">"),
}
#: Over time only these are drawn: the others treat channels as SG does, as if all were alike.
OVER_TIME = ("KG", "PKG", "SG", "CG")
#: Below this imbalance is drawn as this: a logarithm has no zero.
_LEAST = 1e-5


def outcome_table(outcomes: Sequence[Outcome], seconds: Sequence[float], title: str) -> Table:
    """One line per scheme."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("scheme", no_wrap=True)
    for column in (
        "imbalance\nmean loads",
        "last\nquarter",
        "memory\nkeys",
        "channels\nper key",
        "latency\nmean",
        "latency\np99",
        "longest\nqueue, end",
        "finished",
        "M tuples/s\nper core",
    ):
        table.add_column(column, justify="right")
    for outcome, took in zip(outcomes, seconds, strict=True):
        table.add_row(
            outcome.scheme,
            f"{outcome.imbalance[-1]:.4f}",
            f"{outcome.final_imbalance:.3f}",
            f"{outcome.memory[-1]:,}",
            f"{outcome.replication:.2f}",
            _time(float(outcome.latency.mean(dtype=np.float64))),
            _time(outcome.percentile(99)),
            f"{outcome.queue[-1].max():,}",
            f"{outcome.throughput:.1%}",
            f"{outcome.tuples[-1] / took / 1e6:.1f}",
        )
    return table


def _time(value: float) -> str:
    """No decimals where they say nothing."""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def draw(
    outcomes: Sequence[Outcome],
    widths: Mapping[int, Sequence[Outcome]],
    file: Path,
    *,
    title: str,
    changes: Sequence[float] = (),
) -> None:
    """A PNG: imbalance and memory against the number of channels (`widths`), utilisation and queues of `outcomes` over time.

    `changes` are the shares of the stream at which capacities change.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 7.6), layout="constrained")
    _against_channels(axes[0][0], widths, lambda o: max(float(o.imbalance[-1]), _LEAST))
    axes[0][0].set_title(f"Imbalance, all channels alike (mean loads; {_LEAST:g} or less as {_LEAST:g})", fontsize=10)
    _against_channels(axes[0][1], widths, lambda o: o.replication)
    axes[0][1].set_title("Memory, all channels alike (channels per key)", fontsize=10)
    over_time = [outcome for outcome in outcomes if outcome.scheme in OVER_TIME] or outcomes
    _over_time(axes[1][0], over_time, [o.utilisation.max(axis=1) for o in over_time], changes)
    axes[1][0].axhline(1.0, color="#444444", linewidth=0.8, linestyle="--")
    axes[1][0].set_title("Utilisation of the busiest channel per slot; above 1 its queue grows", fontsize=10)
    axes[1][0].set_ylim(bottom=0)
    _over_time(axes[1][1], over_time, [o.queue.max(axis=1) + 1.0 for o in over_time], changes)
    axes[1][1].set_yscale("log")
    axes[1][1].set_title("Longest queue at the end of each slot (tuples + 1)", fontsize=10)
    lines = {line.get_label(): line for line in axes[0][0].get_lines()}
    shown = [name for name in STYLES if name in lines]
    figure.legend([lines[name] for name in shown], shown, loc="outside lower center", ncols=len(shown), frameon=False)
    figure.suptitle(title, fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _against_channels(axis: Any, widths: Mapping[int, Sequence[Outcome]], value: Any) -> None:
    """A line per scheme on logarithmic paper."""
    for place, name in enumerate(outcome.scheme for outcome in next(iter(widths.values()))):
        colour, mark = STYLES[name]
        values = [value(outcomes[place]) for outcomes in widths.values()]
        axis.plot(list(widths), values, color=colour, marker=mark, markersize=5, linewidth=1.3, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(list(widths), [str(channels) for channels in widths])
    axis.minorticks_off()
    axis.set_xlabel("channels")
    axis.spines[["top", "right"]].set_visible(False)


def _over_time(axis: Any, outcomes: Sequence[Outcome], values: Sequence[Any], changes: Sequence[float]) -> None:
    """A line per scheme over the tuples that have arrived; dotted where capacities change."""
    for place, (outcome, line) in enumerate(zip(outcomes, values, strict=True)):
        # Those drawn first are thicker: one that is covered by another still shows at its edges.
        width = 1.0 + 0.6 * (len(outcomes) - 1 - place)
        axis.plot(outcome.tuples / 1e6, line, color=STYLES[outcome.scheme][0], linewidth=width, label=outcome.scheme)
    for share in changes:
        axis.axvline(share * outcomes[0].tuples[-1] / 1e6, color="#888888", linewidth=0.9, linestyle=":")
    axis.set_xlabel("million tuples")
    axis.spines[["top", "right"]].set_visible(False)
