"""The section `[operator]` of a pipeline file: what is computed per key, and how far back it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from rebalance.operators import AnyOperator, SqlOperator, load_operator, load_process, make_operator
from rebalance.pipeline.section import Section


class SqlSection(Section):
    """An operator as three SQL texts."""

    rows: str = Field(description="What of an event is needed, from the table events: key and further columns.")
    results: str = Field(description="What an interval yields, from the table rows: all rows of the window.")
    state: str = Field(
        "SELECT * FROM rows",
        description="What the interval's own rows leave behind for later ones, from the table rows; in the columns of rows.",
    )
    cost: str = Field(
        "new_rows",
        description="c(k): what a key costs, in new_rows and window_rows, for example 'new_rows + 0.1 * window_rows'.",
    )
    mergeable: bool = Field(
        False, description="Whether partial states of a key merge; only then may a planner split keys."
    )
    keeps_rows: bool = Field(
        False, description="Whether state keeps every row as it is, so that it need not be counted."
    )


class OperatorSection(Section):
    """What is computed per key: exactly one of function, sql, file and name."""

    function: str | None = Field(
        None, description="A Python file that defines process(key, rows, state), RESULTS and STATE; docs/operators.md."
    )
    sql: SqlSection | None = Field(None, description="Instead of function: three SQL texts.")
    file: str | None = Field(
        None, description="Instead of function: a Python file that defines OPERATOR, your own operator on DataFrames."
    )
    name: str | None = Field(
        None, description="Instead of function: a built-in operator; docs/operators.md lists them."
    )
    window: int = Field(
        1,
        ge=1,
        description="w: how many intervals of state an operator sees, the current one included. A function's state has no window.",
    )
    ttl: int | None = Field(
        None,
        ge=1,
        description="For a function: how many intervals without rows a key's state outlives; unset = all of them.",
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="The operator's own parameters; a function gets them as arguments."
    )

    @model_validator(mode="after")
    def _checks(self) -> OperatorSection:
        given = [knob for knob in ("function", "sql", "file", "name") if getattr(self, knob) is not None]
        if len(given) != 1:
            raise ValueError(
                "operator needs exactly one of operator.name (built in), operator.function, operator.sql and operator.file (your own); "
                f"it has {' and '.join(given) or 'none'}."
            )
        if self.function is not None and self.window != 1:
            raise ValueError(
                f"operator.window = {self.window} means nothing to a function: its state stays until it drops it. Use operator.ttl."
            )
        if self.function is None and self.ttl is not None:
            raise ValueError("operator.ttl is for a function. State of other operators leaves with operator.window.")
        if self.sql is not None and self.parameters:
            raise ValueError("operator.sql has no parameters. Write the values into the texts.")
        return self

    @property
    def label(self) -> str:
        """What it is called where people read."""
        own = self.function or self.file
        return self.name or (Path(own).name if own else "SQL")

    @property
    def horizon(self) -> int | None:
        """How many intervals of state there are, the current one included; None = no end."""
        return None if self.function is not None else self.window

    def make(self) -> AnyOperator:
        """The operator itself."""
        if self.function is not None:
            return load_process(self.function, self.parameters, self.ttl)
        if self.file is not None:
            return load_operator(self.file, self.parameters)
        if self.sql is not None:
            sql = self.sql
            return SqlOperator(sql.rows, sql.results, sql.state, sql.cost, sql.mergeable, sql.keeps_rows)
        return make_operator(self.name or "", self.parameters)
