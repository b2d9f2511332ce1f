"""HOW a better function is found: one published algorithm per file, one small interface, a registry one can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from rebalance.errors import ConfigError
from rebalance.planners.base import Planner
from rebalance.planners.cg import CG
from rebalance.planners.ch import CH
from rebalance.planners.consistent import Consistent
from rebalance.planners.dchoices import DChoices
from rebalance.planners.doubling import Doubling
from rebalance.planners.frugal import Frugal
from rebalance.planners.halving import Halving
from rebalance.planners.hybrid import Hybrid
from rebalance.planners.keep import Keep
from rebalance.planners.llfd import LLFD
from rebalance.planners.minmig import MinMig
from rebalance.planners.mintable import MinTable
from rebalance.planners.mixed import Mixed
from rebalance.planners.mixedbf import MixedBF
from rebalance.planners.pkg import PKG
from rebalance.planners.porc import PoRC
from rebalance.planners.potc import PoTC
from rebalance.planners.readj import Readj
from rebalance.planners.redist import Redist
from rebalance.planners.scan import Scan
from rebalance.planners.sg import SG
from rebalance.planners.ststream import StStream
from rebalance.planners.uniform import Uniform
from rebalance.planners.wchoices import WChoices

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
