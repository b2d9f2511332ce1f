"""A plan as a notebook shows it: a small piece of HTML in the page's own colours, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rebalance.notebook.planned import TablePlan

#: How many channels and moved keys are shown; a notebook keeps every output.
_CHANNELS, _KEYS = 32, 5
#: Width of a fair load's bar, and of the widest.
_FAIR, _WIDEST = 60, 240
#: Readable on white and on black.
_BEFORE, _AFTER = "#9a9a9a", "#3b82c4"


def plan_html(plan: TablePlan) -> str:
    """What is decided, each channel's load before and after, the heaviest keys that move. Keys are foreign text, so all is escaped."""
    notes = "".join(f"<div>note: {escape(note)}</div>" for note in plan.notes)
    return (
        f"<div><b>{escape(plan.decision)}</b> by {escape(plan.planner)}: {escape(plan.reason)}</div>{notes}"
        f"<table style='color:inherit'><thead><tr><th>channel</th><th>load / fair load now</th><th>with <code>function</code></th></tr></thead>"
        f"<tbody>{_channel_rows(plan)}</tbody></table>{_moved(plan)}"
    )


def _channel_rows(plan: TablePlan) -> str:
    before, after = _over_fair(plan.loads_before, plan.fair), _over_fair(plan.loads, plan.fair)
    both = list(zip_longest(before, after, fillvalue=0.0))
    rows = "".join(
        f"<tr><td>{channel}</td><td style='text-align:left'>{_bar(now, _BEFORE)}</td><td style='text-align:left'>{_bar(then, _AFTER)}</td></tr>"
        for channel, (now, then) in enumerate(both[:_CHANNELS])
    )
    more = len(both) - _CHANNELS
    return rows + (f"<tr><td colspan=3>and {more:,} channels more</td></tr>" if more > 0 else "")


def _bar(height: float, colour: str) -> str:
    width = round(min(_FAIR * height, _WIDEST))
    return f"<span style='display:inline-block;width:{width}px;height:.7em;background:{colour}'></span> {height:.2f}"


def _moved(plan: TablePlan) -> str:
    if not plan.moved.num_rows:
        return ""
    rows = "".join(
        f"<tr><td>{escape(str(row['key']))}</td><td>{row['from']} → {row['to']}</td><td>{row['cost']:,g}</td><td>{row['state']:,.0f}</td></tr>"
        for row in plan.moved.slice(0, _KEYS).to_pylist()
    )
    of = f"the {_KEYS} heaviest of {plan.moved.num_rows:,} keys that move" if plan.moved.num_rows > _KEYS else "moves"
    return f"<table style='color:inherit'><thead><tr><th>{of}</th><th>channel</th><th>cost</th><th>state, bytes</th></tr></thead><tbody>{rows}</tbody></table>"


def _over_fair(loads: Sequence[float], fair: Sequence[float]) -> list[float]:
    """Each channel's load over its fair load; of a channel that is to be empty, over the mean of the others."""
    mean = sum(fair) / sum(part > 0 for part in fair) if any(fair) else 1.0
    padded = [*fair, *[0.0] * (len(loads) - len(fair))]
    return [load / (part or mean) for load, part in zip(loads, padded, strict=False)]


def plot(plan: TablePlan) -> Figure:
    """Bars of both; the dashed line is the fair load."""
    from rebalance.errors import extras_named

    with extras_named():
        from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True, layout="constrained")
    sides = (("now", plan.loads_before, plan.before, _BEFORE), (plan.planner, plan.loads, plan.after, _AFTER))
    for axis, (label, loads, fullest, colour) in zip(axes, sides, strict=True):
        _draw(axis, _over_fair(loads, plan.fair), f"{label}: {fullest:.2f}", colour)
    axes[0].set_ylabel("load / fair load")
    # A notebook shows the figure that is returned; left open, it would show it twice.
    plt.close(figure)
    return figure


def _draw(axis: Axes, heights: Sequence[float], title: str, colour: str) -> None:
    axis.bar(range(len(heights)), heights, color=colour, width=0.85)
    axis.axhline(1.0, color="#777777", linewidth=0.8, linestyle="--")
    axis.set_xticks([])
    axis.set_xlabel(f"{len(heights)} channels")
    axis.set_title(title, fontsize=11)
    axis.spines[["top", "right"]].set_visible(False)
