"""What scan, redist and readj share: resource functions, which keys are tracked, penalties and utilities.

Reference: Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 23(4), 2014.

The function is a pair: an explicit table for the tracked, frequent keys over a consistent hash for the rest.

- Resources (section 3) are s state, c computation, n communication, written in that order: `LCL` is linear state, constant
  computation, linear communication. Load of channel i: L_k(i) = Σ β_k(f) over its keys, with β(x) = 1 (C), x (L) or x² (Q).
- Tracked keys D_p (4.1.3): f ≥ δ, so that a key left to the hash weighs at most σ of the imbalance α allows (`threshold`).
- Penalties (4.2.1): ρ is the geometric mean over the resources of (max - min load) / (θ_k · mean load) of the tracked keys; γ is the
  state β_s(f) that moves over what one channel's fair share of it is.
- Utilities (4.3), lower is better: A = ρ, APM = ρ + γ, APLM = ρ + ln(1+γ), ATM = ρ·(1+γ), ATLM = ρ·(1 + ln(1+γ)).
- Objective (3.4), selected like a utility: BTM = b·(1+m), equation 13 itself, over all keys and all three resources.

The planners differ in how they place the tracked keys. All other keys go to h_new.

Readings of the paper where it is open:

- Constant resources balance by themselves and are left out of ρ. Loads that are equal but for the tolerance, a share of their mean, count as
  that far apart: with a ρ_k of 0 the other resources would not rank.
- After the second look at a quadratic resource (`threshold`) δ is again the least over all resources: equation 16 has to hold for
  each of them, and the paper counts as many explicit entries for LQL as for LCL.
- α = 1 allows no imbalance at all, θ = 0; it counts as 1e-6. With less, ρ would be so large that γ is lost in the tolerance.

- A plan is asked for where some r_k is above α_k, and refused where b does not become less. Both leave constant resources out, as ρ
  does: else a plan that evens out the state could be refused for the number of keys. With BTM the b that must become less is the whole one.
- BTM while the table is built: the keys whose place is known are those placed so far and the untracked ones, which go where h_new sends
  them. Of these are b and m, so b is infinite no longer (the paper's reason for ρ), and in the end both are those of equations 11 and 12.
  A channel with nothing counts as one with the tolerance's share of the mean, so that b stays finite. For readj b takes ρ's place.

Ours, beyond the paper:

- A function stores no route for a tracked key that is placed at h(k), so the keys that were tracked are kept with it (`memo`). Of these, those
  that neither had tuples nor hold state now are left out of D_o and D_a. After another planner's plan nobody was tracked.
- M stands for a measured column: bytes of state for s, cost for c. A key is tracked if f ≥ δ or if it has more than the share σ·θ of a
  channel's mean of such a column, which is equation 16 again.
- Loads are divided by the channel's capacity. Excluded channels are left out, N counts the others.
- Pinned keys stay; the tracked ones are placed first. At most max_routes keys are tracked, the most frequent ones. A step that would
  move more than max_bytes is not taken; what has to move anyway (untracked keys, vanished channels) comes first.
- f is counted in tuples: penalties are ratios and the order of gains is the same. Weights are put on a grid (`planning.exact`), so equal
  loads are equal to the last bit. Utilities closer than the tolerance are equal, and so are a frequency and δ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import ClassVar

import numpy as np

from rebalance.errors import ConfigError
from rebalance.planners.baselines.consistent import hashed, open_ring
from rebalance.planners.gedik.metrics import column_of, imbalance, migration, resource_loads
from rebalance.planners.gedik.table import UTILITIES, Problem
from rebalance.planning.exact import TOLERANCE, clearly_less, on_grid, rounded, total
from rebalance.planning.interface import TRACKED, Balance
from rebalance.planning.model import Floats, Indices, Ints, KeyStats, Mask, Proposal, Request

#: θ of α = 1.
_LEAST_THETA = 1e-6


@dataclass(frozen=True)
class Gedik(ABC):
    """Parameters of scan, redist and readj; each adds how it places the tracked keys."""

    splits_keys: ClassVar[bool] = False

    #: α_k: allowed ratio of the largest to the smallest load, 1 to 4; one number, or three for s, c, n.
    alpha: float | Sequence[float] = 1.2
    #: σ: share of the allowed imbalance left to untracked keys, above 0 up to 1; smaller tracks more keys.
    sigma: float = 0.1
    #: Resource functions of s, c, n: C, L, Q or M (measured) for s and c, L for n.
    resources: str = "LCL"
    #: U: A, APM, APLM, ATM or ATLM; or BTM, b·(1+m) of equation 13 over all keys.
    utility: str = "APM"

    def __post_init__(self) -> None:
        if len(self.alphas) != 3 or not all(a >= 1 and isfinite(a) for a in self.alphas):
            raise ConfigError(
                f"alpha is {self.alpha}; it must be one number of at least 1, or three of them for s, c, n"
            )
        if not 0 < self.sigma <= 1:
            raise ConfigError(f"sigma is {self.sigma}; it must be above 0 and at most 1")
        if len(self.resources) != 3 or set(self.resources[:2]) - set("CLQM") or self.resources[2] != "L":
            raise ConfigError(
                f"resources is {self.resources!r}; it must be a letter for state and one for computation, each C, L, Q or "
                f"M, and then L for communication, for example LCL"
            )
        if self.utility not in UTILITIES:
            raise ConfigError(f"utility is {self.utility!r}; it must be one of {', '.join(UTILITIES)}")

    @property
    def alphas(self) -> tuple[float, ...]:
        """α_s, α_c, α_n."""
        return tuple(self.alpha) if isinstance(self.alpha, Sequence) else (self.alpha,) * 3

    def propose(self, request: Request) -> Proposal:
        """Tracked keys where the planner places them, all others at h_new."""
        proposal = hashed(request, open_ring(request))
        tracked, notes = self.tracked(request, proposal)
        if len(tracked):
            places = self.place(self.problem(request, proposal.channel, tracked))
            proposal.channel[tracked] = np.flatnonzero(request.open)[places]
        return replace(proposal, notes=notes, memo={TRACKED: request.stats.keys[np.sort(tracked)].tolist()})

    @property
    def varying(self) -> list[int]:
        """The resources that are not constant."""
        return [k for k in range(3) if self.resources[k] != "C"]

    @property
    def counted(self) -> list[int]:
        """The resources whose balance counts."""
        return [0, 1, 2] if self.utility == "BTM" else self.varying

    def balance(self, request: Request, channel: Ints) -> Balance:
        """By the paper's measures, of all keys on open channels."""
        measured = imbalance(request, channel, self.resources, self.alphas)
        within = not any(clearly_less(1.0, measured.b_k[k]) for k in self.varying)
        m = migration(request, channel, self.resources)
        r, b_k = (_listed(name, values) for name, values in (("r", measured.r), ("b", measured.b_k)))
        told = f"{r}, {b_k}, b {_figure(measured.b)}, m {_figure(m)}, b·(1+m) {_figure(measured.objective(m))}"
        return Balance(within, measured.of(self.counted), r, told)

    @abstractmethod
    def place(self, problem: Problem) -> Ints:
        """The channel of each tracked key, as a position among the open ones."""

    def tracked(self, request: Request, by_hash: Proposal) -> tuple[Indices, tuple[str, ...]]:
        """D_p in decreasing frequency (ties: the smaller key), less what max_routes has no room for."""
        stats, channels = request.stats, int(np.count_nonzero(request.open))
        if channels == 1 or stats.tuples.sum() == 0:
            return np.empty(0, dtype=np.int64), ()
        chosen, delta = tracked_keys(stats, self.resources, self.alphas, self.sigma, channels)
        keys = np.flatnonzero(chosen)
        keys = keys[request.open[by_hash.channel[keys]]]  # not those pinned where nothing else may be: out of every sum
        keys = keys[np.argsort(-stats.tuples[keys], kind="stable")]
        ring = request.ring if by_hash.ring is None else by_hash.ring
        pinned = np.flatnonzero(~request.movable)
        pinned_routes = int(np.count_nonzero(by_hash.channel[pinned] != ring[stats.slots[pinned]]))
        room = max(request.limits.max_routes - pinned_routes, 0)
        free = np.flatnonzero(request.movable[keys])
        note = f"{len(keys):,} keys are tracked, f ≥ {delta:.3g}"
        if len(free) > room:
            note = f"of {len(keys):,} keys with f ≥ {delta:.3g} the {room:,} most frequent are tracked (max_routes)"
            keys = np.delete(keys, free[room:])
        return keys, (note,)

    def problem(self, request: Request, channel: Ints, tracked: Indices) -> Problem:
        """The tracked keys as arrays; `channel` is h_new, or where a key stays."""
        stats, current, n = request.stats, request.current, int(np.count_nonzero(request.open))
        position = np.full(max(request.channels, int(current.max()) + 1), -1, dtype=np.int32)
        position[: request.channels][request.open] = np.arange(n, dtype=np.int32)
        old = position[current[tracked]]

        leaves = channel != current
        leaves[tracked] = False
        whole = self.utility == "BTM"
        others = np.arange(len(stats)) if whole else _tracked_before(request)  # D or D_o
        others = others[~np.isin(others, tracked)]
        state = on_grid(column_of(stats, self.resources, 0, np.concatenate([tracked, others])))  # of D or D_a
        size, budget = stats.state[tracked], request.limits.max_bytes

        counted = self.counted
        if len({(self.resources[k], self.alphas[k]) for k in counted}) == 1:
            counted = [2]  # all alike: the geometric mean of equal penalties is that penalty
        # Resources with the same function have the same loads; measured state and measured cost do not.
        first = [k if self.resources[k] == "M" else self.resources.index(self.resources[k]) for k in counted]
        columns = sorted(set(first))
        capacity = request.capacity[request.open]
        weight, load = [], []
        for k in columns:
            of_keys = column_of(stats, self.resources, k, tracked)[:, None] / capacity
            of_others = resource_loads(request, channel, self.resources, k, others) / capacity if whole else np.zeros(n)
            gridded = on_grid(np.vstack([of_keys, of_others]))
            weight.append(gridded[:-1])
            load.append(gridded[-1])
        return Problem(
            frequency=stats.tuples[tracked],
            weight=np.stack(weight),
            capacity=capacity,
            column=tuple(columns.index(k) for k in first),
            allowed=tuple(self.alphas[k] if whole else theta(self.alphas[k], n) for k in counted),
            load=np.stack(load),
            old=old,
            home=position[channel[tracked]],
            fixed=~request.movable[tracked],
            state=state[: len(tracked)].copy(),
            moved=float(state[len(tracked) :][leaves[others]].sum()),
            ideal=float(state.sum()) / n,
            size=size,
            spent=float(stats.state[leaves].sum() + size[old < 0].sum()),
            budget=float("inf") if budget is None else budget,
            utility=self.utility,
        )


