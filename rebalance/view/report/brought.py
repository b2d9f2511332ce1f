"""What rebalancing has brought, from the columns of `pipeline_over_time`: sums and means, and the sentences made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance.documents.words import bytes_in_words, several


@dataclass(frozen=True)
class Brought:
    """Loads are max/mean; seconds are an estimate. None where nothing is known."""

    intervals: int
    #: Means over the intervals of which both are known, and the worst.
    hash: float | None
    reached: float | None
    worst_hash: float | None
    worst_reached: float | None
    #: Estimated: how much longer the slowest tasks would have taken, in all.
    saved_seconds: float | None
    #: What the slowest tasks took, in the same intervals.
    slowest_seconds: float
    moved_keys: int
    moved_bytes: float
    #: Intervals in which something was moved.
    moves: int

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Any]]) -> Brought:
        """The sums over all intervals."""
        pairs = [(h, r) for h, r in zip(columns["hash"], columns["reached"], strict=True) if h and r]
        timed = [
            (s, h, r)
            for s, h, r in zip(columns["slowest"], columns["hash"], columns["reached"], strict=True)
            if s and h and r
        ]
        hashes, reached = [h for h, _ in pairs], [r for _, r in pairs]
        return cls(
            intervals=len(columns["id"]),
            hash=sum(hashes) / len(hashes) if pairs else None,
            reached=sum(reached) / len(reached) if pairs else None,
            worst_hash=max(hashes, default=None),
            worst_reached=max(reached, default=None),
            saved_seconds=sum(s * (h / r - 1) for s, h, r in timed) if timed else None,
            slowest_seconds=sum(s for s, _, _ in timed),
            moved_keys=sum(columns["moved_keys"]),
            moved_bytes=sum(columns["moved_bytes"]),
            moves=sum(map(bool, columns["moved_keys"])),
        )

    def sentences(self, mode: str) -> list[str]:
        """All of it in words, the good and the bad alike."""
        return [self._loads(), *self._seconds(), self._moved(mode)]

    def _loads(self) -> str:
        if self.hash is None or self.reached is None:
            return "Of none of these intervals the loads are known, so there is nothing to compare."
        worst = f"at worst {self.worst_hash:.2f} and {self.worst_reached:.2f}"
        means = f"{self.hash:.2f} times the mean load by the hash alone, and had {self.reached:.2f} times the mean"
        verdict = (
            ""
            if self.hash - self.reached > 0.005
            else " So in these intervals rebalancing did not make the loads more even."
        )
        return f"On average the fullest channel would have had {means}; {worst}.{verdict}"

    def _seconds(self) -> list[str]:
        if self.saved_seconds is None or self.slowest_seconds <= 0:
            return ["Spark did not measure the tasks, so there is no estimate of seconds."]
        longer = "longer" if self.saved_seconds >= 0 else "less"
        return [
            f"The slowest tasks took {self.slowest_seconds:,.1f} s in all; as an estimate, by the hash alone they would have taken "
            f"{abs(self.saved_seconds):,.1f} s {longer} ({abs(self.saved_seconds) / self.slowest_seconds:.0%})."
        ]

    def _moved(self, mode: str) -> str:
        if not self.moves:
            why = " In mode shadow plans are made and reported, and nothing is ever moved." if mode == "shadow" else ""
            return f"No state was moved.{why}"
        return (
            f"For that, {several(self.moved_keys, 'key')} with {bytes_in_words(self.moved_bytes)} of state changed their channel, "
            f"in {self.moves:,} of {several(self.intervals, 'interval')}."
        )
