"""What a person sees: tables in the terminal and the picture of channel loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from rebalance.storage.history import IntervalRecord, max_over_mean


def bytes_in_words(size: float) -> str:
    """A number of bytes with the unit that suits it.

    >>> bytes_in_words(358_410)
    '358.4 kB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def history_table(records: Sequence[IntervalRecord]) -> Table:
    """One line per interval: loads, seconds, what the plan did and why."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title="max/mean is the load of the fullest channel over the mean: 1.00 is perfectly even",
        title_justify="left",
    )
    table.add_column("interval", no_wrap=True)
    table.add_column("events", justify="right")
    table.add_column("hash\nalone", justify="right")
    table.add_column("max/mean\nbefore", justify="right")
    table.add_column("plan\npredicts", justify="right")
    table.add_column("next one\nreached", justify="right")
    table.add_column("slowest/mean\ntask seconds", justify="right")
    table.add_column("routes", justify="right")
    table.add_column("keys\nmoved", justify="right")
    table.add_column("bytes\nmoved", justify="right")
    table.add_column("decision and reason", min_width=24)
    for record in records:
        seconds = record.task_seconds
        applied = record.kind == "migrate"
        table.add_row(
            record.interval_id,
            f"{record.events:,}",
            f"{record.without:.2f}",
            f"{record.before:.2f}",
            f"{record.predicted:.2f}" if record.decision else "",
            f"{record.reached:.2f}" if record.reached else "",
            f"{max(seconds):.2f}/{sum(seconds) / len(seconds):.2f}",
            f"{record.routes:,}",
            f"{record.moved_keys:,}" if applied else "0",
            bytes_in_words(record.moved_bytes) if applied else "0 B",
            f"{record.decision}: {record.reason}" if record.decision else "not planned yet",
        )
    return table


def draw_loads(records: Sequence[IntervalRecord], file: Path, *, theta_max: float, title: str) -> None:
    """A PNG of every channel's load over the mean, per interval: hash alone above, rebalanced below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        2, len(records), figsize=(max(6.0, 1.5 * len(records)), 5.2), sharey=True, squeeze=False, layout="constrained"
    )
    rows = (("hash alone", [r.hash_loads for r in records]), ("rebalanced", [r.loads for r in records]))
    for row, (label, all_loads) in enumerate(rows):
        for column, loads in enumerate(all_loads):
            axis = axes[row][column]
            mean = sum(loads) / len(loads) or 1.0
            heights = [load / mean for load in loads]
            # Channels beyond θ_max stand out by more than colour: they rise above the dashed line.
            colours = ["#c2452d" if height > 1 + theta_max else "#3b6ea5" for height in heights]
            axis.bar(range(len(loads)), heights, color=colours, width=0.85)
            axis.axhline(1 + theta_max, color="#444444", linewidth=0.8, linestyle="--")
            axis.set_xticks([])
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_title(f"{max_over_mean(loads):.2f}", fontsize=11, color=colours[heights.index(max(heights))])
            if row == 1:
                axis.set_xlabel(_clock(records[column].interval_id), fontsize=9)
        axes[row][0].set_ylabel(f"{label}\nload / mean load", fontsize=10)
    figure.suptitle(
        f"{title}\nOne bar a channel; the number is max/mean; dashed: 1 + θ_max = {1 + theta_max:g}", fontsize=11
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _clock(interval_id: str) -> str:
    """'20260101T0500Z' as '01-01 05:00'."""
    return f"{interval_id[4:6]}-{interval_id[6:8]} {interval_id[9:11]}:{interval_id[11:13]}"
