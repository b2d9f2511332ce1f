"""Two pictures as SVG, in the colours of the page's style sheet: loads over time, and the channels of an interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from rebalance.view.report.html import Html, element

Series = Mapping[str, Sequence[float | None]]
_WIDTH, _HEIGHT = 900, 260
#: Room for the axis at the left, and for the words below.
_LEFT, _BOTTOM, _TOP, _RIGHT = 46, 34, 10, 10


def lines(series: Series, labels: Sequence[str], limit: float, words: str) -> Html:
    """One line for each series over the intervals; where a value is missing, the line is broken."""
    highest = _highest([value for values in series.values() for value in values], limit)
    count = max(len(labels), 1)
    step = (_WIDTH - _LEFT - _RIGHT) / count
    drawn = []
    for name, values in series.items():
        at = [(_LEFT + (place + 0.5) * step, value) for place, value in enumerate(values)]
        for run in _runs(at):
            points = " ".join(f"{x:.1f},{_y(value, highest):.1f}" for x, value in run)
            drawn.append(element("polyline", points=points, class_=f"line {name}"))
            if len(run) == 1:
                drawn.append(
                    element(
                        "circle", cx=f"{run[0][0]:.1f}", cy=f"{_y(run[0][1], highest):.1f}", r=3, class_=f"dot {name}"
                    )
                )
    return _picture(words, [*_rulers(highest), *drawn, _limit(limit, highest), *_marks(labels, step)])


def bars(series: Series, limit: float, words: str) -> Html:
    """For each channel one bar of each series, side by side."""
    highest = _highest([value for values in series.values() for value in values], limit)
    count = max((len(values) for values in series.values()), default=0) or 1
    step = (_WIDTH - _LEFT - _RIGHT) / count
    width = 0.8 * step / max(len(series), 1)
    drawn = []
    for number, (name, values) in enumerate(series.items()):
        for channel, value in enumerate(values):
            if value is None:
                continue
            x, top = _LEFT + channel * step + 0.1 * step + number * width, _y(value, highest)
            title = element("title", f"channel {channel}, {name}: {value:.2f}")
            drawn.append(
                element(
                    "rect",
                    title,
                    x=f"{x:.1f}",
                    y=f"{top:.1f}",
                    width=f"{width:.2f}",
                    height=f"{_y(0, highest) - top:.1f}",
                    class_=f"bar {name}",
                )
            )
    return _picture(
        words,
        [*_rulers(highest), *drawn, _limit(limit, highest), *_marks([str(channel) for channel in range(count)], step)],
    )


def _picture(words: str, drawn: Sequence[Html]) -> Html:
    return element("svg", *drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=words)


def _highest(values: Sequence[float | None], limit: float) -> float:
    """Where the axis ends: above everything that is drawn, at a round number."""
    return ceil(2 * max([limit, 1.5, *(value for value in values if value is not None)]) * 1.02) / 2


def _y(value: float, highest: float) -> float:
    return _TOP + (_HEIGHT - _BOTTOM - _TOP) * (1 - value / highest)


def _runs(points: Sequence[tuple[float, float | None]]) -> Iterator[list[tuple[float, float]]]:
    """The stretches without a gap."""
    run: list[tuple[float, float]] = []
    for x, value in [*points, (0.0, None)]:
        if value is not None:
            run.append((x, value))
        elif run:
            yield run
            run = []


def _rulers(highest: float) -> Iterator[Html]:
    """Lines at round numbers, with these at the left."""
    step = 0.5 if highest <= 3 else 1.0 if highest <= 8 else float(ceil(highest / 8))
    for number in range(int(highest / step) + 1):
        yield _across(number * step, highest, "ruler")
        at = f"{_y(number * step, highest):.1f}"
        yield element("text", f"{number * step:g}", x=_LEFT - 6, y=at, class_="tick left")


def _limit(limit: float, highest: float) -> Html:
    return _across(limit, highest, "limit")


def _across(value: float, highest: float, kind: str) -> Html:
    y = f"{_y(value, highest):.1f}"
    return element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_=kind)


def _marks(labels: Sequence[str], step: float) -> Iterator[Html]:
    """As many words below as there is room for."""
    longest = max(map(len, labels), default=1)
    every = max(1, ceil(len(labels) * 7.5 * (longest + 2) / (_WIDTH - _LEFT - _RIGHT)))
    for place in range(0, len(labels), every):
        yield element(
            "text", labels[place], x=f"{_LEFT + (place + 0.5) * step:.1f}", y=_HEIGHT - 12, class_="tick below"
        )
