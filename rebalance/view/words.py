"""Numbers and tables as a person reads them."""

from __future__ import annotations

from rich import box
from rich.table import Table


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


def new_table(*columns: str, title: str | None = None) -> Table:
    """A table for the terminal; what does not fit a column is folded, never cut."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
