"""A user's function per key: what its file declares. Placement, state, statistics and cost are not its business.

    RESULTS = "total BIGINT, last DOUBLE"   columns of the results, as SQL types
    STATE = "count BIGINT, sum DOUBLE"      columns of a key's state
    ROWS = ["price", "side"]                columns of the events it needs, besides time; without it all of them

    def process(key, rows, state):          Arrow tables; pandas DataFrames if `rows` is annotated so
        return results, new_state

`rows` are the key's new rows of the interval in the order of time, equal times by all other columns. `state` is what the last call for
the key returned, empty the first time. An empty new state drops the key's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rebalance.errors import ConfigError, SourceError
from rebalance.operators.user_file import run_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rebalance.planning.model import Floats

_GIVEN = ("key", "rows", "state")


@dataclass(frozen=True)
class KeyedFunction:
    """A function that gets a key, its new rows and its state, and returns results and the new state."""

    #: Which row came before which matters to it, so a key is never split.
    mergeable: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = False

    #: The file's name.
    name: str
    process: Callable[..., Any]
    #: Columns as SQL types.
    result_columns: str
    state_columns: str
    #: Event columns besides key and time; None = all.
    row_columns: tuple[str, ...] | None
    in_pandas: bool
    #: The pipeline's [operator.parameters]: further arguments of the function, by name.
    parameters: Mapping[str, Any]
    #: A key's state is forgotten after this many intervals without rows; None = never.
    ttl: int | None

    def rows(self, events: DataFrame) -> DataFrame:
        """Key, time and the wanted columns of every event."""
        if self.row_columns is None:
            others = [name for name in events.columns if name not in ("key", "time", "salt")]
            return events.select("key", "time", *(f"`{name}`" for name in others))
        missing = [name for name in self.row_columns if name not in events.columns]
        if missing:
            raise SourceError(
                f"ROWS in {self.name} names {missing[0]!r}, which the events have not. Their columns are: "
                f"{', '.join(name for name in events.columns if name not in ('key', 'salt'))}."
            )
        return events.select("key", "time", *(f"`{name}`" for name in self.row_columns if name != "time"))

    def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
        """Until something was measured, every row costs the same."""
        return new_rows


def load_process(file: str | Path, parameters: Mapping[str, Any], ttl: int | None) -> KeyedFunction:
    """The function that a user's file defines, with what it declares."""
    module, name = run_file(file, "operator.function"), Path(file).name
    process = getattr(module, "process", None)
    if not inspect.isfunction(process):
        raise ConfigError(f"{name} must define a function process(key, rows, state).")
    for declared in ("RESULTS", "STATE"):
        text = getattr(module, declared, None)
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(
                f'{name} must declare {declared}, the columns that process returns, as SQL types: {declared} = "count BIGINT".'
            )
    rows = getattr(module, "ROWS", None)
    if rows is not None and (isinstance(rows, str) or not all(isinstance(column, str) for column in rows)):
        raise ConfigError(f'ROWS in {name} must be a list of column names: ROWS = ["price", "side"].')
    return KeyedFunction(
        name=name,
        process=process,
        result_columns=module.RESULTS,
        state_columns=module.STATE,
        row_columns=None if rows is None else tuple(rows),
        in_pandas=_wants_pandas(process),
        parameters=_checked(process, name, parameters),
        ttl=ttl,
    )


def _wants_pandas(process: Callable[..., Any]) -> bool:
    """Whether a parameter is annotated as a DataFrame; annotations may be texts."""
    annotations = [parameter.annotation for parameter in inspect.signature(process).parameters.values()]
    return any(str(getattr(kind, "__name__", kind)).split(".")[-1] == "DataFrame" for kind in annotations)


def _checked(process: Callable[..., Any], name: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a function that cannot be called with what it gets."""
    try:
        inspect.signature(process).bind(*_GIVEN, **parameters)
    except TypeError as error:
        raise ConfigError(
            f"process in {name} cannot be called as process({', '.join([*_GIVEN, *(f'{key}=…' for key in parameters)])}): {error}. "
            "Change its parameters or [operator.parameters]."
        ) from None
    return dict(parameters)
