"""The section `[source]` of a pipeline file: where the events are, and what is done with bad ones."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from rebalance.pipeline.partitions import Partitions
from rebalance.pipeline.section import Section


class Source(Section):
    """Where the events are: exactly one of path and table."""

    path: str = Field(
        "", description="Folder, file or URI of the events: a Delta table, or Parquet, CSV or JSON files."
    )
    table: str = Field(
        "", description="Instead of path: a Delta table by its name in Spark's catalog, for example 'sales.events'."
    )
    format: Literal["delta", "parquet", "csv", "json"] = Field("delta", description="How the events are stored.")
    key: tuple[str, ...] = Field(
        description="Key column, or several. One integer column stays an integer, everything else becomes text; several columns are joined by U+001F (inside a value it is written \\s, and a backslash \\\\)."
    )
    time: str = Field(description="Event time column (TIMESTAMP; without a zone it is read as UTC).")
    columns: str | None = Field(
        None, description="Column list as SQL types, for example 'ts TIMESTAMP, user STRING'. Needed for csv and json."
    )
    partitions: dict[str, str] = Field(
        default_factory=dict,
        description="Partition columns that follow from the event time (UTC), outermost first, with their formats: {day = '%Y-%m-%d', hour = '%H'}. An interval then lists and reads its own files only.",
    )
    on_bad_rows: Literal["fail", "quarantine"] = Field(
        "fail",
        description="What rows do that are malformed, have no key or no time, or lie in the wrong partition. fail: the interval fails with their number and an example. quarantine: they go to the table quarantine, and the others are processed.",
    )

    @property
    def place(self) -> str:
        """Where the events are, for messages."""
        return self.path or self.table

    @field_validator("key", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _checks(self) -> Source:
        if bool(self.path) == bool(self.table):
            raise ValueError(
                f"source needs exactly one of source.path and source.table; it has {'both' if self.path else 'neither'}."
            )
        if self.table and self.format != "delta":
            raise ValueError(
                f"source.table names a Delta table, but source.format = '{self.format}'. Leave the format out, or use source.path."
            )
        if not self.key:
            raise ValueError("source.key names no column. Name at least one.")
        if self.format in ("csv", "json") and not self.columns:
            raise ValueError(
                f"source.format = '{self.format}' needs source.columns: guessing the types would read every file twice and "
                "may guess differently each interval. Give them, or store the events as parquet or delta."
            )
        if self.partitions:
            Partitions(self.partitions).check()
        return self
