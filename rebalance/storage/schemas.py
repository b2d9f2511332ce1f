"""The tables and their columns, whoever writes them: Spark or delta-rs.

Each table and each column says what it is, with its unit or that it has none. These words go into the tables themselves, as Delta's comments,
and into docs/tables.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rebalance.partition import KeyType

_TEXT, _LONG, _INT, _DOUBLE, _TIME = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.timestamp("us", tz="UTC")
_ROUTES = pa.list_(pa.struct([("key", _TEXT), ("channel", _INT)]))
_SHARES = pa.list_(pa.struct([("key", _TEXT), ("channel", _INT), ("share", _DOUBLE)]))
#: Stands for the type of the pipeline's keys, text or integers, which the source decides.
_KEY = pa.null()
#: Where Delta, Spark and Arrow keep a column's comment.
_COMMENT = "comment"
#: What is said of a column of the operator that says nothing of itself.
OWN_COLUMN = "the operator's own column; its meaning and its unit are the operator's"


def _table(about: str, columns: Sequence[tuple[str, pa.DataType, str]]) -> pa.Schema:
    """A table's columns with what each of them is; `about` says what a row is."""
    fields = [pa.field(name, kind, metadata={_COMMENT: comment}) for name, kind, comment in columns]
    return pa.schema(fields, metadata={_COMMENT: about})


#: What is counted of a key, and added up for several.
_SUMS = (
    ("tuples", _LONG, "rows in the interval"),
    ("state_bytes", _LONG, "bytes of these rows, estimated from their values"),
    ("held_rows", _LONG, "rows that the state table held when the interval was counted"),
    ("held_bytes", _LONG, "bytes of these rows, estimated from their values"),
    ("added_rows", _LONG, "how many of the rows held were added by the newest interval in the state"),
    ("added_bytes", _LONG, "bytes of these rows, estimated from their values"),
)

