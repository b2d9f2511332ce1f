"""A function per key on placed rows: its new rows and its state meet where they lie, sorted, and go through Python once.

    placed rows ──────────────────────────────┐
                                              ├─ sorted by key ─► the function ─► kept in memory ─► results, state, costs
    state log ─► of keys with rows, newest ───┘
    state log ─► of all other keys, newest ─► only where the log is folded, to the new state

The state is a log: the rows of a key's newest interval count, or none if they say that it was dropped. A fold writes all that counts as
rows of the interval, so that all older ones can go.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from rebalance.errors import OperatorError
from rebalance.operators import PLACE, KeyedFunction
from rebalance.partition import PartitionFunction
from rebalance.pipeline.intervals import Interval
from rebalance.spark import key_worker
from rebalance.spark.key_worker import COST, DROPPED, RESULT, STATE, KeyWorker
from rebalance.spark.per_key import Frames
from rebalance.spark.placement import Placing, check_placed
from rebalance.spark.routing import SALT, one_channel_of

#: Columns of the state that are not the function's: the interval of the key's last rows, and the place of a row among the key's.
TOUCHED, POSITION = "touched", "position"
#: For a moment beside the function's columns.
_NEWEST = "newest interval of the key"
#: Names that RESULTS and STATE may not use.
_TAKEN = ("key", "channel", "interval_id", "is_new", SALT, TOUCHED, POSITION)
#: What of a type's name says that Spark cannot sort its values.
_NOT_SORTED = ("map<", "variant")


def declared(text: str, what: str, file: str) -> StructType:
    """RESULTS or STATE of a function's file as a schema."""
    try:
        columns = StructType([*StructType.fromDDL(text)])  # type: ignore[misc]
    except ParseException as error:
        raise OperatorError(
            f"{what} = {text!r} in {file} is not a list of columns: {str(error).strip().splitlines()[0]} "
            'Write for example "count BIGINT, last DOUBLE".'
        ) from None
    taken = [column.name for column in columns if column.name.lower() in _TAKEN]
    if taken:
        raise OperatorError(f"{what} in {file} declares a column {taken[0]!r}, a name that is needed. Give it another.")
    return columns


def state_columns(operator: KeyedFunction, key: DataType) -> StructType:
    """The columns of the function's state as they are stored, but for where it lies."""
    own = declared(operator.state_columns, "STATE", operator.name)
    return StructType(
        [
            StructField("key", key),
            StructField(TOUCHED, StringType()),
            StructField(POSITION, IntegerType()),
            *(StructField(column.name, column.dataType) for column in own),
        ]
    )


def function_error(error: Exception) -> OperatorError | None:
    """What a worker had to tell the user, if it was that."""
    told = re.search(f"{key_worker.OPEN}(.*?){key_worker.CLOSE}", str(error), re.S)
    return OperatorError(json.loads(told[1])) if told else None


@dataclass(frozen=True)
class Columns:
    """What the function gets and gives, as Spark's types."""

    key: DataType
    rows: StructType
    results: StructType
    state: StructType

    @classmethod
    def of(cls, operator: KeyedFunction, rows: DataFrame) -> Columns:
        """Those of a function on these rows."""
        return cls(
            key=rows.schema["key"].dataType,
            rows=StructType([field for field in rows.schema if field.name != "key"]),
            results=declared(operator.result_columns, "RESULTS", operator.name),
            state=declared(operator.state_columns, "STATE", operator.name),
        )

    def wide(self, *, rows: bool) -> list[Column]:
        """Row and state columns under names that cannot collide; those of the kind that a row is not are empty."""
        return [*_numbered("r", self.rows, filled=rows), *_numbered("s", self.state, filled=not rows)]

    def sortable(self) -> list[str]:
        """The row columns by which rows can be put in order, time first."""
        kinds = [field.dataType.simpleString() for field in self.rows]
        return [f"r{i}" for i, kind in enumerate(kinds) if not any(no in kind for no in _NOT_SORTED)]

    def output(self) -> StructType:
        """What leaves the workers."""
        return StructType(
            [
                StructField("key", self.key),
                StructField("what", IntegerType()),
                *(
                    StructField(f"r{i}", field.dataType, metadata=field.metadata)
                    for i, field in enumerate(self.results)
                ),
                StructField(POSITION, IntegerType()),
                *(StructField(f"s{i}", field.dataType, metadata=field.metadata) for i, field in enumerate(self.state)),
                StructField("rows", LongType()),
                StructField("seconds", DoubleType()),
            ]
        )

    def worker(self, operator: KeyedFunction, timezone: str) -> KeyWorker:
        """The function as it is sent to the workers."""
        results, state, out = (
            to_arrow_schema(columns, timezone=timezone)
            for columns in (_nullable(self.results), _nullable(self.state), self.output())
        )
        return KeyWorker(
            file=operator.name,
            process=operator.process,
            parameters=operator.parameters,
            in_pandas=operator.in_pandas,
            rows=tuple(self.rows.names),
            results=results,
            state=state,
            out=out,
        )


