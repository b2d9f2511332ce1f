"""HTML and SVG in which everything is escaped that is not known to be HTML: keys, names and messages are foreign text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Text that is HTML already."""


def element(name: str, *inside: object, **attributes: object) -> Html:
    """An element; an underscore in an attribute's name stands for a hyphen, one at its end for nothing.

    >>> element("td", "<script>", Html("<br>"), class_="a", font_size=3)
    '<td class="a" font-size="3">&lt;script&gt;<br></td>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{written}>{together(inside)}</{name}>")


def together(parts: Iterable[object]) -> Html:
    """Parts one after the other."""
    return Html("".join(part if isinstance(part, Html) else escape(str(part)) for part in parts))


def table(head: Sequence[object], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> Html:
    """A table; the columns at `numbers` are set to the right."""

    def row(cell: str, cells: Sequence[object]) -> Html:
        return element("tr", *(element(cell, text, **_side(at, numbers)) for at, text in enumerate(cells)))

    body = element("tbody", *(row("td", cells) for cells in rows))
    return element("div", element("table", element("thead", row("th", head)), body), class_="wide")


def _side(at: int, numbers: Sequence[int]) -> dict[str, str]:
    return {"class_": "number"} if at in numbers else {}
