"""The picture of channel loads: what hashing alone would have done, and what rebalancing did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance.storage.history import IntervalRecord, max_over_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEYOND, _WITHIN, _LINE = "#c2452d", "#3b6ea5", "#444444"


@dataclass(frozen=True)
class Bars:
    """One interval: each channel's load over the mean, and where the limit is."""

    interval_id: str
    heights: Sequence[float]
    fullest: float
    limit: float


def bars(interval_id: str, loads: list[float], limit: float) -> Bars:
    """The bars of an interval with these loads."""
    mean = sum(loads) / len(loads) or 1.0
    return Bars(interval_id, [load / mean for load in loads], max_over_mean(loads), limit)


def draw_loads(records: Sequence[IntervalRecord], file: Path, *, theta_max: float, title: str) -> None:
    """A PNG of every channel's load over the mean, per interval: hash alone above, rebalanced below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    limit = 1 + theta_max
    figure, axes = plt.subplots(
        2, len(records), figsize=(max(6.0, 1.5 * len(records)), 5.2), sharey=True, squeeze=False, layout="constrained"
    )
    for column, record in enumerate(records):
        for row, loads in enumerate((record.hash_loads, record.loads)):
            _draw(axes[row][column], bars(record.interval_id, loads, limit))
        axes[1][column].set_xlabel(_clock(record.interval_id), fontsize=9)
    for row, label in enumerate(("hash alone", "rebalanced")):
        axes[row][0].set_ylabel(f"{label}\nload / mean load", fontsize=10)
    figure.suptitle(f"{title}\nOne bar a channel; the number is max/mean; dashed: 1 + θ_max = {limit:g}", fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw(axis: Axes, shown: Bars) -> None:
    # Channels beyond θ_max stand out by more than colour: they rise above the dashed line.
    colours = [_BEYOND if height > shown.limit else _WITHIN for height in shown.heights]
    axis.bar(range(len(shown.heights)), shown.heights, color=colours, width=0.85)
    axis.axhline(shown.limit, color=_LINE, linewidth=0.8, linestyle="--")
    axis.set_xticks([])
    axis.spines[["top", "right"]].set_visible(False)
    colour = _BEYOND if shown.fullest > shown.limit else _WITHIN
    axis.set_title(f"{shown.fullest:.2f}", fontsize=11, color=colour)


def _clock(interval_id: str) -> str:
    """'20260101T0500Z' as '01-01 05:00'."""
    return f"{interval_id[4:6]}-{interval_id[6:8]} {interval_id[9:11]}:{interval_id[11:13]}"
