"""What the pages that `reference.py` writes are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable

MADE = "<!-- Made by tools/reference.py: change the code, then run make docs -->\n"


def cell(text: str) -> str:
    """A text as a cell of a table: bars and tags stand as they are."""
    plain = "".join(
        part if number % 2 else part.replace("\\", "\\\\").replace("<", "&lt;")
        for number, part in enumerate(re.split(r"(`[^`]*`)", text))
    )
    return " ".join(plain.replace("|", "\\|").split())


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    rule = "|" + "---|" * len(head)
    lines = [f"| {' | '.join(line)} |" for line in (head, *([cell(text) for text in row] for row in rows))]
    return "\n".join([lines[0], rule, *lines[1:], ""])


def sentences(text: str) -> str:
    """A text with every sentence on a line of its own."""
    return re.sub(r"(?<=[.]) (?=[A-Zψ])", "\n", text)
