"""Numbers as a person reads them, and the sentences about plans that several documents have."""

from __future__ import annotations

from rebalance.planning.exact import clearly_less


def bytes_in_words(size: float) -> str:
    """A number of bytes with the unit that suits it.

    >>> bytes_in_words(358_410)
    '358.4 kB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def percent(share: float) -> str:
    """A share as a person reads it.

    >>> percent(0.0833)
    '8.3 %'
    """
    return f"{100 * share:.1f} %"


def fixed(value: float | None) -> str:
    """A number with two decimals; nothing if there is none.

    >>> fixed(1.238), fixed(None)
    ('1.24', '')
    """
    return "" if value is None else f"{value:.2f}"


def several(count: int, what: str) -> str:
    """A number of things.

    >>> several(1, "key"), several(1200, "key")
    ('1 key', '1,200 keys')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def certificate(
    *,
    theta_max: float,
    theta_after: float,
    moved_bytes: float,
    bound_bytes: float | None,
    bound_theta: float | None,
) -> str | None:
    """What is certified of a plan, in words: how little any plan as good would move, and how near any could come; None if nothing is.

    >>> certificate(theta_max=0.08, theta_after=0.07, moved_bytes=1300.0, bound_bytes=1200.0, bound_theta=0.01)
    'No plan that balances as well moves less than 1.2 kB; this one moves 1.3 kB, 8.3 % above that.'
    >>> certificate(theta_max=0.08, theta_after=0.5, moved_bytes=9.0, bound_bytes=0.0, bound_theta=0.4)
    'No assignment of whole keys has a largest θ below 40.0 %, so θ_max = 8.0 % cannot be reached.'
    """
    least, lowest, said = bound_bytes or 0.0, bound_theta or 0.0, []
    if clearly_less(theta_max, lowest):
        said.append(
            f"No assignment of whole keys has a largest θ below {percent(lowest)}, so θ_max = {percent(theta_max)} cannot be reached."
        )
    # A plan that comes less near than the bound asks does not compare with it.
    if least > 0 and moved_bytes > 0 and not clearly_less(max(theta_max, lowest), theta_after):
        above = moved_bytes / least - 1
        said.append(
            f"No plan that balances as well moves less than {bytes_in_words(least)}; this one moves "
            f"{f'{bytes_in_words(moved_bytes)}, {percent(above)} above that' if above >= 0.0005 else 'no more than that'}."
        )
    return " ".join(said) or None
