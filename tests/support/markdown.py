"""The pages of the documentation, taken apart: sentences, code blocks, commands, links, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
#: Every page that follows the rules of `tests/unit/test_docs.py`.
PAGES = sorted([*PROJECT.glob("[A-Z]*.md"), *(PROJECT / "docs").rglob("*.md"), *PROJECT.glob("d*/README.md")])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^ {0,3}(?:[-*]|\d+\.) +")
_CODE = re.compile(r"`[^`]+`")
#: Full stops that end no sentence.
_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|et al|vs|cf|etc)\.")
_SENTENCE_END = r"[.!?][)\"*_]*"


def blocks(page: str, language: str) -> list[str]:
    """The fenced code blocks of a language."""
    return [text for found, text in _FENCE.findall(page) if found == language]


def paragraphs(page: str) -> Iterator[list[str]]:
    """Runs of prose lines: no tables, no code, no headings; every list item is a run of its own, without its mark."""
    run: list[str] = []
    for line in [*_FENCE.sub("", page).splitlines(), ""]:
        is_item = bool(_ITEM.match(line))
        if (not line.strip() or is_item or line.startswith(("|", "#", "    ", "!["))) and run:
            yield run
            run = []
        if line.strip() and not line.startswith(("|", "#", "    ", "![")):
            run.append(_ITEM.sub("", line).strip())


def broken_prose(page: str) -> list[str]:
    """The lines that hold more than one sentence, or only a part of one."""
    wrong = []
    for run in paragraphs(page):
        for number, line in enumerate(run):
            plain = _ABBREVIATIONS.sub("abbreviation", _CODE.sub("code", line))
            two = re.search(_SENTENCE_END + r"\s+\S", plain)
            part = number + 1 < len(run) and not re.search(rf"(?:{_SENTENCE_END}|:)$", plain)
            if two or part:
                wrong.append(line)
    return wrong


def links(page: str) -> list[str]:
    """Targets of links and pictures that lie in this project."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", page) if "://" not in target]


def anchors(page: str) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def tables(page: str) -> list[list[list[str]]]:
    """The tables: lists of rows, lists of cells; the head row first, the rule below it left out."""
    found = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    return [[_cells(row) for row in table.splitlines() if not row.startswith("|---")] for table in found]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def code_words(page: str) -> list[str]:
    """Everything set as code: inline, and line by line in blocks, without comments."""
    lines = [line.partition(" #")[0].strip() for _, text in _FENCE.findall(page) for line in text.splitlines()]
    return [*(found.strip("`") for found in _CODE.findall(_FENCE.sub("", page))), *filter(None, lines)]


def documented_columns() -> dict[str, list[str]]:
    """The columns of every table as docs/tables.md lists them; what an operator adds is one entry in words."""
    page = (PROJECT / "docs" / "tables.md").read_text()
    names = re.findall(r"^## `(\w+)`$", page, re.MULTILINE)
    return {
        name: [column for columns, *_ in rows for column in re.findall(r"`(\w+)`", columns) or [columns]]
        for name, (_, *rows) in zip(names, tables(page), strict=True)
    }
