"""The registry of grouping schemes, in the order in which tables show them."""

from __future__ import annotations

from rebalance.errors import ConfigError
from rebalance.simulate.consistent_grouping import ConsistentGrouping
from rebalance.simulate.grouping import (
    AllChoices,
    BoundedRing,
    Grouping,
    HeadChoices,
    KeyGrouping,
    PartialKeyGrouping,
    RandomChoices,
    ShuffleGrouping,
    TwoChoices,
)

SCHEMES: tuple[type[Grouping], ...] = (
    KeyGrouping,
    PartialKeyGrouping,
    HeadChoices,
    AllChoices,
    RandomChoices,
    ConsistentGrouping,
    BoundedRing,
    TwoChoices,
    ShuffleGrouping,
)


def make_scheme(name: str, **parameters: float) -> Grouping:
    """A scheme by its name, upper or lower case.

    >>> make_scheme("cg", alpha=100)
    ConsistentGrouping(alpha=100, epsilon=0.01, busy=0.85, idle=0.75, settle=True, piggyback=False)
    """
    for scheme in SCHEMES:
        if scheme.name.lower() == name.lower():
            try:
                return scheme(**parameters)
            except TypeError as error:
                raise ConfigError(f"{scheme.name} cannot take {parameters}: {error}") from error
    raise ConfigError(f"there is no scheme {name!r}; there are {', '.join(scheme.name for scheme in SCHEMES)}")
