"""The section `[retention]` of a pipeline file: what maintenance keeps, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from rebalance.pipeline.intervals import parse_length
from rebalance.pipeline.section import Section


class Retention(Section):
    """What `rebalance maintain` keeps; each knob is a number of intervals or a length of time, '90 d'; unset = everything."""

    results: int | timedelta | None = Field(
        None, description="For how long results and quarantined rows are kept, by the time of events."
    )
    statistics: int | timedelta | None = Field(
        None,
        description="For how long statistics, checks and measurements are kept; those that served epochs build on always are.",
    )
    plans: int | timedelta | None = Field(
        None, description="For how long plans and their moves are kept; one that waits for an answer always is."
    )
    functions: int | timedelta | None = Field(
        None, description="For how long functions are kept; those of served epochs and open plans always are."
    )
    epochs: int | timedelta = Field(
        timedelta(days=7),
        description="How far back `rebalance rewind` can go: the state of older epochs is removed.",
    )
    files: timedelta = Field(
        timedelta(days=1),
        description="How long a file that is needed no more is left alone, for those who still read it; longer than any step takes.",
    )

    @field_validator("results", "statistics", "plans", "functions", "epochs", "files", mode="before")
    @classmethod
    def _sensible(cls, value: Any, info: ValidationInfo) -> Any:
        lengths = "a length of time: '90 d', '12 h', '30 min'"
        wanted = lengths if info.field_name == "files" else f"a number of intervals from 1 up, or {lengths}"
        complaint = f"retention.{info.field_name} = {value!r} is not {wanted}. To keep everything, leave it out."
        if isinstance(value, str):
            try:
                return parse_length(value)
            except ValueError:
                raise ValueError(complaint) from None
        fits = isinstance(value, timedelta) or (info.field_name != "files" and type(value) is int)
        if not fits or value <= type(value)(0):
            raise ValueError(complaint)
        return value