@dataclass(frozen=True)
class KeyedWork:
    """One interval's work: a function on rows that the partitioning function places."""

    operator: KeyedFunction
    function: PartitionFunction
    interval: Interval
    placing: Placing

    def frames(self, rows: DataFrame, log: DataFrame | None, *, fold: bool) -> Frames:
        """Results, state and costs of the interval from its rows and the state log; to be released when they are written.

        With `fold`, the state is all that there is after the interval. Otherwise it is what the interval changes.
        """
        rows = rows.drop(SALT)
        columns = Columns.of(self.operator, rows)
        placed = self.placing.exchanged(rows, one_channel_of(self.function, F.col("key"))).df
        stored = None if log is None else self.placing.stored(log)
        no_position = F.lit(None).cast("int").alias(POSITION)
        found = placed.select(*PLACE, F.lit(True).alias("is_new"), no_position, *columns.wide(rows=True))
        if stored is not None:
            live = self._live(self._of_keys(stored, placed, "left_semi"), self.interval)
            state = live.select(*PLACE, F.lit(False).alias("is_new"), POSITION, *columns.wide(rows=False))
            found = self.placing.side_by_side(found, state)
        output = self._called(found, columns).persist(StorageLevel.MEMORY_AND_DISK)
        state = self._state_of(output, columns)
        if fold:
            state = state.where(F.col(POSITION) > DROPPED)
            if stored is not None:
                quiet = self._live(self._of_keys(stored, placed, "left_anti"), self.interval.shifted(1))
                state = self.placing.side_by_side(state, quiet.select(*state.columns))
        costs = output.where(F.col("what") == COST).select("key", "channel", "rows", "seconds")
        return Frames(
            results=_own(output, RESULT, "r", columns.results),
            state=self.placing.in_key_order(state),
            in_place=self.placing.in_place,
            costs=costs,
            kept=output,
        )

    def _of_keys(self, stored: DataFrame, placed: DataFrame, how: str) -> DataFrame:
        """State of the keys that have rows, or of those that have none.

        Hashed, because sorting the whole state to find a few keys would cost more than all else.
        """
        keys = placed.select(*PLACE).distinct().hint("shuffle_hash")
        found = stored.join(keys, list(PLACE), how)
        if self.placing.in_place:
            check_placed(found, self.operator.name, "state")
        return found

    def _live(self, log: DataFrame, at: Interval) -> DataFrame:
        """What of the log counts in an interval: each key's newest rows, if it was not dropped and has not been quiet for too long."""
        newest = F.max("interval_id").over(Window.partitionBy(*PLACE))
        is_live = (F.col("interval_id") == F.col(_NEWEST)) & (F.col(POSITION) > DROPPED)
        live = log.withColumn(_NEWEST, newest).where(is_live)
        if self.operator.ttl is not None:
            live = live.where(F.col(TOUCHED) >= at.shifted(-self.operator.ttl).id)
        return live.drop(_NEWEST)

    def _called(self, found: DataFrame, columns: Columns) -> DataFrame:
        """The function's output, unread: rows of results, of state and of costs, told apart by `what`."""
        in_order = found.sortWithinPartitions("key", "is_new", POSITION, *columns.sortable())
        wide = [name for name in found.columns if name not in (*PLACE, "is_new", POSITION)]
        timezone = found.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
        worker = columns.worker(self.operator, timezone)
        called = in_order.select("key", "is_new", *wide).mapInArrow(worker.run, columns.output())
        return called.withColumn("channel", F.spark_partition_id())

    def _state_of(self, output: DataFrame, columns: Columns) -> DataFrame:
        own = _own(output, STATE, "s", columns.state, "channel", POSITION)
        stored = [field.name for field in state_columns(self.operator, columns.key)]
        return own.withColumn(TOUCHED, F.lit(self.interval.id)).select("channel", *(f"`{name}`" for name in stored))


def _numbered(prefix: str, columns: StructType, *, filled: bool) -> list[Column]:
    return [
        (F.col(f"`{field.name}`") if filled else F.lit(None).cast(field.dataType)).alias(f"{prefix}{i}")
        for i, field in enumerate(columns)
    ]


def _own(output: DataFrame, what: int, prefix: str, columns: StructType, *more: str) -> DataFrame:
    """The rows of one kind, under their own names."""
    named = [F.col(f"{prefix}{i}").alias(field.name) for i, field in enumerate(columns)]
    return output.where(F.col("what") == what).select("key", *more, *named)


def _nullable(columns: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType) for field in columns])
