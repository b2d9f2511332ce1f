"""An interval's events as the rows of an operator, keyed; the same for counting them and for processing them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance.errors import OperatorError
from rebalance.operators import AnyOperator, KeyedFunction
from rebalance.partition import KeyType
from rebalance.pipeline.file import Pipeline
from rebalance.spark.routing import SALT, key_column, salt_of

#: Added behind the operator's back; its rows must not have them.
OURS = ("channel", "interval_id", "is_new")
#: Numbers are kept in their widest type, so that a source column that is widened one day does not change the state.
_WIDEST = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}


def rows_of(events: DataFrame, pipeline: Pipeline, operator: AnyOperator, key_type: KeyType) -> DataFrame:
    """The operator's rows of these events: `key`, `salt` if the operator hands it on, and its own columns."""
    key = key_column(events, pipeline.source.key, key_type)
    # Salted before the operator narrows the columns. Where nothing is split, Spark leaves it out again.
    rows = operator.rows(events.withColumns({"key": key, SALT: salt_of(events)}))
    # Spark takes names in any case for the same.
    taken = [name for name in rows.columns if name.lower() in OURS]
    if taken:
        way_out = "Leave it out of ROWS" if isinstance(operator, KeyedFunction) else "Give it another with alias()"
        raise OperatorError(
            f"`rows` of operator {operator.name!r} returns a column {taken[0]!r}, a name that is needed. {way_out}."
        )
    if "key" not in rows.columns:
        raise OperatorError(
            f"`rows` of operator {operator.name!r} returns no column 'key'. Its columns are: {', '.join(rows.columns)}."
        )
    widened = {name: F.col(name).cast(_WIDEST[kind]) for name, kind in rows.dtypes if kind in _WIDEST and name != "key"}
    return rows.withColumns(widened) if widened else rows
