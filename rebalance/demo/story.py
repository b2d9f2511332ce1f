"""What the demo has to tell: the intervals, one of them by the hash on the clock, and what other planners would have done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from rebalance.documents.words import bytes_in_words
from rebalance.steps import RESULTS
from rebalance.storage.history import IntervalRecord
from rebalance.view.words import new_table

#: Seconds of each step, by interval.
Seconds = Mapping[str, Mapping[str, float]]
#: Below this share a difference of seconds says nothing.
NOISE = 0.1


def rebalancing_seconds(steps: Mapping[str, float]) -> float:
    """What an interval's steps took that only plan."""
    return sum(seconds for step, seconds in steps.items() if step != RESULTS)


def intervals_table(records: Sequence[IntervalRecord], seconds: Seconds) -> Table:
    """One line per interval: loads, what the channels' tasks took, what rebalancing cost and moved."""
    table = new_table(
        "interval",
        "hash\nalone",
        "active\nbefore",
        "planned",
        "reached",
        "slowest\ntask s",
        "mean\ntask s",
        "process\nbatch s",
        "rebalan-\ncing s",
        "keys\nmoved",
        "state\nmoved",
        title="Load of the fullest channel over the mean (1.00 is even), and seconds. The first interval also starts Spark and compiles planners",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for record in records:
        took = seconds.get(record.interval_id, {})
        table.add_row(
            record.interval_id,
            f"{record.without:.2f}",
            f"{record.before:.2f}",
            "" if record.predicted is None else f"{record.predicted:.2f}",
            f"{record.reached:.2f}",
            f"{slowest(record):.2f}",
            f"{mean(record):.2f}",
            f"{took.get(RESULTS, record.seconds):.1f}",
            f"{rebalancing_seconds(took):.1f}",
            f"{record.moved_keys if record.applied else 0:,}",
            bytes_in_words(record.moved_bytes if record.applied else 0),
        )
    return table


def slowest(record: IntervalRecord) -> float:
    """Seconds of the slowest channel's task."""
    return max(record.task_seconds)


def mean(record: IntervalRecord) -> float:
    """Mean seconds of the channels' tasks."""
    return sum(record.task_seconds) / len(record.task_seconds)


@dataclass(frozen=True)
class OnTheClock:
    """One interval, processed by the hash alone and by the plan in the same way."""

    hashed: IntervalRecord
    planned: IntervalRecord
    #: The interval as it was processed first: its loads by both.
    record: IntervalRecord
    #: What its plan cost: seconds of the steps that only plan.
    cost: float
    #: Tasks that run at a time.
    cores: int

    def table(self) -> Table:
        """Both side by side."""
        table = new_table(
            "",
            "max/mean\nload",
            "slowest\ntask s",
            "mean\ntask s",
            "slowest\n/mean",
            "process\nbatch s",
            title=f"Interval {self.record.interval_id} again, in throwaway tables: the quicker of two runs each",
        )
        for column in table.columns[1:]:
            column.justify = "right"
        for name, load, run in (
            ("hash alone", self.record.without, self.hashed),
            ("planned", self.record.reached, self.planned),
        ):
            times = (slowest(run), mean(run), slowest(run) / mean(run), run.seconds)
            table.add_row(name, f"{load:.2f}", *(f"{value:.2f}" for value in times))
        return table

    def sentences(self) -> list[str]:
        """What that says, and what it does not."""
        return [self._slowest(), self._whole(), self._cost()]

    def _slowest(self) -> str:
        hashed, planned = slowest(self.hashed), slowest(self.planned)
        return (
            f"The slowest channel, for which an interval waits once every channel has a core of its own, took {hashed:.2f} s by the hash "
            f"and {planned:.2f} s planned{_compared(hashed, planned)}."
        )

    def _whole(self) -> str:
        channels, saved = len(self.planned.task_seconds), self.hashed.seconds - self.planned.seconds
        said = f"The whole of process_batch took {self.hashed.seconds:.1f} s and {self.planned.seconds:.1f} s{_compared(self.hashed.seconds, self.planned.seconds)}"
        if self.cores < channels and abs(saved) <= NOISE * self.hashed.seconds:
            return f"{said}: {self.cores} cores take {channels} channels in turns, which hides most of the skew."
        return f"{said}, on {self.cores} cores for {channels} channels."

    def _cost(self) -> str:
        saved = slowest(self.hashed) - slowest(self.planned)
        said = f"To count, check, plan and migrate took {self.cost:.1f} s"
        if saved > self.cost:
            return f"{said}, less than the {saved:.1f} s by which the slowest channel is faster."
        return f"{said}: more than it brings at this size. It pays where skew costs the slowest channel more than that."


def _compared(hashed: float, planned: float) -> str:
    """How two times compare, in brackets; nothing where the difference says nothing."""
    if abs(hashed - planned) <= NOISE * max(hashed, planned):
        return " (no difference to speak of)"
    return f" (planned {hashed / planned:.1f}x as fast)"
