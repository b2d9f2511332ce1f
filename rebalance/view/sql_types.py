"""Arrow's types as Spark's SQL writes them, for sources whose columns have to be declared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_PLAIN: tuple[tuple[Any, str], ...] = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_date, "DATE"),
)


def columns_as_sql(schema: pa.Schema) -> str:
    """A column list.

    >>> columns_as_sql(pa.schema({"ts": pa.timestamp("s"), "user id": pa.string(), "tags": pa.list_(pa.int64())}))
    'ts TIMESTAMP, `user id` STRING, tags ARRAY<BIGINT>'
    """
    return ", ".join(f"{_name(field.name)} {_type(field.type)}" for field in schema)


def _type(kind: Any) -> str:
    if pa.types.is_list(kind):
        return f"ARRAY<{_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_name(field.name)}: {_type(field.type)}' for field in kind)}>"
    # What has no values at all, and what SQL has no type for, is text.
    return next((name for is_it, name in _PLAIN if is_it(kind)), "STRING")


def _name(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else "`" + name.replace("`", "``") + "`"
