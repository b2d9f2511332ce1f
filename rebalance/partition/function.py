"""The one function type: splits, then routes, then ring.

Every planner's result becomes a `PartitionFunction`; Spark routes all of them with the same expression
(`rebalance.spark.routing`). A function is versioned and never edited: each plan makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from json import dumps, loads
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rebalance.errors import DamagedError, RebalanceError
from rebalance.partition.hashing import hash_longs, hash_strings
from rebalance.partition.ring import SLOT_SHIFT, SLOTS

Key = str | int
KeyType = Literal["string", "long"]
#: How many routes a notebook shows.
_SHOWN = 5


def slots_of(keys: Iterable[Key], key_type: KeyType) -> NDArray[np.int32]:
    """The ring slot of each key."""
    if key_type == "long":
        hashes = hash_longs(np.asarray(list(keys), dtype=np.int64))
    else:
        hashes = hash_strings(str(key) for key in keys)
    return (hashes >> SLOT_SHIFT).astype(np.int32)


@dataclass(frozen=True)
class Share:
    """One part of a split key: which channel takes which share of its tuples (shares of a key sum to 1)."""

    channel: int
    share: float


@dataclass(frozen=True, eq=False)
class PartitionFunction:
    """Maps a key to a channel, or a split key to several channels with shares."""

    version: int
    channels: int
    slots: NDArray[np.int32]
    key_type: KeyType = "string"
    routes: Mapping[Key, int] = field(default_factory=dict)
    splits: Mapping[Key, tuple[Share, ...]] = field(default_factory=dict)
    #: What the planner that owns the ring needs to go on from here (tokens of each channel, owners of virtual workers); plain JSON.
    memo: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.slots.shape != (SLOTS,):
            raise RebalanceError(f"a function needs {SLOTS} slots, got {self.slots.shape}")
        targets = [*self.routes.values(), *(s.channel for shares in self.splits.values() for s in shares)]
        used = np.concatenate([self.slots, np.asarray(targets, dtype=np.int32)])
        if used.min() < 0 or used.max() >= self.channels:
            raise RebalanceError(
                f"function v{self.version} sends keys to channel {used.min()}..{used.max()}, "
                f"but its channels are 0..{self.channels - 1}"
            )
        both = self.routes.keys() & self.splits.keys()
        if both:
            raise RebalanceError(f"{len(both)} keys are both routed and split, for example {next(iter(both))!r}")

    def hash_channel_of(self, keys: Iterable[Key]) -> NDArray[np.int32]:
        """h(k): the ring's answer alone."""
        return self.slots[slots_of(keys, self.key_type)]

    def channel_of(self, keys: Iterable[Key]) -> NDArray[np.int32]:
        """F(k). A split key answers with its first channel, where its merged state lives."""
        listed = list(keys)
        channels = self.hash_channel_of(listed)
        if self.routes or self.splits:
            for index, key in enumerate(listed):
                if key in self.routes:
                    channels[index] = self.routes[key]
                elif key in self.splits:
                    channels[index] = self.splits[key][0].channel
        return channels

    def digest(self) -> str:
        """Identifies what the function does, whatever its version."""
        content = sha256(self.slots.astype("<i4").tobytes())
        content.update(repr((self.channels, self.key_type)).encode())
        content.update(repr(sorted(self.routes.items())).encode())
        content.update(repr(sorted((k, s) for k, s in self.splits.items())).encode())
        content.update(dumps(self.memo, sort_keys=True).encode())
        return content.hexdigest()[:16]

    def with_version(self, version: int) -> PartitionFunction:
        """The same mapping under another version number."""
        return replace(self, version=version)

    def to_record(self) -> dict[str, Any]:
        """A row of the `functions` table; keys as text, whatever their type."""
        return {
            "version": self.version,
            "channels": self.channels,
            "key_type": self.key_type,
            "digest": self.digest(),
            "slots": self.slots.tolist(),
            "routes": [{"key": str(k), "channel": int(c)} for k, c in sorted(self.routes.items())],
            "splits": [
                {"key": str(k), "channel": s.channel, "share": s.share}
                for k, shares in sorted(self.splits.items())
                for s in shares
            ],
            "memo": dumps(self.memo, sort_keys=True),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> PartitionFunction:
        """The function of a row of the `functions` table."""
        as_key = int if record["key_type"] == "long" else str
        splits: dict[Key, tuple[Share, ...]] = {}
        for part in record["splits"]:
            key = as_key(part["key"])
            splits[key] = (*splits.get(key, ()), Share(int(part["channel"]), float(part["share"])))
        return cls(
            version=int(record["version"]),
            channels=int(record["channels"]),
            slots=np.asarray(record["slots"], dtype=np.int32),
            key_type=record["key_type"],
            routes={as_key(r["key"]): int(r["channel"]) for r in record["routes"]},
            splits=splits,
            memo=loads(record["memo"]),
        )

    def save(self, file: str | Path) -> None:
        """Write it to a file, as JSON; `rebalance.load_function` reads it. The file is there whole or not at all."""
        file = Path(file)
        made = file.with_name(f".{file.name}.new")
        made.write_text(dumps(self.to_record()))
        made.replace(file)

    @classmethod
    def load(cls, file: str | Path) -> PartitionFunction:
        """The function of a file that `save` has written; anything else is refused."""
        try:
            record = loads(Path(file).read_text())
            function = cls.from_record(record)
            whole = record["digest"] == function.digest()
        except (ValueError, LookupError, TypeError, AttributeError, RebalanceError):
            whole = False
        if not whole:
            raise DamagedError(
                f"{file} is not a function as `save` writes it, or was changed since. Save the function again."
            )
        return function

    def _repr_html_(self) -> str:
        """For a notebook: what it is and its first routes. Keys are foreign text."""
        rows = "".join(
            f"<tr><td>{escape(str(key))}</td><td>{channel}</td></tr>"
            for key, channel in sorted(self.routes.items())[:_SHOWN]
        )
        of = f", {_SHOWN} of them:" if len(self.routes) > _SHOWN else ":" if rows else ""
        said = f"function v{self.version}: {self.channels} channels, {self.key_type} keys, {len(self.splits):,} split, {len(self.routes):,} with a route{of}"
        return f"<div>{said}</div>" + (
            f"<table style='color:inherit'><tr><th>key</th><th>channel</th></tr>{rows}</table>" if rows else ""
        )
