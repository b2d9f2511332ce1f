"""How much a plan may look at: numbers, never a clock, so that the same request always has the same plan. Read `frugal` first."""

from __future__ import annotations

from dataclasses import dataclass

#: Moves that exchanges look at for one plan, in all: about a fifth of a second.
_LOOKS = 1_000_000
#: Moves that one round of exchanges looks at, and a thorough one.
_ROUND = 100_000
_THOROUGH = 400_000
#: Beyond this many channels they grow with these, up to so much: there is more that may be wrong, but looking longer brought no fewer moves.
_CHANNELS, _LARGER = 10, 6.0
#: Columns of the mixed-integer program, counted each time that its solver asks whether to go on: about a fifth of a second.
_COLUMNS = 25_000
#: Columns of the program, so few that what its solver does between two questions takes tens of milliseconds.
_VARIABLES = 500
#: How hard to try: within half a second where keys times channels are at most 4,000, or to the end.
EFFORTS = ("bounded", "exact")
#: What "exact" may take more of each.
_MORE = 400


@dataclass(eq=False)
class Work:
    """What is left of what one plan may take."""

    looks: int
    #: Looks of one round, and of a thorough one.
    round: int
    thorough: int
    #: Columns that the solver of the program may still look at.
    columns: int
    #: Columns of the program: with fewer than there are, only some keys may change their place.
    variables: int

    def take(self, looked: int) -> None:
        """So many moves were looked at."""
        self.looks -= looked


def work(effort: str, channels: int = 0) -> Work:
    """What this effort allows for so many channels."""
    more = _MORE if effort == "exact" else 1
    scale = min(max(channels / _CHANNELS, 1.0), _LARGER)
    looks, one, thorough = (int(n * scale) for n in (_LOOKS * more, _ROUND * min(more, 4), _THOROUGH * min(more, 8)))
    return Work(looks, one, thorough, _COLUMNS * more, _VARIABLES * more)
