"""An interval's events: which of the source's rows are its own, and which of those cannot be used.

Bad are rows of CSV or JSON that do not fit the declared columns, rows without a time or a key, and, where partitions are declared, rows
whose time is not that of the partition they lie in, so that no interval would find them. A row without a time, or in the wrong partition,
is met by every interval that reads its file.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rebalance.errors import SourceError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.pipeline.partitions import Partitions
from rebalance.spark.source import MALFORMED, within

#: How a bad row announces itself from inside a Spark job.
BAD_ROW = "bad row in the source"
#: Of a bad row, this many characters are shown.
_SHOWN = 200


def events_of(source: DataFrame, pipeline: Pipeline, interval: Interval) -> DataFrame:
    """The interval's good events, [start, end) by event time, with that time as `time`; a bad one fails the job, if so it is wanted."""
    time, bad = F.col(pipeline.source.time), reduce(or_, _faults(source, pipeline, interval).values())
    own = within(time, interval)
    refused = F.lit(False)
    if pipeline.source.on_bad_rows == "fail":
        refused = F.raise_error(F.lit(BAD_ROW)).cast("boolean")
    # Twice, as what Spark can look up in the files' statistics, and as what must not be asked of other intervals' rows.
    looked_at = _looked_at(pipeline, interval)
    good = source.where(looked_at).where(F.when(looked_at & bad, refused).otherwise(own))
    return good.drop(MALFORMED).withColumn("time", time.cast("timestamp"))


def bad_rows(source: DataFrame, pipeline: Pipeline, interval: Interval) -> DataFrame:
    """The others: `reason`, the `row` as it stands in the source or as JSON, its `file`, and whether it is of this interval alone (`own`)."""
    faults = _faults(source, pipeline, interval)
    reason = F.coalesce(*(F.when(fault, F.lit(name)) for name, fault in faults.items()))
    columns = [F.col(f"`{name}`") for name in source.columns if name != MALFORMED]
    row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    if MALFORMED in source.columns:
        row = F.coalesce(F.col(MALFORMED), row)
    file = source.metadataColumn("_metadata").getField("file_path")
    bad = source.where(_looked_at(pipeline, interval)).where(reduce(or_, faults.values()))
    own = F.coalesce(within(F.col(pipeline.source.time), interval), F.lit(False))
    return bad.select(reason.alias("reason"), row.alias("row"), file.alias("file"), own.alias("own"))


def explained(error: PySparkException, source: DataFrame, pipeline: Pipeline, interval: Interval) -> Exception:
    """What to raise for an error of a job over the interval's events: bad rows in words, anything else as it is."""
    if BAD_ROW not in str(error):
        return error
    found = bad_rows(source, pipeline, interval).groupBy("reason").agg(F.count("*"), F.min("row")).sort("reason")
    said = [
        f"{count:,} {'events' if count > 1 else 'event'} of interval {interval} {_words(reason, pipeline, count)}, for example {_short(row)}"
        for reason, count, row in found.collect()
    ]
    return SourceError(
        f"{'; '.join(said)}. Nothing was written. Correct or remove them in the source"
        f"{', or name another key column' if any('no key' in words for words in said) else ''}; "
        'or set source.on_bad_rows = "quarantine" to go on without them.'
    )


def _looked_at(pipeline: Pipeline, interval: Interval) -> Column:
    """Rows of the interval, and those that are bad in a way that leaves open, or does not let be seen elsewhere, whose they are."""
    time = F.col(pipeline.source.time)
    return within(time, interval) | time.isNull() | _misplaced(pipeline, interval)


def _misplaced(pipeline: Pipeline, interval: Interval) -> Column:
    """Whether a row's time is outside of all the partitions that the interval reads."""
    if not pipeline.source.partitions:
        return F.lit(False)
    covered = Partitions(pipeline.source.partitions).covering(interval)
    return ~within(F.col(pipeline.source.time), covered)


def _faults(source: DataFrame, pipeline: Pipeline, interval: Interval) -> dict[str, Column]:
    """What may be wrong with a row, never null; of several faults the first counts."""
    faults = {}
    if MALFORMED in source.columns:
        # A row is only found malformed in columns that are read. Steps read different ones, so all are asked for something that never holds.
        flags = [F.col(f"`{name}`").isNull().cast("int") for name in source.columns if name != MALFORMED]
        faults["malformed"] = F.col(MALFORMED).isNotNull() | (reduce(F.greatest, flags) < 0)
    faults["null time"] = F.col(pipeline.source.time).isNull()
    faults["null key"] = reduce(or_, (F.col(column).isNull() for column in pipeline.source.key))
    if pipeline.source.partitions:
        faults["wrong partition"] = F.coalesce(_misplaced(pipeline, interval), F.lit(False))
    return faults


def _words(reason: str, pipeline: Pipeline, count: int) -> str:
    source, one = pipeline.source, count == 1
    key = " + ".join(source.key)
    return {
        "malformed": f"{'does' if one else 'do'} not fit source.columns",
        "null time": f"or of any other {'has' if one else 'have'} no time ({source.time} is null)",
        "null key": f"{'has' if one else 'have'} no key ({key} is null)",
        "wrong partition": f"or of another {'lies' if one else 'lie'} in a partition of another time ({' + '.join(source.partitions)})",
    }[reason]


def _short(row: str) -> str:
    return row if len(row) <= _SHOWN else f"{row[:_SHOWN]}…"
