"""HOW a better function is found: one published algorithm per file, one small interface, a registry one can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from rebalance.errors import ConfigError
from rebalance.planners.baselines.consistent import Consistent
from rebalance.planners.baselines.keep import Keep
from rebalance.planners.baselines.uniform import Uniform
from rebalance.planners.fang.llfd import LLFD
from rebalance.planners.fang.minmig import MinMig
from rebalance.planners.fang.mintable import MinTable
from rebalance.planners.fang.mixed import Mixed
from rebalance.planners.fang.mixedbf import MixedBF
from rebalance.planners.frugal.frugal import Frugal
from rebalance.planners.gedik.readj import Readj
from rebalance.planners.gedik.redist import Redist
from rebalance.planners.gedik.scan import Scan
from rebalance.planners.splitting.cg import CG
from rebalance.planners.splitting.ch import CH
from rebalance.planners.splitting.dchoices import DChoices
from rebalance.planners.splitting.hybrid import Hybrid
from rebalance.planners.splitting.pkg import PKG
from rebalance.planners.splitting.porc import PoRC
from rebalance.planners.splitting.potc import PoTC
from rebalance.planners.splitting.sg import SG
from rebalance.planners.splitting.wchoices import WChoices
from rebalance.planners.ststream.ststream import StStream
from rebalance.planners.tokens.doubling import Doubling
from rebalance.planners.tokens.halving import Halving
from rebalance.planning.interface import Planner

#: Every planner by its name in a pipeline file.
PLANNERS: dict[str, type[Any]] = {
    planner.name: planner
    for planner in (
        Keep,
        Frugal,
        LLFD,
        MinTable,
        MinMig,
        Mixed,
        MixedBF,
        Scan,
        Redist,
        Readj,
        Uniform,
        Consistent,
        Halving,
        Doubling,
        StStream,
        Hybrid,
        PKG,
        DChoices,
        WChoices,
        PoRC,
        CG,
        CH,
        PoTC,
        SG,
    )
}


def make_planner(name: str, parameters: Mapping[str, Any] | None = None) -> Planner:
    """The planner of that name with these parameters; unknown names are refused with the nearest known one.

    >>> make_planner("keep")
    Keep()
    """
    if name not in PLANNERS:
        raise ConfigError(f"there is no planner {name!r}. {_nearest(name, PLANNERS)}")
    planner = PLANNERS[name]
    known = {f.name: f for f in fields(planner)}
    for parameter in parameters or {}:
        if parameter not in known:
            raise ConfigError(f"planner {name!r} has no parameter {parameter!r}. {_nearest(parameter, known)}")
    try:
        return planner(**(parameters or {}))  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"planner {name!r} cannot take {dict(parameters or {})}: {error}") from error


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    if not known:
        return "It has no parameters."
    close = get_close_matches(name, known, n=1)
    meant = f"Did you mean {close[0]!r}? " if close else ""
    return f"{meant}Known: {', '.join(sorted(known))}."