def _listed(name: str, values: Sequence[float]) -> str:
    """A figure of each resource."""
    return ", ".join(f"{name}_{k} {_figure(value)}" for k, value in zip("scn", values, strict=True))


def _figure(value: float) -> str:
    """To three digits, and the same ones on every processor where it lies between two of them."""
    return f"{float(rounded(np.array([value]))[0]):.3g}"


def _tracked_before(request: Request) -> Indices:
    """The keys that were tracked when the active function was made, as far as they are still known."""
    keys = request.stats.keys
    places = {key: int(np.searchsorted(keys, key)) for key in request.memo.get(TRACKED, ())}
    return np.array(sorted(k for key, k in places.items() if k < len(keys) and keys[k] == key), dtype=np.int64)


def theta(alpha: float, channels: int) -> float:
    """θ_k = (α_k - 1) / (1 + α_k/(N-1)), equation 15: how far a load may be off the mean.

    >>> round(theta(1.2, 10), 4)
    0.1765
    """
    return max((alpha - 1.0) / (1.0 + alpha / (channels - 1)), _LEAST_THETA)


def tracked_keys(
    stats: KeyStats, resources: str, alphas: Sequence[float], sigma: float, channels: int
) -> tuple[Mask, float]:
    """Whether each key is to be tracked, and δ."""
    f = stats.tuples / stats.tuples.sum()
    delta = threshold(f, resources, alphas, sigma, channels)
    tracked = f >= delta * (1.0 - TOLERANCE)
    for k, column in ((0, stats.state), (1, stats.cost)):
        if resources[k] == "M":
            heavy = sigma * theta(alphas[k], channels) * (column.sum() / channels)
            tracked |= (column > heavy * (1.0 + TOLERANCE)) & (f > 0)
    return tracked, delta


