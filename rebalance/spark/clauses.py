"""Spark's steps in the words of whoever wrote the query: which clause makes Spark exchange rows, and what to change in it."""

from __future__ import annotations

import re

_ADD = "channel"
_FIRST_ROWS = "use row_number() OVER (PARTITION BY key, channel …) for the first rows of each key"


def clause_of(exchange: str) -> tuple[str, str]:
    """The clause for which Spark makes an exchange, as `rebalance.spark.placement.exchanges` tells it; and what to change.

    >>> clause_of("Exchange hashpartitioning(key#7, 4) for HashAggregate(keys=[key#7], functions=[sum(price#3)])")
    ('GROUP BY key', 'add channel')
    >>> clause_of("Exchange hashpartitioning(key#7, 4) for SortAggregate(key=[key#7], functions=[max_by(price#3, time#2)])")
    ('GROUP BY key', 'add channel')
    >>> clause_of("Exchange SinglePartition for HashAggregate(keys=[], functions=[count(1)])")
    ('an aggregate without GROUP BY', 'add GROUP BY key, channel')
    """
    placed, _, step = exchange.partition(" for ")
    for pattern, words in _CLAUSES:
        found = re.match(pattern, step, re.S)
        if found:
            return words(found)
    ordered = re.match(r"Exchange rangepartitioning\((.*?), \d+\)", placed)
    if ordered:
        return f"ORDER BY {_names(ordered[1])} over all rows", "leave it out, tables have no order"
    if placed.startswith("CollectLimit"):
        return "LIMIT over all rows", _FIRST_ROWS
    if placed.startswith("TakeOrderedAndProject"):
        return "ORDER BY … LIMIT over all rows", _FIRST_ROWS
    return step.split("(")[0].split(" ")[0] or "a step", "it needs rows of other channels"


def _aggregate(found: re.Match[str]) -> tuple[str, str]:
    keys = _names(found[1])
    if not keys:
        return "an aggregate without GROUP BY", "add GROUP BY key, channel"
    return f"{'GROUP BY' if found[2].strip() else 'DISTINCT or GROUP BY'} {keys}", _missing(keys)


def _window(found: re.Match[str]) -> tuple[str, str]:
    keys = _names(found[1])
    if not keys:
        return "OVER () without PARTITION BY", "add PARTITION BY key, channel"
    return f"PARTITION BY {keys}", _missing(keys)


def _join(found: re.Match[str]) -> tuple[str, str]:
    keys = _names(found[1])
    return f"JOIN ON {keys}", f"{_missing(keys)}, on both sides"


def _grouped(found: re.Match[str]) -> tuple[str, str]:
    keys = _names(found[1])
    return f"groupBy {keys}", _missing(keys)


def _limit(_: re.Match[str]) -> tuple[str, str]:
    return "LIMIT over all rows", _FIRST_ROWS


def _missing(keys: str) -> str:
    """What a list of columns needs to keep the placement."""
    return "its columns are not those of the placed rows" if _ADD in keys.split(", ") else f"add {_ADD}"


def _names(expressions: str | None) -> str:
    """Columns as they were written: without Spark's numbers and sort orders."""
    return re.sub(r"#\d+L?|\s+(ASC|DESC)( NULLS (FIRST|LAST))?", "", expressions or "").strip()


_CLAUSES = (
    (r"(?:Hash|ObjectHash|Sort)Aggregate\(keys?=\[(.*?)\], functions=\[(.*?)\]", _aggregate),
    # The lists at the end of a window are what it is partitioned by, and, if it has one, its order.
    (r"(?:Window|WindowInPandas|ArrowWindowPython) \[.*?\](?:, \[([^\[\]]*)\])?(?:, \[[^\[\]]*\])?$", _window),
    (r"(?:SortMergeJoin|ShuffledHashJoin)(?:\(.*?\))? \[(.*?)\], ", _join),
    (r"(?:FlatMapGroupsInPandas|FlatMapGroupsInArrow) \[(.*?)\]", _grouped),
    (r"(?:Global)?Limit", _limit),
)
