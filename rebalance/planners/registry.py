"""HOW a better function is found: one published algorithm per file, one small interface, a registry one can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

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
    planner, given = PLANNERS[name], dict(parameters or {})
    types = get_type_hints(planner)
    known = {f.name: types[f.name] for f in fields(planner)}
    for parameter in given:
        if parameter not in known:
            raise ConfigError(f"planner {name!r} has no parameter {parameter!r}. {_nearest(parameter, known)}")
    try:
        for parameter, value in given.items():
            _check_kind(parameter, value, known[parameter])
        return planner(**given)  # type: ignore[no-any-return]
    except ConfigError as error:
        raise ConfigError(f"planner {name!r}: {error}") from None


def _check_kind(parameter: str, value: object, kind: Any) -> None:
    """Refuse a value that is not of the parameter's type, so that planners check only what it may be."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if not any(_KINDS[kind].fits(value) for kind in kinds):
        may_be = " or ".join(_KINDS[kind].words for kind in kinds)
        raise ConfigError(f"{parameter} is {value!r}; it must be {may_be}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


class _Kind(NamedTuple):
    words: str
    fits: Callable[[object], bool]


#: The types that parameters have.
_KINDS: dict[Any, _Kind] = {
    float: _Kind("a number", _is_number),
    int: _Kind("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    bool: _Kind("true or false", lambda value: isinstance(value, bool)),
    str: _Kind("a text", lambda value: isinstance(value, str)),
    NoneType: _Kind("left out", lambda value: value is None),
    Sequence[float]: _Kind(
        "a list of numbers", lambda value: isinstance(value, list | tuple) and all(map(_is_number, value))
    ),
}


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    if not known:
        return "It has no parameters."
    close = get_close_matches(name, known, n=1)
    meant = f"Did you mean {close[0]!r}? " if close else ""
    return f"{meant}Known: {', '.join(sorted(known))}."
