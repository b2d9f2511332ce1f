"""Spark's hash in Python. The golden numbers were printed by Spark 4.2's `hash()`; tests/spark compares thousands more."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.partition.hashing import hash_bytes, hash_longs, hash_strings

GOLDEN = [
    ("", 142593372),
    ("a", 1485273170),
    ("ab", -97053317),
    ("abc", 1322437556),
    ("abcd", -396302900),
    ("abcde", 814637928),
    ("Spark", 228093765),
    ("grüße", -1448632288),
    ("日本語", -1143049834),
    ("🦉", -1813491599),
    ("x" * 1000, -1727652553),
    ("\x00", -783713497),
    ("k0000001", -964949785),
]


@pytest.mark.parametrize(("text", "expected"), GOLDEN, ids=[repr(text[:12]) for text, _ in GOLDEN])
def test_a_string_hashes_to_what_spark_prints(text: str, expected: int) -> None:
    assert hash_bytes(text.encode()) == expected % 2**32


@given(st.binary(max_size=64))
def test_bytes_of_a_multiple_of_four_hash_as_canonical_murmur3_does(data: bytes) -> None:
    aligned = data[: len(data) & ~3]
    assert hash_bytes(aligned) == mmh3.hash(aligned, 42, signed=False)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_integers_hash_as_canonical_murmur3_of_their_eight_bytes(keys: list[int]) -> None:
    expected = [mmh3.hash(int(key).to_bytes(8, "little", signed=True), 42, signed=False) for key in keys]
    assert hash_longs(np.array(keys, dtype=np.int64)).tolist() == expected


@given(st.lists(st.text(max_size=12), max_size=20))
def test_many_strings_hash_as_each_one_does(keys: list[str]) -> None:
    assert hash_strings(keys).tolist() == [hash_bytes(key.encode()) for key in keys]
