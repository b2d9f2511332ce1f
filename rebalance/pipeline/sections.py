"""The sections of a pipeline file that need no file of their own: every knob with its meaning, unit and default."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from rebalance.pipeline.intervals import cron_of, parse_length, parse_span
from rebalance.pipeline.section import Section

Mode = Literal["auto", "approve", "shadow"]
Consistency = Literal["move", "merge"]
When = Literal["before", "after"]
Statistics = Literal["exact", "frequent", "compact"]


class IntervalSection(Section):
    """How time is cut."""

    length: timedelta = Field(
        description="Length of an interval: '15 min', '1 h', '1 d'. It must divide a day, so that intervals start at the same times every day (UTC)."
    )
    first: datetime = Field(description="Start of the first interval (UTC).")
    grace: timedelta = Field(
        timedelta(minutes=10),
        ge=timedelta(0),
        description="How long after its end an interval is left open for events that are written late: '10 min', '0 min'. Writers that commit every few minutes are done by then, and what comes later is in no result until a rewind.",
    )
    watch_late: timedelta = Field(
        timedelta(0),
        description="How far back events are counted again after each interval, to tell of those that came late: '1 d'; '0 min' = not at all. It reads the time column of that much of the source.",
    )

    @field_validator("length", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return parse_length(value) if isinstance(value, str) else value

    @field_validator("grace", "watch_late", mode="before")
    @classmethod
    def _parse_span(cls, value: Any, info: ValidationInfo) -> Any:
        return parse_span(value, f"interval.{info.field_name}") if isinstance(value, str) else value

    @field_validator("first")
    @classmethod
    def _utc(cls, value: datetime) -> datetime:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    @model_validator(mode="after")
    def _aligned(self) -> IntervalSection:
        cron_of(self.length)
        if self.watch_late < timedelta(0):
            raise ValueError(f"interval.watch_late = {self.watch_late} is before nothing. Write for example '1 d'.")
        past_midnight = self.first - self.first.replace(hour=0, minute=0, second=0, microsecond=0)
        if past_midnight % self.length:
            raise ValueError(
                f"interval.first = {self.first.isoformat()} does not start an interval: with a length of {self.length} "
                f"the one before it starts at {(self.first - past_midnight % self.length).isoformat()}. Use that."
            )
        return self


class Channels(Section):
    """The units of parallel work: one Spark partition and one state partition each."""

    count: int = Field(8, ge=1, le=4096, description="N, the number of channels.")
    capacities: tuple[float, ...] = Field(
        (), description="cap(d) of each channel, no unit, only ratios matter; empty = all equal."
    )
    replicas: int = Field(1000, ge=1, le=100_000, description="Points of a channel on the consistent-hash ring.")
    excluded: tuple[int, ...] = Field((), description="Channels to be drained: they end up empty.")

    @model_validator(mode="after")
    def _checks(self) -> Channels:
        if self.capacities and len(self.capacities) != self.count:
            raise ValueError(
                f"channels.capacities has {len(self.capacities)} values for channels.count = {self.count}. Give one per channel, or none."
            )
        if any(c <= 0 for c in self.capacities):
            raise ValueError(
                "channels.capacities must be positive. To use a channel no more, list it in channels.excluded."
            )
        bad = [c for c in self.excluded if not 0 <= c < self.count]
        if bad:
            raise ValueError(f"channels.excluded names {bad}, but the channels are 0..{self.count - 1}.")
        if len(set(self.excluded)) == self.count:
            raise ValueError(f"channels.excluded drains all {self.count} channels. Leave at least one.")
        return self


class NodeSection(Section):
    """A machine and its channels; planners that balance inside machines and between them need to know."""

    name: str = Field(min_length=1, description="What the node is called in plans.")
    channels: tuple[int, ...] = Field(min_length=1, description="The channels that run on it.")
    cores: float = Field(1.0, gt=0, description="Number of cores.")
    ghz: float = Field(1.0, gt=0, description="Clock of a core in GHz.")
    memory: float = Field(1.0, gt=0, description="Memory in GiB.")


class Planning(Section):
    """When and how the partitioning function is rebuilt."""

    planner: str = Field("frugal", description="The algorithm; docs/planners.md compares them.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="The planner's own parameters, in its paper's letters."
    )
    theta_max: float = Field(
        0.08,
        ge=0,
        description="Largest allowed θ = |load - fair load| / fair load; 0.08 = 8 % off. Beyond it a plan is made.",
    )
    max_routes: int = Field(3000, ge=0, description="A_max: largest number of keys with a route of their own.")
    max_bytes: int | None = Field(None, ge=0, description="Largest state in bytes one plan may move; unset = no limit.")
    pinned: tuple[str | int, ...] = Field((), description="Keys that never move.")
    consistency: Consistency = Field(
        "move",
        description="What a change of channel does to a key's state. move: it goes along. merge: it stays where it was made, and an interval's partial states are merged at its end; only for operators whose states merge.",
    )
    statistics: Statistics = Field(
        "exact",
        description="How keys come to the planner. exact: all of them, up to about ten million. frequent: only those come by name that have a large share of the rows, found by lossy counting. compact: Spark counts and keeps them, and only those that a plan may need come by name.",
    )
    frequent_error: float | None = Field(
        None,
        ge=1e-6,
        le=0.1,
        description="With statistics = 'frequent': a key without a name has less than this share of the rows, 0.001 = one in a thousand. At most about three keys for each such share have a name. Unset = theta_max / (10 · channels.count), at least 0.00001 and at most 0.01.",
    )
    compact_r: int = Field(
        3,
        ge=0,
        le=6,
        description="With statistics = 'compact': keys count as alike whose cost and state differ by less than 2^-r.",
    )
    mode: Mode = Field(
        "auto",
        description="auto: plans are applied. approve: a plan is applied once a person has approved it; results do not wait for that. shadow: plan and report, never move anything.",
    )
    when: When = Field(
        "before",
        description="before: an interval is planned before it is processed, so the plan serves it. after: it is processed first, so results come sooner, and the plan serves the next one.",
    )

    def error(self, channels: int) -> float:
        """The share of the rows below which a key needs no name: by default a tenth of θ_max of a channel's fair load."""
        if self.frequent_error is not None:
            return self.frequent_error
        return min(max(self.theta_max / (10 * channels), 1e-5), 1e-2)


