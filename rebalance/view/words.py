"""Tables as a person reads them."""

from __future__ import annotations

from rich import box
from rich.table import Table


def new_table(*columns: str, title: str | None = None, numbers: slice | None = None) -> Table:
    """A table for the terminal; what does not fit a column is folded, never cut. `numbers` are the columns that have some."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    for column in table.columns[numbers or slice(0)]:
        column.justify = "right"
    return table
