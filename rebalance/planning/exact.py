"""Sums and choices that come out the same on every processor.

Processors add long arrays in different orders, have logarithms and roots that differ in the last bit, and sort equal numbers
differently. No decision may hang on that. Four rules, for planners and for the plain transcriptions that tests hold them to:

1. *Inputs are on a grid* (`on_grid`): multiples of a power of two so large that every sum of them is exact, in any order.
2. *Other sums go from left to right* (`total`), never by numpy's own `sum`.
3. *Choices have a tolerance and a tie rule*: numbers closer than `TOLERANCE`, relative to the larger one, are equal, and of equal
   ones the first counts (`first_least`, `first_greatest`; in loops `clearly_less`). Sorts are stable, and what they sort by is an input
   or `rounded`.
4. *Powers* are products and square roots (`power`): those are the same everywhere.

A tie differs by some 1e-16 and a difference that matters by far more than 1e-9, so the tolerance lies where nothing happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, inf

import numpy as np
from numpy.typing import NDArray

#: Numbers closer than this, relative to the larger one, are equal.
TOLERANCE = 1e-9
#: Bits of a sum of values on a grid. A double has 53: two are left for differences, and one for what rounding up adds.
_BITS = 50


def on_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values (not negative, along any axes) as multiples of one power of two, such that every sum of them is exact.

    Whole numbers stay as they are while their sum is below 2^50. What is not zero does not become zero.

    >>> on_grid(np.array([3.0, 4.25])).tolist(), on_grid(np.array([2.0**51, 1.0])).tolist()
    ([3.0, 4.25], [2251799813685248.0, 4.0])
    """
    unit = 2.0 ** max(frexp(total(values))[1] - _BITS, -1000)
    rounded = values * (1.0 / unit)
    np.rint(rounded, out=rounded)
    rounded *= unit
    rounded[(rounded == 0.0) & (values > 0.0)] = unit
    return rounded


def total(values: NDArray[np.float64]) -> float:
    """The sum from left to right.

    >>> total(np.array([0.1, 0.2, 0.3]))
    0.6000000000000001
    """
    return float(np.cumsum(values)[-1]) if values.size else 0.0


def clearly_less(a: float, b: float) -> bool:
    """Whether a is less than b by more than the tolerance.

    >>> clearly_less(0.3, 0.1 + 0.2), clearly_less(0.3, 0.4), clearly_less(1.0, np.inf)
    (False, True, True)
    """
    apart = b - a
    return apart > TOLERANCE * max(abs(a), abs(b)) or apart == inf


def first_least(values: Sequence[float] | NDArray[np.float64]) -> int:
    """Where the least value is; of equal ones, the first.

    >>> first_least([0.5, 0.1 + 0.2, 0.3]), first_least([inf, 2.0]), first_least([1.0, -inf])
    (1, 1, 1)
    """
    array = np.asarray(values, dtype=np.float64)
    least = float(array.min())
    equal_up_to = least / (1.0 - TOLERANCE) if least > 0.0 else least * (1.0 - TOLERANCE)
    return int(np.argmax(array <= equal_up_to))


def first_greatest(values: Sequence[float] | NDArray[np.float64]) -> int:
    """Where the greatest value is; of equal ones, the first.

    >>> first_greatest([0.3, 0.1 + 0.2, 0.1])
    0
    """
    return first_least(-np.asarray(values, dtype=np.float64))


def power(values: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """The values (not negative) to a positive power, to 30 binary places of it.

    >>> power(np.array([4.0, 9.0]), 1.5), power(np.array([32.0]), 2.25) == power(np.array([2.0]), 11.25)
    (array([ 8., 27.]), array([ True]))
    """
    whole, places = divmod(round(exponent * 2**30), 2**30)
    result, factor = np.ones_like(values), values
    while whole:
        result = result * factor if whole & 1 else result
        whole >>= 1
        factor = factor * factor if whole else values
    while places:
        factor, places = np.sqrt(factor), 2 * places
        if places >= 2**30:
            result, places = result * factor, places - 2**30
    return result


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values (not negative) to 30 significant bits, about the tolerance, so that equal ones sort as equal.

    >>> float(rounded(np.array([0.1 + 0.2]))[0]) == float(rounded(np.array([0.3]))[0])
    True
    """
    bits = values.view(np.int64)
    return ((bits + (1 << 22)) >> 23 << 23).view(np.float64)
