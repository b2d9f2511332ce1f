"""How far off a figure of a plan may be, in words."""

from __future__ import annotations


def give_or_take(error: float | None) -> str:
    """How far off a figure may be, to be put behind it.

    >>> f"1.07{give_or_take(0.0213)}", f"1.07{give_or_take(None)}"
    ('1.07 ± 0.021', '1.07')
    """
    return "" if error is None else f" ± {error:.2g}"
