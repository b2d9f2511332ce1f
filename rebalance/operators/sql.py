"""An operator as three SQL texts in the pipeline file.

`rows` reads the table `events`, `results` and `state` read `rows`; the columns are those of `rebalance.operators.base`. The tables are
common table expressions over a view that lives for a moment under a name nobody else uses: nothing is left in a session, and nothing
that the session has under these names is hidden from anybody else.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import numpy as np

from rebalance.errors import ConfigError, OperatorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class SqlOperator:
    """Rows, results and state by SQL."""

    name: ClassVar[str] = "operator.sql"

    rows_query: str
    results_query: str
    state_query: str
    cost_expression: str = "new_rows"
    mergeable: bool = False
    keeps_rows: bool = False

    def __post_init__(self) -> None:
        self.cost(np.ones(1), np.ones(1))

    def rows(self, events: DataFrame) -> DataFrame:
        """`operator.sql.rows` over the events."""
        return _ask(self.rows_query, "rows", events, "events")

    def results(self, rows: DataFrame) -> DataFrame:
        """`operator.sql.results` over the window's rows."""
        return _ask(self.results_query, "results", rows, "rows")

    def state(self, rows: DataFrame) -> DataFrame:
        """`operator.sql.state` over the interval's own rows; where they are is where they stay, so the channel need not be asked for."""
        from pyspark.sql import functions as F

        found = _ask(self.state_query, "state", rows, "rows")
        return found if "channel" in found.columns else found.withColumn("channel", F.spark_partition_id())

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """`operator.sql.cost`, worked out."""
        try:
            tree = ast.parse(self.cost_expression, mode="eval").body
            found = _value(tree, {"new_rows": new_rows, "window_rows": window_rows})
        except (SyntaxError, KeyError) as error:
            raise ConfigError(
                f"operator.sql.cost = {self.cost_expression!r} cannot be worked out: {error}. "
                "It may have numbers, + - * / and parentheses, new_rows and window_rows."
            ) from None
        return np.broadcast_to(np.asarray(found, dtype=np.float64), np.shape(new_rows))


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """A node of an arithmetic expression, worked out without running anything of it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, names), _value(node.right, names))
    raise SyntaxError(f"{ast.unparse(node)!r} is not arithmetic")


def _ask(query: str, what: str, table: DataFrame, name: str) -> DataFrame:
    """What a query gives that reads this table under this name."""
    from pyspark.errors import AnalysisException, ParseException

    spark, view = table.sparkSession, f"rebalance_{uuid4().hex}"
    table.createTempView(view)
    try:
        return spark.sql(f"WITH {name} AS (SELECT * FROM {view}) (\n{query.strip().rstrip(';')}\n)")
    except (AnalysisException, ParseException) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        columns = ", ".join(column for column in table.columns)
        raise OperatorError(
            f"operator.sql.{what} is refused by Spark: {first.strip()} The table {name} has the columns {columns}."
        ) from None
    finally:
        spark.catalog.dropTempView(view)