class Quality(Section):
    """Checks on the statistics, and on the events if asked; nothing is planned on bad ones."""

    volume: Literal["stop", "warn"] = Field(
        "stop",
        description="What an unusual number of rows does. stop: the interval is not planned on. warn: it is only reported, as an interval without rows always is.",
    )
    volume_factor: float = Field(
        10.0,
        gt=1,
        description="An interval's rows may differ from the usual number by this factor at most, either way.",
    )
    volume_history: int = Field(
        8,
        ge=0,
        le=366,
        description="The usual number is the median at the same time of day on this many days before; while fewer than 2 of them are known, of this many intervals before. 0 switches the check off.",
    )
    expectations: str | None = Field(
        None,
        description="A Python file with your own Great Expectations on the statistics and the events; docs/quality.md shows one.",
    )
    docs: str | None = Field(
        None, description="Local folder for Great Expectations' Data Docs; unset = _quality under the tables."
    )
    docs_keep: int = Field(
        200, ge=1, description="How many of the newest pages Data Docs keep; the table quality_runs keeps every result."
    )


class AirflowSection(Section):
    """How Airflow runs it."""

    owner: str = Field("airflow", min_length=1, description="Who owns the DAGs, for Airflow's list of them.")
    pool: str = Field("default_pool", description="Airflow pool of the tasks; it must exist.")
    retries: int = Field(2, ge=0, description="Retries of a task that failed for a passing reason.")
    retry_delay_seconds: float = Field(30.0, ge=0, description="Seconds before a retry.")
    planning_timeout_minutes: float = Field(
        60.0, gt=0, description="Minutes after which a task that plans is given up: results wait no longer."
    )
    results_timeout_minutes: float | None = Field(
        None, gt=0, description="Minutes after which process_batch is stopped and tried again; unset = never."
    )
    catchup: bool = Field(
        True,
        description="Whether unpausing the DAG runs all intervals since interval.first, or since the newest processed one, in order. false: only the newest of them; the others are left out, which `rebalance status` shows.",
    )
    maintain: str = Field(
        "@daily",
        pattern=r"^(none|@(hourly|daily|weekly|monthly)|\S+( \S+){4})$",
        description="When the DAG rebalance_<name>_maintain runs: a cron line, or one of Airflow's names for one; 'none' = by hand only.",
    )


class SparkSection(Section):
    """Where Spark runs."""

    master: str = Field("local[*]", description="Spark master, for example spark://host:7077.")
    state_in_place: bool = Field(
        True,
        description="Whether the window's state is read where it lies. false: it is exchanged with the events, slower, with the same results.",
    )
    resources_timeout_minutes: float = Field(
        30.0,
        gt=0,
        description="Minutes for which a job may wait on a cluster with no task at work; then the step fails and says where to look.",
    )
    warm: float = Field(
        10.0,
        ge=0,
        description="Minutes for which a task in Airflow leaves its JVM to the next, on local masters; 0 = off.",
    )
    packages: tuple[Annotated[str, Field(pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$")], ...] = Field(
        (),
        description="Maven packages (group:artifact:version) whose jars Spark needs beside Delta's, for example for S3; docs/object_stores.md. Fetched once.",
    )
    settings: dict[str, str] = Field(
        default_factory=dict, description="Any spark.* setting; yours win over our defaults."
    )
