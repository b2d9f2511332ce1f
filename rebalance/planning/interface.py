"""The interface of a planner: one method, pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rebalance.partition import PartitionFunction
from rebalance.planning.model import Ints, Proposal, Request

#: Under this name a function's memo says which planner owns its ring.
RING_OF = "ring_of"
#: Under this name a function's memo lists the keys that its planner tracked. That does not depend on the ring: it is there when the channels change, too.
TRACKED = "tracked"


class Planner(Protocol):
    """HOW a better function is found.

    A planner is a frozen dataclass: its fields are its parameters, in the paper's letters. `__post_init__` refuses bad ones with a
    ConfigError that names the parameter, its value and what it may be. `propose` has no clock, no I/O, no unseeded randomness, does
    not change its request and follows the rules of `exact`, so the same request gives the same proposal, on every processor.
    """

    #: The name in a pipeline file.
    name: ClassVar[str]
    #: Whether it may spread one key over several channels; then the operator's states must merge.
    splits_keys: ClassVar[bool]

    def propose(self, request: Request) -> Proposal:
        """Where each key of the request should go."""
        ...


def needs_merging(planner: Planner | type[Planner]) -> bool:
    """Whether it is of no use for an operator whose states do not merge: it splits keys, and cannot do without.

    A planner that splits keys but can also plan with whole ones says so with `whole_keys_too`.
    """
    return planner.splits_keys and not getattr(planner, "whole_keys_too", False)


def plans_on_some_keys(planner: Planner | type[Planner]) -> bool:
    """Whether it can be told of some keys only, the others being entries that stay: it says so with `some_keys`.

    It must keep the ring of its request, by which the others go, and need no figure of each key.
    """
    return getattr(planner, "some_keys", False)


class Balance(NamedTuple):
    """What a planner with an aim of its own thinks of an assignment."""

    #: Whether its aim is met, so that it need not be asked.
    within: bool
    #: How far off it is; less is better, the first number first.
    off: tuple[float, ...]
    #: How even it is, in a few words; then all measures, with what the assignment costs. No "; " in it: that parts a plan's notes.
    brief: str
    told: str


@runtime_checkable
class Aiming(Planner, Protocol):
    """A planner with measures of balance of its own: by these it is asked, and its proposals are judged, not by θ_max and the costs."""

    def balance(self, request: Request, channel: Ints) -> Balance:
        """What an assignment is worth to it."""
        ...


def works_towards_theta_max(planner: type[Planner]) -> bool:
    """Whether it is asked where a θ is beyond θ_max, and not by an aim of its own or at every interval."""
    return not hasattr(planner, "balance") and not getattr(planner, "judges_itself", False)


@runtime_checkable
class RingOwner(Planner, Protocol):
    """A planner with a ring of its own making, which its plans change: tokens, virtual workers."""

    #: Whether it acts on measured utilisation instead of declared capacities; then θ_max and the guard, which know only
    #: those, neither hold it back nor refuse its proposals.
    judges_itself: ClassVar[bool]

    def first_ring(self, channels: int, excluded: Collection[int]) -> Ints:
        """The slot table a pipeline starts with."""
        ...

    def next_ring(
        self, memo: Mapping[str, Any], channels: int, excluded: Collection[int]
    ) -> tuple[Ints, Mapping[str, Any]]:
        """The slot table when other channels are open than before, and its memo, from the memo of the active one."""
        ...


def first_function(planner: Planner, plain: PartitionFunction, excluded: Collection[int]) -> PartitionFunction:
    """The function a pipeline starts with: the plain one, or the planner's own ring."""
    if not isinstance(planner, RingOwner):
        return plain
    return PartitionFunction(
        version=plain.version,
        channels=plain.channels,
        slots=planner.first_ring(plain.channels, excluded),
        key_type=plain.key_type,
        memo={RING_OF: planner.name},
    )


def ring_to_build_on(
    planner: Planner, active: PartitionFunction, plain: Ints, channels: int, excluded: Collection[int]
) -> Ints:
    """The ring of a request: the plain one, or, for a planner that owns its ring, the active one while the channels stay the same."""
    if not isinstance(planner, RingOwner):
        return plain
    if active.memo.get(RING_OF) != planner.name:
        return planner.first_ring(channels, excluded)
    if active.channels == channels and not np.isin(active.slots, list(excluded)).any():
        return active.slots
    return planner.next_ring(active.memo, channels, excluded)[0]


def memo_to_build_on(planner: Planner, active: PartitionFunction, request: Request) -> Mapping[str, Any]:
    """What the request's ring is known by; of another ring than the active one only its owner can tell."""
    if active.channels == request.channels and np.array_equal(active.slots, request.ring):
        return active.memo
    if isinstance(planner, RingOwner) and active.memo.get(RING_OF) == planner.name:
        closed = np.flatnonzero(~request.open).tolist()
        return {**planner.next_ring(active.memo, request.channels, closed)[1], RING_OF: planner.name}
    return {TRACKED: active.memo[TRACKED]} if TRACKED in active.memo else {}
