"""The columns of every table, whoever writes it: Spark or delta-rs."""

from __future__ import annotations

import pyarrow as pa

from rebalance.partition import KeyType

_TEXT, _LONG, _INT, _DOUBLE = pa.string(), pa.int64(), pa.int32(), pa.float64()
_ROUTES = pa.list_(pa.struct([("key", _TEXT), ("channel", _INT)]))
_SHARES = pa.list_(pa.struct([("key", _TEXT), ("channel", _INT), ("share", _DOUBLE)]))
#: Stands for the type of the pipeline's keys, text or integers, which the source decides.
_KEY = pa.null()

#: In the order in which an interval fills them.
SCHEMAS: dict[str, pa.Schema] = {
    # One row per counted interval: what was found, and what the state held then.
    "interval_stats": pa.schema(
        [
            ("interval_id", _TEXT),
            ("rows", _LONG),
            ("keys", _LONG),
            # The function whose channels are in key_stats.
            ("function_version", _LONG),
            # Newest interval whose rows were in the state; empty if there was none.
            ("state_newest", _TEXT),
            ("window", _LONG),
            ("seconds", _DOUBLE),
        ]
    ),
    # One row per interval and key with tuples or state.
    "key_stats": pa.schema(
        [
            ("interval_id", _TEXT),
            ("key", _KEY),
            ("slot", _INT),
            ("channel", _INT),
            ("hash_channel", _INT),
            ("tuples", _LONG),
            ("cost", _DOUBLE),
            # What the interval's own rows weigh.
            ("state_bytes", _LONG),
            # What the state table holds of the key, and how much of it the newest interval there has added.
            ("held_rows", _LONG),
            ("held_bytes", _LONG),
            ("added_rows", _LONG),
            ("added_bytes", _LONG),
            # Seconds a row of the key took when a function was last measured on it, the call itself left out; 0: never.
            ("rate", _DOUBLE),
        ]
    ),
    # One row per interval and channel, under the function that was active when the interval was counted.
    "channel_stats": pa.schema(
        [
            ("interval_id", _TEXT),
            ("channel", _INT),
            # Keys with tuples or state here; a split key counts on each of its channels.
            ("keys", _LONG),
            ("tuples", _DOUBLE),
            ("cost", _DOUBLE),
            ("hash_cost", _DOUBLE),
            ("held_bytes", _LONG),
        ]
    ),
    # One row per interval and expectation.
    "quality_runs": pa.schema(
        [
            ("interval_id", _TEXT),
            # What was looked at: key_stats or events.
            ("suite", _TEXT),
            ("expectation", _TEXT),
            ("column", _TEXT),
            # What a failure does: stop or warn.
            ("severity", _TEXT),
            ("success", pa.bool_()),
            ("bad_rows", _LONG),
            ("detail", _TEXT),
        ]
    ),
    "plans": pa.schema(
        [
            ("plan_id", _TEXT),
            ("interval_id", _TEXT),
            ("base_function", _LONG),
            ("planner", _TEXT),
            ("decision", _TEXT),
            ("reason", _TEXT),
            ("notes", _TEXT),
            ("function_version", _LONG),
            ("theta_before", _DOUBLE),
            ("theta_after", _DOUBLE),
            ("skewness_before", _DOUBLE),
            ("skewness_after", _DOUBLE),
            # I = max U - mean U with U = L/cap, and Σ over the channels of distinct keys. Null: nothing was planned.
            ("imbalance_before", _DOUBLE),
            ("imbalance_after", _DOUBLE),
            ("key_copies_before", _LONG),
            ("key_copies_after", _LONG),
            ("routes", _LONG),
            ("splits", _LONG),
            ("moved_keys", _LONG),
            ("moved_bytes", _DOUBLE),
            ("moved_share", _DOUBLE),
            # Certified: no plan that balances as well moves fewer bytes; no assignment has a smaller θ. Null: nothing was planned.
            ("bound_bytes", _DOUBLE),
            ("bound_theta", _DOUBLE),
            ("loads_before", pa.list_(_DOUBLE)),
            ("loads_after", pa.list_(_DOUBLE)),
            ("seconds", _DOUBLE),
        ]
    ),
    "plan_moves": pa.schema(
        [
            ("plan_id", _TEXT),
            ("interval_id", _TEXT),
            ("key", _TEXT),
            ("from_channel", _INT),
            ("to_channel", _INT),
            ("state_bytes", _DOUBLE),
            ("cost", _DOUBLE),
        ]
    ),
    "functions": pa.schema(
        [
            ("version", _LONG),
            ("interval_id", _TEXT),
            ("channels", _INT),
            ("key_type", _TEXT),
            ("digest", _TEXT),
            ("slots", pa.list_(_INT)),
            ("routes", _ROUTES),
            ("splits", _SHARES),
            ("memo", _TEXT),
        ]
    ),
    # What persons said about plans; of a plan's answers the newest counts.
    "approvals": pa.schema(
        [
            ("plan_id", _TEXT),
            # Of the function that was shown: a plan made anew with another one is not approved.
            ("digest", _TEXT),
            ("answer", _TEXT),
            ("who", _TEXT),
            ("answered_at", pa.timestamp("us", tz="UTC")),
        ]
    ),
    # Rows of the source that could not be used, one each.
    "quarantine": pa.schema(
        [
            ("interval_id", _TEXT),
            ("reason", _TEXT),
            # As it stands in the source if it is malformed, else as JSON.
            ("row", _TEXT),
            ("file", _TEXT),
            ("quarantined_at", pa.timestamp("us", tz="UTC")),
        ]
    ),
    # And the columns of the operator's results.
    "results": pa.schema([("interval_id", _TEXT), ("key", _KEY)]),
    # And the columns of the operator's rows.
    "state": pa.schema([("interval_id", _TEXT), ("channel", _INT), ("key", _KEY)]),
    # One row per processed interval, with lists over the channels: what each got, and how long its Spark task took.
    "batches": pa.schema(
        [
            ("interval_id", _TEXT),
            ("function_version", _LONG),
            ("rows", _LONG),
            # Events with a time in the interval, good or bad; null if nobody watches for late ones.
            ("events", _LONG),
            ("seconds", _DOUBLE),
            # As Spark's own metrics have it; empty if it had none.
            ("tuples", pa.list_(_LONG)),
            ("task_seconds", pa.list_(_DOUBLE)),
            # Cost of the keys under the function; empty if the interval was not counted before.
            ("loads", pa.list_(_DOUBLE)),
            ("spilled_bytes", _LONG),
            # Whether state was moved to its key's channel or left where it was made and merged.
            ("consistency", _TEXT),
            # Whether the whole state was written anew, in the place of all older rows.
            ("folded", pa.bool_()),
        ]
    ),
    # Processed intervals whose events are no longer as many as they were then.
    "late_events": pa.schema(
        [
            ("interval_id", _TEXT),
            # Events there were when it was processed, and how many more, or fewer, there are now.
            ("events", _LONG),
            ("late", _LONG),
            # The interval whose processing has seen it first.
            ("seen_by", _TEXT),
            ("seen_at", pa.timestamp("us", tz="UTC")),
        ]
    ),
    # What a function per key took: one row per interval and key with rows.
    "key_costs": pa.schema(
        [
            ("interval_id", _TEXT),
            ("key", _KEY),
            ("rows", _LONG),
            # Processor time of the function; null if it was the first call in its process, which is slower.
            ("seconds", _DOUBLE),
        ]
    ),
    # The switch: the highest epoch is the active one; its state is `state` at `state_version`.
    "epochs": pa.schema(
        [
            ("epoch", _LONG),
            ("kind", _TEXT),
            ("interval_id", _TEXT),
            ("function_version", _LONG),
            ("state_version", _LONG),
            ("plan_id", _TEXT),
            # Of a rewind: the epoch it goes on from; -1 otherwise.
            ("rewound_to", _LONG),
            # Of a processed interval: the first of those that were left out on purpose just before it; empty if none was.
            ("skipped_from", _TEXT),
            # What the state means, as JSON: key, interval, operator.
            ("meaning", _TEXT),
            ("published_at", pa.timestamp("us", tz="UTC")),
        ]
    ),
}


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
    return pa.schema([(f.name, arrow_key(key_type) if f.type == _KEY else f.type) for f in SCHEMAS[table]])
