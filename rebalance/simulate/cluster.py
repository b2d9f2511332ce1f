"""Channels of a simulated run: what each can do, and when that changes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planning.model import Floats


@dataclass(frozen=True)
class Cluster:
    """Capacities of the channels, in phases.

    Only their ratios within a phase count: each phase is scaled to a mean of 1, so that a change shifts capacity between channels and
    leaves the sum as it was, as in the paper.
    """

    #: Capacities of the first phase, then of every later one; all of the same length.
    capacities: tuple[tuple[float, ...], ...]
    #: Share of the stream at which each phase begins: 0, then ascending below 1.
    begins: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        if len({len(phase) for phase in self.capacities}) != 1 or not self.capacities[0]:
            raise ConfigError("every phase needs the same number of channels, at least one")
        if (
            len(self.begins) != len(self.capacities)
            or self.begins[0] != 0
            or sorted(set(self.begins)) != list(self.begins)
        ):
            raise ConfigError(f"phases must begin at 0 and then at ascending shares of the stream, got {self.begins}")
        if self.begins[-1] >= 1 or min(min(phase) for phase in self.capacities) <= 0:
            raise ConfigError("phases must begin before the stream ends, and every capacity must be above 0")

    @classmethod
    def alike(cls, channels: int) -> Cluster:
        """A homogeneous cluster."""
        return cls(((1.0,) * channels,))

    @classmethod
    def stronger(cls, channels: int, *phases: tuple[int, float]) -> Cluster:
        """In each phase, of equal length, the first y channels are z times as strong as the others.

        >>> Cluster.stronger(4, (1, 5), (2, 4)).capacities
        ((5, 1.0, 1.0, 1.0), (4, 4, 1.0, 1.0))
        """
        if any(not 0 <= y <= channels for y, _ in phases):
            raise ConfigError(f"y must be between 0 and the {channels} channels, got {[y for y, _ in phases]}")
        capacities = tuple((z,) * y + (1.0,) * (channels - y) for y, z in phases)
        return cls(capacities, tuple(number / len(phases) for number in range(len(phases))))

    @classmethod
    def parse(cls, channels: int, text: str) -> Cluster:
        """`3x5,5x4,2x10`: three channels five times stronger, then five four times, then two ten times; empty: all alike.

        >>> Cluster.parse(3, "1x2").capacities
        ((2.0, 1.0, 1.0),)
        """
        if not text:
            return cls.alike(channels)
        parts = [re.fullmatch(r"\s*(\d+)x(\d+(?:\.\d+)?)\s*", part) for part in text.split(",")]
        if not all(parts):
            raise ConfigError(
                f"a cluster is written like 3x5 or 3x5,5x4,2x10 (y channels z times stronger), got {text!r}"
            )
        return cls.stronger(channels, *((int(part[1]), float(part[2])) for part in parts if part))

    @property
    def channels(self) -> int:
        """How many."""
        return len(self.capacities[0])

    @property
    def speeds(self) -> Floats:
        """Tuples per unit of time, by phase and channel; the mean over channels is 1 in every phase."""
        capacity = np.array(self.capacities, dtype=np.float64)
        return np.asarray(capacity / (np.cumsum(capacity, axis=1)[:, -1:] / self.channels))
