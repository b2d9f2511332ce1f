"""State read where it lies: partition d of the job reads the files of channel d, and no state row is exchanged.

Spark has no public way to say that rows are placed already, so this uses four of its internal classes. Where one is missing, or has
changed, `InternalsMissingError` is raised before any work is done, and the caller exchanges the state instead.

- A file scan's RDD has a list of partitions, each a list of files; it is replaced by one that has a channel's files in each.
- `SQLPartitioningAwareUnionRDD` puts partition d of several RDDs into one partition d.
- `LogicalRDD` makes a DataFrame of an RDD and says how it is placed: `ShufflePartitionIdPassThrough` by the column `channel`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

CHANNEL = "channel"


class InternalsMissingError(Exception):
    """This Spark has not the internals that reading in place needs."""


def rdd_of(df: DataFrame) -> Any:
    """The rows of a DataFrame as Spark keeps them inside; used several times, an exchange below it runs once."""
    return _internal(df, "toRdd")


def scanned_in_place(state: DataFrame, channels: int) -> Any:
    """The rows of a DataFrame that only filters and selects from the state table, partition = channel."""
    spark = state.sparkSession
    try:
        leaves = _internal(state, "executedPlan").collectLeaves()
        (scan,) = [leaves.apply(i) for i in range(leaves.size())]
        rdd = scan.inputRDD()
        at = scan.relation().partitionSchema().fieldIndex(CHANNEL)
        files: dict[int, list[Any]] = defaultdict(list)
        for file in _files(rdd.filePartitions()):
            files[file.partitionValues().getInt(at)].append(file)
        parts = [_file_partition(spark, channel, files[channel]) for channel in range(channels)]
        field = rdd.getClass().getDeclaredField("filePartitions")
        field.setAccessible(True)
        field.set(rdd, _scala_seq(spark, parts))
        return rdd_of(state)
    except (Py4JError, TypeError, ValueError, AttributeError) as error:
        raise InternalsMissingError(str(error).splitlines()[0]) from error


def united(spark: SparkSession, rdds: Iterable[Any], channels: int) -> Any:
    """Partition d of each RDD in one partition d."""
    jvm: Any = spark._jvm
    try:
        rows = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
        tag = _scala_object(jvm.scala.reflect, "ClassTag").apply(rows)
        union = jvm.org.apache.spark.rdd.SQLPartitioningAwareUnionRDD
        return union(spark.sparkContext._jsc.sc(), _scala_seq(spark, rdds), channels, tag)
    except (Py4JError, TypeError) as error:
        raise InternalsMissingError(str(error).splitlines()[0]) from error


def placed_frame(rdd: Any, like: DataFrame, channels: int, sorted_by: Sequence[str] = ()) -> DataFrame:
    """A DataFrame of rows with the columns of `like`, of which Spark knows that they are placed by `channel`, and how they are sorted."""
    spark = like.sparkSession
    jvm: Any = spark._jvm
    try:
        output = _internal(like, "analyzed").output()
        (channel,) = [output.apply(i) for i in range(output.size()) if output.apply(i).name() == CHANNEL]
        catalyst = jvm.org.apache.spark.sql.catalyst
        by_id = catalyst.expressions.DirectShufflePartitionID(channel)
        placement = catalyst.plans.physical.ShufflePartitionIdPassThrough(by_id, channels)
        nothing = _scala_object(jvm.scala, "None")
        order = _scala_object(jvm.scala.collection.immutable, "Nil")
        if sorted_by:
            order = _internal(like.sortWithinPartitions(*sorted_by), "analyzed").order()
        session = spark._jsparkSession
        relation = jvm.org.apache.spark.sql.execution.LogicalRDD(
            output, rdd, placement, order, False, nothing, session, nothing, nothing
        )
        rows = _scala_object(jvm.org.apache.spark.sql.classic, "Dataset").ofRows(session, relation)
        return DataFrame(rows, spark)
    except (Py4JError, TypeError, ValueError) as error:
        raise InternalsMissingError(str(error).splitlines()[0]) from error


def _internal(df: DataFrame, part: str) -> Any:
    return getattr(df._jdf.queryExecution(), part)()


def _files(partitions: Any) -> Iterable[Any]:
    for i in range(partitions.size()):
        yield from partitions.apply(i).files()


def _file_partition(spark: SparkSession, index: int, files: list[Any]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    sources = gateway.jvm.org.apache.spark.sql.execution.datasources
    array = gateway.new_array(sources.PartitionedFile, len(files))
    for i, file in enumerate(files):
        array[i] = file
    return sources.FilePartition(index, array)


def _scala_seq(spark: SparkSession, items: Iterable[Any]) -> Any:
    jvm: Any = spark._jvm
    collected = jvm.java.util.ArrayList()
    for item in items:
        collected.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(collected).toSeq()


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")
