"""A plan for a table of keys, and what a person looks at of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from rebalance.errors import ConfigError
from rebalance.notebook import shown
from rebalance.notebook.table import MOST_CHANNELS, Columns, Keys, read_keys
from rebalance.partition import PartitionFunction, consistent_ring, slots_of
from rebalance.pipeline.sections import Channels, Planning
from rebalance.planners.registry import make_planner
from rebalance.planning.decide import decide
from rebalance.planning.interface import Planner, first_function, needs_merging, ring_to_build_on
from rebalance.planning.model import Decision, KeyStats, Limits, Plan, Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class TablePlan:
    """What to do with a table's keys, and what it brings. Everything describes `function`, so where nothing is to be done nothing changes."""

    #: apply: the function is better, and moves what `moved` says. keep: nothing better was needed or found. reject: what was found breaks a limit.
    decision: str
    reason: str
    planner: str
    #: Where each key goes from now on; `rebalance.route` places a DataFrame by it, `function.save` keeps it.
    function: PartitionFunction
    #: Load of the fullest channel over its fair load, now and with the function: max/mean if all capacities are equal. 1 is perfectly even.
    before: float
    after: float
    #: Σ cost of each channel's keys, now and with the function, and what would be fair.
    loads_before: Sequence[float]
    loads: Sequence[float]
    fair: Sequence[float]
    #: The keys that change their channel: key, from, to, cost, state.
    moved: pa.Table
    #: What a person should know of how it was found.
    notes: Sequence[str]

    def __repr__(self) -> str:
        return f"{self.decision} by {self.planner}: {self.reason}"

    def _repr_html_(self) -> str:
        return shown.plan_html(self)

    def plot(self) -> Figure:
        """Each channel's load now and with the function, as a figure of matplotlib."""
        return shown.plot(self)


def plan_table(
    table: object,
    *,
    channels: int,
    now: str | PartitionFunction | None = None,
    planner: str = "frugal",
    theta_max: float = 0.08,
    max_routes: int = 3000,
    max_bytes: int | None = None,
    capacities: Sequence[float] = (),
    mergeable: bool = False,
    parameters: Mapping[str, Any] | None = None,
    key: str = "key",
    cost: str = "cost",
    state: str | None = None,
) -> TablePlan:
    """See `rebalance.plan`."""
    asked = make_planner(planner, parameters)
    limits = _limits(channels, theta_max, max_routes, max_bytes, capacities)
    if needs_merging(asked) and not mergeable:
        raise ConfigError(
            f"planner {planner!r} splits keys, which only helps where a key's partial results can be merged. "
            "If they can, say mergeable=True; if not, use another planner, for example 'frugal'."
        )
    column = now if isinstance(now, str) else None
    keys = read_keys(table, Columns(key, cost, state, column))
    plain = first_function(asked, PartitionFunction(0, channels, consistent_ring(channels), keys.key_type), ())
    active = _active(now, keys, plain)
    keys = _with_quiet_routes(keys, active)
    request = _request(keys, active, asked, limits, np.asarray(capacities or (1.0,) * channels), mergeable)
    return _described(decide(asked, request, active), request)


def _limits(
    channels: int, theta_max: float, max_routes: int, max_bytes: int | None, capacities: Sequence[float]
) -> Limits:
    """The knobs, refused as a pipeline file's are."""
    if isinstance(channels, bool) or not isinstance(channels, int) or not 1 <= channels <= MOST_CHANNELS:
        raise ConfigError(f"channels = {channels!r}: it must be a whole number from 1 to {MOST_CHANNELS}.")
    try:
        Planning(theta_max=theta_max, max_routes=max_routes, max_bytes=max_bytes)
        Channels(count=channels, capacities=tuple(capacities))
    except ValidationError as error:
        wrong = "; ".join(
            ".".join(map(str, e["loc"])) + f" = {e['input']!r}: {e['msg']}" if e["loc"] else e["msg"]
            for e in error.errors()
        )
        raise ConfigError(f"{wrong}.".replace("Value error, ", "").replace("..", ".")) from None
    return Limits(theta_max, max_routes, max_bytes)


def _active(now: str | PartitionFunction | None, keys: Keys, plain: PartitionFunction) -> PartitionFunction:
    """The function that is in force now: as given, else as the keys lie, else the hash alone."""
    if isinstance(now, PartitionFunction):
        if now.key_type != keys.key_type:
            raise ConfigError(
                f"the function is for keys of type {now.key_type} and the table's keys are of type {keys.key_type}. Cast the table's."
            )
        return now
    if keys.channel is None:
        return plain
    strays = np.flatnonzero(keys.channel != plain.channel_of(keys.keys.tolist()))
    routes = dict(zip(keys.keys[strays].tolist(), keys.channel[strays].tolist(), strict=True))
    return PartitionFunction(
        0, max(plain.channels, int(keys.channel.max()) + 1), plain.slots, keys.key_type, routes, memo=plain.memo
    )


def _with_quiet_routes(keys: Keys, active: PartitionFunction) -> Keys:
    """Add the keys that the function routes and the table does not have: they fill its table, and must not go astray."""
    known = set(keys.keys.tolist())
    quiet = [key for key in active.routes if key not in known]
    if not quiet:
        return keys
    every = np.concatenate([keys.keys, np.asarray(quiet, dtype=keys.keys.dtype)])
    order, zeros = np.argsort(every, kind="stable"), np.zeros(len(quiet))
    return Keys(
        keys.key_type,
        every[order],
        np.concatenate([keys.cost, zeros])[order],
        np.concatenate([keys.state, zeros])[order],
        None,
    )


def _request(
    keys: Keys, active: PartitionFunction, planner: Planner, limits: Limits, capacity: Any, mergeable: bool
) -> Request:
    channels = len(capacity)
    return Request(
        # How many rows a key has is not known; what it costs stands for it.
        stats=KeyStats(keys.keys, slots_of(keys.keys.tolist(), keys.key_type), keys.cost, keys.cost, keys.state),
        current=active.channel_of(keys.keys.tolist()),
        ring=ring_to_build_on(planner, active, consistent_ring(channels), channels, ()),
        capacity=capacity.astype(np.float64),
        limits=limits,
        mergeable=mergeable,
    )


def _described(plan: Plan, request: Request) -> TablePlan:
    """The plan as a person gets it."""
    applied = plan.decision is Decision.APPLY
    after, moved = (plan.after, plan.moved) if applied else (plan.before, plan.moved[:0])
    stats = request.stats
    table = pa.table(
        {
            "key": pa.array(
                stats.keys[moved].tolist(), pa.int64() if plan.function.key_type == "long" else pa.string()
            ),
            "from": plan.moved_from[: len(moved)],
            "to": plan.moved_to[: len(moved)],
            "cost": stats.cost[moved],
            "state": stats.state[moved],
        }
    )
    return TablePlan(
        decision=str(plan.decision),
        reason=plan.reason,
        planner=plan.planner,
        function=plan.function,
        before=plan.before.skewness,
        after=after.skewness,
        loads_before=plan.before.loads.tolist(),
        loads=after.loads.tolist(),
        fair=after.fair.tolist(),
        moved=table.sort_by([("cost", "descending"), ("key", "ascending")]),
        notes=plan.notes,
    )