def threshold(f: Floats, resources: str, alphas: Sequence[float], sigma: float, channels: int) -> float:
    """δ: the least of the δ_k of equation 17, quadratic ones with a second look at the keys found.

    The first look assumes that all keys are equally frequent, which gives a δ far too low: it would have to track 1/20 of all keys. The
    second one takes the mean load from the keys found and assumes equality only of the rest. The mean is per channel: the paper's
    estimate lacks the division by N that its equation 16 needs.

    >>> round(threshold(np.array([0.5, 0.3, 0.2]), "LCL", (1.2, 1.2, 1.2), 0.1, 10), 6)
    0.001765
    """
    linear, quadratic = [1.0], []
    for k in range(3):
        share = sigma * theta(alphas[k], channels)
        if resources[k] == "L":
            linear.append(share / channels)
        elif resources[k] == "Q":
            quadratic.append(share)
    if not quadratic:
        return min(linear)
    first = min(min(linear), *(sqrt(share / (len(f) * channels)) for share in quadratic))
    found = f[f >= first * (1.0 - TOLERANCE)]
    rest = len(f) - len(found)
    load = total(found * found)
    if rest:
        load += rest * (max(1.0 - total(found), 0.0) / rest) ** 2
    return min(min(linear), *(sqrt(share * (load / channels)) for share in quadratic))
