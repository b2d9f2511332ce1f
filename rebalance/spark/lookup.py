"""Tables as constants of a Spark plan, looked up by key without a join.

    hash of the key ─► cell ─► a number ≥ 0: the answer, for all keys of a cell without entries
                             └ a number < 0: where the cell's entries begin, which are compared with the key one after the other

A cell is given by the first bits of the hash, so cells are ring slots or parts of them. Most rows end at the first array access and
compare nothing. The tables are finished when the plan is made: no row ever waits for a text to be parsed, wherever the expression stands,
and plans print a table as one word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.utils import get_active_spark_context

from rebalance.partition import SLOT_SHIFT, Key, KeyType
from rebalance.partition.hashing import hash_longs, hash_strings

_HASH_BITS = 32
_SLOT_BITS = _HASH_BITS - SLOT_SHIFT
#: So many cells for one entry, if the table may still grow: few keys without an entry meet one, and hardly any meets a second.
_CELLS_AN_ENTRY = 8
#: A table of 2^20 cells has 4 MiB, which every executor gets once a job. Beyond 10^5 entries, cells share.
_MOST_CELL_BITS = 20
_TYPES: dict[str, str] = {"int32": "IntegerType", "int64": "LongType", "float64": "DoubleType"}


def cell_of(key: Column, bits: int = _SLOT_BITS) -> Column:
    """The first bits of a key's hash."""
    return F.shiftrightunsigned(F.hash(key), _HASH_BITS - bits)


def looked_up(key: Column, key_type: KeyType, slots: NDArray[np.int32], entries: Mapping[Key, int]) -> Column:
    """INT: the entry of a key that has one, the number of its slot for all other keys."""
    if not entries:
        return F.get(numbers(slots), cell_of(key))
    hashes = _hashes(entries, key_type)
    bits = _cell_bits(len(hashes))
    own = np.repeat(slots, 1 << (bits - _SLOT_BITS))
    cells = (hashes >> (_HASH_BITS - bits)).astype(np.int64)
    order = np.argsort(cells, kind="stable")
    marked, begins, sizes = np.unique(cells[order], return_index=True, return_counts=True)
    table = own.copy()
    table[marked] = ~begins.astype(np.int32)

    listed = list(entries)
    known = _keys([listed[i] for i in order.tolist()], key_type)
    answers = numbers(np.fromiter(entries.values(), np.int32, len(entries))[order])
    others = numbers(own[cells[order]])
    found = F.get(numbers(table), cell_of(key, bits))
    # An entry of the next cell is no danger: it is another key. So all cells are read as far as the fullest one.
    chosen = F.when(found >= 0, found)
    begin = F.bitwise_not(found)
    for further in range(int(sizes.max())):
        entry = begin + further if further else begin
        chosen = chosen.when(F.get(known, entry) == key, F.get(answers, entry))
    # Every branch names `found`, so that Spark computes the hash once for all of them.
    return chosen.otherwise(F.get(others, begin))


def numbers(values: NDArray[Any]) -> Column:
    """An array of INT, BIGINT or DOUBLE without nulls, by the type of its values."""
    return _array(len(values), values.tobytes(), _TYPES[values.dtype.name])


def texts(values: Iterable[str]) -> Column:
    """An array of STRING without nulls."""
    encoded = [value.encode() for value in values]
    sizes = np.array([len(each) for each in encoded], dtype=np.int64)
    # Each text begins at a whole word, where Spark compares fastest.
    padded = -(-sizes // 8) * 8
    offsets = _head_size(len(encoded)) + 8 * len(encoded) + np.cumsum(padded) - padded
    body = b"".join(each.ljust(size, b"\0") for each, size in zip(encoded, padded.tolist(), strict=True))
    return _array(len(encoded), ((offsets << 32) | sizes).tobytes() + body, "StringType")


def _hashes(keys: Iterable[Key], key_type: KeyType) -> NDArray[np.uint32]:
    if key_type == "long":
        return hash_longs(np.fromiter((int(key) for key in keys), np.int64))
    return hash_strings(str(key) for key in keys)


def _keys(keys: list[Key], key_type: KeyType) -> Column:
    return numbers(np.array(keys, dtype=np.int64)) if key_type == "long" else texts(str(key) for key in keys)


def _cell_bits(entries: int) -> int:
    wanted = (entries * _CELLS_AN_ENTRY - 1).bit_length()
    return min(max(wanted, _SLOT_BITS), _MOST_CELL_BITS)


def _head_size(size: int) -> int:
    """Bytes before the first element: the number of elements, and one bit for each that says whether it is null."""
    return 8 + -(-size // 64) * 8


def _array(size: int, content: bytes, element: str) -> Column:
    """A literal of Spark's own binary form (UnsafeArrayData: head, elements, then the texts), handed over in one call.

    One by one, elements would take a call each; as text, they would rely on Spark's optimizer to parse them once, and be boxed.
    """
    data = np.int64(size).tobytes() + bytes(_head_size(size) - 8) + content
    data += bytes(-len(data) % 8)
    jvm: Any = get_active_spark_context()._jvm
    expressions, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types
    array = expressions.UnsafeArrayData()
    array.pointTo(bytearray(data), jvm.org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET, len(data))
    kind = types.ArrayType(getattr(types.DataTypes, element), False)
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expressions.Literal(array, kind)))