#: In the order in which an interval fills them.
SCHEMAS: dict[str, pa.Schema] = {
    "interval_stats": _table(
        "One row per counted interval. Without it, the interval's rows in key_stats and channel_stats mean nothing.",
        [
            ("interval_id", _TEXT, "the interval, named after its start in UTC"),
            ("rows", _LONG, "rows that the operator makes of its events"),
            ("keys", _LONG, "keys with tuples or state; where frequent, about so many keys with tuples"),
            ("function_version", _LONG, "version of the function active then, whose channels are in key_stats"),
            ("state_newest", _TEXT, "the newest interval that had been processed then; empty if there was none"),
            ("window", _LONG, "the operator's window, in intervals; 0 for a function per key, whose state has none"),
            ("seconds", _DOUBLE, "seconds the counting took"),
            ("statistics", _TEXT, "how it was counted: exact, frequent or compact, as planning.statistics said then"),
            (
                "unnamed_tuples",
                _LONG,
                "only where frequent: no key that key_stats does not name has more rows in the interval",
            ),
            ("unnamed_held", _LONG, "only where frequent: of none of these keys the state table held more rows"),
            (
                "unnamed_added",
                _LONG,
                "only where frequent: of none of these keys the newest interval had added more rows",
            ),
            ("unnamed_cost", _DOUBLE, "only where frequent: none of these keys costs more; no unit"),
        ],
    ),
    "key_stats": _table(
        "One row per interval and key with tuples or state; where planning.statistics is 'compact' or 'frequent', only the keys that a plan could move.",
        [
            ("interval_id", _TEXT, "the interval"),
            ("key", _KEY, "a key with tuples or state; if it is split, it stands here at its first channel"),
            ("slot", _INT, "number of its slot on the ring"),
            ("channel", _INT, "its channel under the function that was active when the interval was counted"),
            ("hash_channel", _INT, "its channel by the ring alone"),
            ("tuples", _LONG, "its rows in the interval"),
            ("cost", _DOUBLE, "what they will cost, by the operator's cost; no unit, only ratios between keys matter"),
            ("state_bytes", _LONG, "bytes of these rows, estimated from their values"),
            ("held_rows", _LONG, "rows that the state table held of the key when the interval was counted"),
            ("held_bytes", _LONG, "bytes of these rows, estimated from their values"),
            ("added_rows", _LONG, "how many of the rows held were added by the newest interval in the state"),
            ("added_bytes", _LONG, "bytes of these rows, estimated from their values"),
            (
                "rate",
                _DOUBLE,
                "processor seconds a row of the key took when a function per key was last measured on it; 0 if never",
            ),
        ],
    ),
    "key_sums": _table(
        "One row per interval and key with tuples or state, only where planning.statistics is 'compact': what key_stats has of some keys, of all.",
        [
            ("interval_id", _TEXT, "the interval"),
            ("key", _KEY, "a key with tuples or state"),
            *_SUMS,
        ],
    ),
    "slot_stats": _table(
        "One row per interval and slot of the ring, only where planning.statistics is 'compact' or 'frequent': the keys of the slot that key_stats does not name.",
        [
            ("interval_id", _TEXT, "the interval"),
            ("slot", _INT, "number of the slot on the ring"),
            ("keys", _LONG, "how many such keys have tuples or state; where frequent, about so many have tuples"),
            ("cost", _DOUBLE, "what they will cost, by the operator's cost; no unit"),
            *_SUMS,
        ],
    ),
    "channel_stats": _table(
        "One row per interval and channel, under the function that was active when the interval was counted; what it was processed with is in batches.",
        [
            ("interval_id", _TEXT, "the interval"),
            ("channel", _INT, "the channel, counted from 0"),
            ("keys", _LONG, "keys with tuples or state here; a split key counts on each of its channels"),
            ("tuples", _DOUBLE, "rows that would go here; those of a split key by its shares"),
            ("cost", _DOUBLE, "the channel's load: the cost of its keys; no unit"),
            ("hash_cost", _DOUBLE, "the load it would have by the ring alone; no unit"),
            ("held_bytes", _LONG, "bytes of state held here, estimated"),
        ],
    ),
    "quality_runs": _table(
        "One row per interval and expectation on its statistics or events.",
        [
            ("interval_id", _TEXT, "the interval"),
            ("suite", _TEXT, "what it looks at: key_stats or events"),
            ("expectation", _TEXT, "the type of the expectation"),
            ("column", _TEXT, "the column it looks at; empty for the whole table"),
            ("severity", _TEXT, "what a failure does: stop (the interval is not planned on) or warn"),
            ("success", pa.bool_(), "whether it was met"),
            ("bad_rows", _LONG, "how many rows broke it"),
            ("detail", _TEXT, "what was expected and found, in words"),
        ],
    ),
    "plans": _table(
        "One row per plan: a step from one function to a better one, with decision, reason and metrics.",
        [
            ("plan_id", _TEXT, "the interval and the function that the plan was made on, as in 20260131T0500Z-f3"),
            ("interval_id", _TEXT, "the interval that it was made for, on that interval's own statistics"),
            (
                "base_function",
                _LONG,
                "version of the function it would change; it can be carried out as long as that one is active",
            ),
            ("planner", _TEXT, "the planner's name"),
            ("decision", _TEXT, "apply, keep or reject"),
            ("reason", _TEXT, "why, in a sentence"),
            ("notes", _TEXT, "what else the planner has to say"),
            ("function_version", _LONG, "version of the function it leads to; if nothing changes, base_function"),
            ("theta_max", _DOUBLE, "θ_max when it was made, from the pipeline file or a run's form; no unit"),
            ("theta_before", _DOUBLE, "the largest θ of a channel before: |load - fair load| / fair load; no unit"),
            ("theta_after", _DOUBLE, "the largest θ of a channel under the plan; no unit"),
            ("skewness_before", _DOUBLE, "the largest load over fair load before; no unit, 1 is perfect"),
            ("skewness_after", _DOUBLE, "the largest load over fair load under the plan; no unit, 1 is perfect"),
            (
                "imbalance_before",
                _DOUBLE,
                "I = max U - mean U with U = load / capacity, before; no unit; null if nothing was planned",
            ),
            (
                "error",
                _DOUBLE,
                "skewness and θ may change by so much if a key without a name goes elsewhere; no unit; only where statistics are frequent",
            ),
            ("imbalance_after", _DOUBLE, "the same under the plan; no unit; null if nothing was planned"),
            ("key_copies_before", _LONG, "distinct keys per channel, summed, before; null if nothing was planned"),
            ("key_copies_after", _LONG, "the same number of keys under the plan; null if nothing was planned"),
            ("routes", _LONG, "keys with a route of their own"),
            ("splits", _LONG, "keys that are split"),
            ("moved_keys", _LONG, "keys that change their channel"),
            ("moved_bytes", _DOUBLE, "bytes of their state, estimated"),
            ("moved_share", _DOUBLE, "the same as a share of all state, 0 to 1; no unit"),
            (
                "bound_bytes",
                _DOUBLE,
                "certified: no plan that balances as well moves fewer bytes; null if nothing was planned",
            ),
            ("bound_theta", _DOUBLE, "certified: no assignment has a smaller θ; no unit; null if nothing was planned"),
            ("loads_before", pa.list_(_DOUBLE), "the load of each channel before, in the order of channels; no unit"),
            ("loads_after", pa.list_(_DOUBLE), "the load of each channel under the plan; no unit"),
            ("seconds", _DOUBLE, "seconds the planner took"),
        ],
    ),
    "plan_moves": _table(
        "One row per plan and key that it moves.",
        [
            ("plan_id", _TEXT, "the plan"),
            ("interval_id", _TEXT, "its interval"),
            ("key", _TEXT, "a key that changes its channel, as text"),
            ("from_channel", _INT, "the channel it leaves"),
            ("to_channel", _INT, "the channel it goes to"),
            ("state_bytes", _DOUBLE, "bytes of its state when the plan was made, estimated"),
            ("cost", _DOUBLE, "its cost in the interval; no unit"),
        ],
    ),
    "functions": _table(
        "One row per partitioning function: splits, then routes, then the ring. Never edited.",
        [
            ("version", _LONG, "the function's number"),
            ("interval_id", _TEXT, "the interval it was made in"),
            ("channels", _INT, "the number of channels"),
            ("key_type", _TEXT, "string or long"),
            ("digest", _TEXT, "identifies what the function does, whatever its version"),
            ("slots", pa.list_(_INT), "the ring: the channel of each of its 2^16 slots"),
            ("routes", _ROUTES, "keys with a channel of their own"),
            ("splits", _SHARES, "split keys with their channels and the share of each, 0 to 1; no unit"),
            ("memo", _TEXT, "what a planner wants to remember, as JSON"),
        ],
    ),
    "approvals": _table(
        "One row per answer of a person to a plan, only in mode approve; of several answers the newest counts.",
        [
            ("plan_id", _TEXT, "the plan"),
            ("digest", _TEXT, "digest of the function that was shown; one with another is not approved"),
            ("answer", _TEXT, "approve or reject"),
            ("who", _TEXT, "who gave it"),
            ("answered_at", _TIME, "when, UTC"),
        ],
    ),
    "quarantine": _table(
        "One row per row of the source that could not be used, only with source.on_bad_rows = 'quarantine'.",
        [
            (
                "interval_id",
                _TEXT,
                "the interval that has met the row; for one without a time, or in the wrong partition, the first that has",
            ),
            ("reason", _TEXT, "malformed, null time, null key or wrong partition"),
            ("row", _TEXT, "a malformed row as it stands in the file, others as JSON"),
            ("file", _TEXT, "the file it is in"),
            ("quarantined_at", _TIME, "when it was put here, UTC"),
        ],
    ),
    "results": _table(
        "One row per result of the operator, with the operator's own columns; partitioned by interval_id.",
        [("interval_id", _TEXT, "the interval that the result belongs to"), ("key", _KEY, "the key")],
    ),
    "state": _table(
        "What each interval added to each key's state, with the operator's own columns: what the next interval needs and nothing else. "
        "An operator with a window of 1 has no such table.",
        [
            ("interval_id", _TEXT, "the interval that added the row"),
            ("channel", _INT, "the channel on which the row lies"),
            ("key", _KEY, "the key; the rows of a file are sorted by it"),
        ],
    ),
    "batches": _table(
        "One row per processed interval, with lists over the channels.",
        [
            ("interval_id", _TEXT, "the processed interval"),
            ("function_version", _LONG, "version of the function it was processed with"),
            ("rows", _LONG, "rows that the operator made of its events, as Spark counted them in the exchange"),
            ("events", _LONG, "events in the interval, usable or not; null unless late ones are watched for"),
            ("seconds", _DOUBLE, "seconds the step took"),
            ("tuples", pa.list_(_LONG), "rows that each channel got, by Spark; empty if unknown"),
            ("task_seconds", pa.list_(_DOUBLE), "seconds of each channel's tasks, by Spark; empty if unknown"),
            ("loads", pa.list_(_DOUBLE), "each channel's load, by key_stats; no unit; empty if not counted"),
            ("spilled_bytes", _LONG, "bytes that did not fit into Spark's memory and went to disk"),
            ("consistency", _TEXT, "move or merge: what happens to the state of keys that change their channel"),
            ("folded", pa.bool_(), "whether the interval wrote the whole state of a function per key anew"),
        ],
    ),
    "late_events": _table(
        "One row each time a processed interval was found to have not as many events as before, only with interval.watch_late.",
        [
            ("interval_id", _TEXT, "the processed interval"),
            ("events", _LONG, "its events when it was processed"),
            ("late", _LONG, "how many more events there are now; below 0 if there are fewer"),
            ("seen_by", _TEXT, "the interval whose processing has seen this number first"),
            ("seen_at", _TIME, "when, UTC"),
        ],
    ),
    "key_costs": _table(
        "One row per interval and key with rows: what a function per key took for it. Other operators have no such table.",
        [
            ("interval_id", _TEXT, "the interval"),
            ("key", _KEY, "a key with rows in it"),
            ("rows", _LONG, "its new rows"),
            (
                "seconds",
                _DOUBLE,
                "processor seconds of the function's call for it; null if it was the first call in its process, which is slower",
            ),
        ],
    ),
    "epochs": _table(
        "One row per published state of the pipeline: which function and which version of the state belong together. The highest epoch is the active one.",
        [
            ("epoch", _LONG, "a number that counts up; the highest is the active one"),
            (
                "kind",
                _TEXT,
                "what published it: start, migrate, process, a person (rewind, adopt), or maintain: the same rows in other files",
            ),
            ("interval_id", _TEXT, "the newest interval that has been processed; empty before the first"),
            ("function_version", _LONG, "version of the function that belongs to it"),
            ("state_version", _LONG, "version of the table state that belongs to it; -1 before that exists"),
            ("plan_id", _TEXT, "the plan that a migrate epoch carried out; empty otherwise"),
            ("rewound_to", _LONG, "the epoch a rewind goes on from, those in between are undone; -1 otherwise"),
            ("skipped_from", _TEXT, "first of the intervals left out on purpose just before; empty if none was"),
            ("meaning", _TEXT, "what the state means, as JSON: key, interval length, operator, parameters, window"),
            ("published_at", _TIME, "when it became active, UTC"),
        ],
    ),
}


def about(table: str) -> str:
    """What a row of the table is."""
    return str((SCHEMAS[table].metadata or {})[_COMMENT.encode()].decode())


def comments(table: str) -> dict[str, str]:
    """What each column of the table is; those of an operator are not among them."""
    return {field.name: field.metadata[_COMMENT.encode()].decode() for field in SCHEMAS[table]}


def arrow_key(key_type: KeyType) -> pa.DataType:
    """The type of a column of keys."""
    return _LONG if key_type == "long" else _TEXT


def has_own_keys(table: str) -> bool:
    """Whether the table has a column of keys in their own type; elsewhere they are text."""
    return bool(_KEY in SCHEMAS[table].types)


def schema_of(table: str, key_type: KeyType) -> pa.Schema:
    """The columns of a table of a pipeline with such keys.

    >>> schema_of("state", "long").field("key").type
    DataType(int64)
    """
    fields = [field.with_type(arrow_key(key_type)) if field.type == _KEY else field for field in SCHEMAS[table]]
    return pa.schema(fields, metadata=SCHEMAS[table].metadata)
