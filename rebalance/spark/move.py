"""The one DML of a migration: give the rows of moved keys their new channel, and touch no other row."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance.partition import Key, KeyType
from rebalance.spark.session import own_session
from rebalance.storage.control import table_path
from rebalance.storage.schemas import arrow_key
from rebalance.storage.state import head_version


def typed_moves(moves: pa.Table, key_type: KeyType) -> pa.Table:
    """The stored moves with keys of the state's own type."""
    return pa.table(
        {
            "key": moves["key"].cast(arrow_key(key_type)),
            "from_channel": moves["from_channel"],
            "to_channel": moves["to_channel"],
        }
    )


def update_channels(spark: SparkSession, root: str, moves: pa.Table, *, metadata: str, literal: bool) -> int:
    """Move the rows in one commit and return the state's new version.

    The settings that name the commit would leak into later writes of the session, so it has one of its own. The transaction id holds
    the version it starts from: after a roll-back the same plan may be carried out again, and Delta drops a known id silently.
    """
    own = own_session(
        spark,
        {
            "spark.databricks.delta.commitInfo.userMetadata": metadata,
            "spark.databricks.delta.write.txnAppId": f"{metadata} on version {head_version(root)}",
            "spark.databricks.delta.write.txnVersion": "1",
        },
    )
    table = DeltaTable.forPath(own, table_path(root, "state"))
    origins = sorted(set(moves["from_channel"].to_pylist()))
    if literal:
        _update(table, moves, origins)
    else:
        _merge(table, own.createDataFrame(moves), origins)
    return head_version(root)


def _update(table: DeltaTable, moves: pa.Table, origins: list[int]) -> None:
    """UPDATE with the keys as literals: the fastest for a few thousand keys."""
    by_target: dict[int, list[str]] = defaultdict(list)
    for key, target in zip(moves["key"].to_pylist(), moves["to_channel"].to_pylist(), strict=True):
        by_target[target].append(_literal(key))
    every = ",".join(key for keys in by_target.values() for key in keys)
    cases = " ".join(f"WHEN key IN ({','.join(keys)}) THEN {target}" for target, keys in sorted(by_target.items()))
    # Only conditions on the partition column alone keep Delta from reading the other channels.
    table.update(F.col("channel").isin(origins) & F.expr(f"key IN ({every})"), {"channel": F.expr(f"CASE {cases} END")})


def _merge(table: DeltaTable, source: DataFrame, origins: list[int]) -> None:
    """MERGE with matched updates only: for any number of keys."""
    prune = f"t.channel IN ({','.join(map(str, origins))})"
    (
        table.alias("t")
        .merge(F.broadcast(source).alias("s"), f"{prune} AND t.key = s.key AND t.channel = s.from_channel")
        .whenMatchedUpdate(set={"channel": "s.to_channel"})
        .execute()
    )


def _literal(key: Key) -> str:
    """A key as an SQL literal that no content can break out of."""
    return f"{key}L" if isinstance(key, int) else f"CAST(X'{key.encode().hex()}' AS STRING)"
