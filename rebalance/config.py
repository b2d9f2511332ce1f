"""One file per pipeline: every knob with its meaning, unit and default.

The file is TOML. Unknown knobs are refused with the nearest known one, impossible pairs with the alternative named. Paths may use
environment variables and are relative to the file. Nothing here imports Spark, so an Airflow DAG file can read it in milliseconds.
"""

from __future__ import annotations

import os
import re
import tomllib
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rebalance.errors import ConfigError
from rebalance.intervals import Interval, cron_of, parse_length
from rebalance.model import Node, check_nodes
from rebalance.operators import BUILT_IN, Operator, operator_of
from rebalance.planners import PLANNERS, make_planner
from rebalance.planners.base import Planner, needs_merging

Mode = Literal["auto", "approve", "shadow"]
Consistency = Literal["move", "merge"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Section):
    """Where the events are."""

    path: str = Field(description="Folder, file or URI of the events: a Delta table, or Parquet, CSV or JSON files.")
    format: Literal["delta", "parquet", "csv", "json"] = Field("delta", description="How the events are stored.")
    key: tuple[str, ...] = Field(
        description="Key column, or several. One integer column stays an integer, everything else becomes text; several columns are joined by U+001F."
    )
    time: str = Field(description="Event time column (TIMESTAMP; without a zone it is read as UTC).")
    columns: str | None = Field(
        None, description="Column list as SQL types, for example 'ts TIMESTAMP, user STRING'. Needed for csv and json."
    )

    @field_validator("key", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _checks(self) -> Source:
        if not self.key:
            raise ValueError("source.key names no column. Name at least one.")
        if self.format in ("csv", "json") and not self.columns:
            raise ValueError(
                f"source.format = '{self.format}' needs source.columns: guessing the types would read every file twice and "
                "may guess differently each interval. Give them, or store the events as parquet or delta."
            )
        return self


class IntervalSection(_Section):
    """How time is cut."""

    length: timedelta = Field(
        description="Length of an interval: '15 min', '1 h', '1 d'. It must divide a day, so that intervals start at the same times every day (UTC)."
    )
    first: datetime = Field(description="Start of the first interval (UTC).")

    @field_validator("length", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return parse_length(value) if isinstance(value, str) else value

    @field_validator("first")
    @classmethod
    def _utc(cls, value: datetime) -> datetime:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    @model_validator(mode="after")
    def _aligned(self) -> IntervalSection:
        cron_of(self.length)
        past_midnight = self.first - self.first.replace(hour=0, minute=0, second=0, microsecond=0)
        if past_midnight % self.length:
            raise ValueError(
                f"interval.first = {self.first.isoformat()} does not start an interval: with a length of {self.length} "
                f"the one before it starts at {(self.first - past_midnight % self.length).isoformat()}. Use that."
            )
        return self


class OperatorSection(_Section):
    """What is computed per key."""

    name: str | None = Field(None, description="A built-in operator; docs/operators.md lists them.")
    file: str | None = Field(
        None, description="Instead of name: a Python file that defines OPERATOR, your own operator."
    )
    window: int = Field(
        1, ge=1, description="w: how many intervals of state an operator sees, the current one included."
    )
    parameters: dict[str, Any] = Field(default_factory=dict, description="The operator's own parameters.")

    @model_validator(mode="after")
    def _one(self) -> OperatorSection:
        if (self.name is None) == (self.file is None):
            raise ValueError("operator needs exactly one of operator.name (built in) and operator.file (your own).")
        return self


class Channels(_Section):
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
        if any(not 0 < c < float("inf") for c in self.capacities):
            raise ValueError(
                "channels.capacities must be positive. To use a channel no more, list it in channels.excluded."
            )
        bad = [c for c in self.excluded if not 0 <= c < self.count]
        if bad:
            raise ValueError(f"channels.excluded names {bad}, but the channels are 0..{self.count - 1}.")
        if len(set(self.excluded)) == self.count:
            raise ValueError(f"channels.excluded drains all {self.count} channels. Leave at least one.")
        return self


class NodeSection(_Section):
    """A machine and its channels; planners that balance inside machines and between them need to know."""

    name: str = Field(min_length=1, description="What the node is called in plans.")
    channels: tuple[int, ...] = Field(min_length=1, description="The channels that run on it.")
    cores: float = Field(1.0, gt=0, allow_inf_nan=False, description="Number of cores.")
    ghz: float = Field(1.0, gt=0, allow_inf_nan=False, description="Clock of a core in GHz.")
    memory: float = Field(1.0, gt=0, allow_inf_nan=False, description="Memory in GiB.")


class Planning(_Section):
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
    mode: Mode = Field(
        "auto",
        description="auto: plans are applied. approve: a person approves each one. shadow: plan and report, never move anything.",
    )


class Quality(_Section):
    """Checks on the statistics; nothing is planned on bad ones."""

    volume_factor: float = Field(
        10.0,
        gt=1,
        description="An interval's events may differ from the recent mean by this factor at most, either way.",
    )
    volume_history: int = Field(
        8, ge=0, description="How many recent intervals make that mean; 0 switches the check off."
    )
    docs: str | None = Field(
        None, description="Local folder for Great Expectations' Data Docs; unset = _quality under the tables."
    )


class AirflowSection(_Section):
    """How Airflow runs it."""

    pool: str = Field("default_pool", description="Airflow pool of the tasks; it must exist.")
    retries: int = Field(2, ge=0, description="Retries of a task that failed for a passing reason.")
    retry_delay_seconds: float = Field(30.0, ge=0, description="Seconds before a retry.")
    catchup: bool = Field(
        True, description="Whether unpausing the DAG runs the intervals since interval.first, in order."
    )


class SparkSection(_Section):
    """Where Spark runs."""

    master: str = Field("local[*]", description="Spark master, for example spark://host:7077.")
    settings: dict[str, str] = Field(
        default_factory=dict, description="Any spark.* setting; yours win over our defaults."
    )


class Pipeline(_Section):
    """A whole pipeline file."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$", description="Name; the DAG is rebalance_<name>.")
    tables: str = Field(description="Root folder or URI of all Delta tables of this pipeline.")
    deletion_vectors: bool = Field(
        True,
        description="Whether a migration marks moved rows as deleted (true) or rewrites their files (false: slower, for readers without deletion vectors).",
    )
    source: Source
    interval: IntervalSection
    operator: OperatorSection
    channels: Channels = Channels()
    nodes: tuple[NodeSection, ...] = Field(
        (), description="The machines, one [[nodes]] table each; none = nothing is known of them."
    )
    planning: Planning = Planning()
    quality: Quality = Quality()
    airflow: AirflowSection = AirflowSection()
    spark: SparkSection = SparkSection()
    #: Where the file was read from.
    file: Path

    @property
    def dag_id(self) -> str:
        """The Airflow DAG of this pipeline."""
        return f"rebalance_{self.name}"

    def make_operator(self) -> Operator:
        """The pipeline's operator, built in or the user's own; refused if the planning needs states that merge and its do not."""
        operator = operator_of(self.operator.name, self.operator.file, self.operator.parameters)
        if not operator.mergeable:
            self._refuse_merging(operator)
        return operator

    def make_planner(self) -> Planner:
        """The pipeline's planner with its parameters."""
        return make_planner(self.planning.planner, self.planning.parameters)

    def make_nodes(self) -> tuple[Node, ...]:
        """The machines as a planner gets them."""
        return tuple(Node(**node.model_dump()) for node in self.nodes)

    def capacities(self) -> tuple[float, ...]:
        """cap(d) of each channel: as declared, else an even part of its node's performance, else 1."""
        if self.channels.capacities or not self.nodes:
            return self.channels.capacities or (1.0,) * self.channels.count
        p = getattr(self.make_planner(), "p", 0.5)
        part = {d: node.performance(p) / len(node.channels) for node in self.make_nodes() for d in node.channels}
        return tuple(part[d] for d in range(self.channels.count))

    def interval_at(self, start: datetime) -> Interval:
        """The interval that starts at this time; refuses times at which none does."""
        return Interval.starting(start, self.interval.first, self.interval.length)

    @model_validator(mode="after")
    def _every_channel_on_a_node(self) -> Pipeline:
        names = [node.name for node in self.nodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"nodes has {twice[0]!r} more than once. Give every node a name of its own.")
        if self.nodes:
            check_nodes(self.make_nodes(), self.channels.count)
        return self

    @model_validator(mode="after")
    def _pairs(self) -> Pipeline:
        self.make_planner()
        # A user's own file is not run just to read the settings; it is checked when the operator is made.
        if self.operator.name is not None:
            self.make_operator()
        return self

    def _refuse_merging(self, operator: Operator) -> None:
        planner = self.make_planner()
        cannot = f"the states of operator {operator.name!r} cannot be merged"
        merging = f"or a mergeable operator: {', '.join(sorted(n for n, o in BUILT_IN.items() if o.mergeable))}."
        if needs_merging(planner):
            raise ConfigError(
                f"planner {planner.name!r} splits keys, but {cannot}. Use one of the planners {whole_key_planners()}; {merging}"
            )
        if self.planning.consistency == "merge":
            raise ConfigError(
                f"planning.consistency = 'merge' leaves a key's state on several channels, but {cannot}. Use 'move'; {merging}"
            )


def whole_key_planners() -> str:
    """The planners that keep keys whole where they must, for messages."""
    return ", ".join(sorted(name for name, planner in PLANNERS.items() if not needs_merging(planner)))


def load_pipeline(file: str | Path) -> Pipeline:
    """Read and check a pipeline file; every complaint names the knob."""
    path = Path(file).resolve()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no pipeline file {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    content.setdefault("name", path.stem)
    for section, knob in (("", "tables"), ("source", "path"), ("operator", "file"), ("quality", "docs")):
        holder = content.get(section, {}) if section else content
        if isinstance(holder, dict) and isinstance(holder.get(knob), str):
            holder[knob] = _resolve(holder[knob], path.parent)
    try:
        return Pipeline(**content, file=path)
    except ValidationError as error:
        raise ConfigError(f"{path.name}: " + "; ".join(_explain(e) for e in error.errors())) from None
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _resolve(value: str, folder: Path) -> str:
    expanded = os.path.expanduser(os.path.expandvars(value))
    return expanded if "://" in expanded else os.path.normpath(folder / expanded)


def _explain(error: Any) -> str:
    """One pydantic complaint in our words: which knob, what is wrong, what to use."""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        model: Any = Pipeline
        for part in error["loc"][:-1]:
            model = get_args(model)[0] if isinstance(part, int) else model.model_fields[part].annotation
        known = [name for name in model.model_fields if name != "file"]
        close = get_close_matches(str(error["loc"][-1]), known, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        return f"there is no knob {where!r}.{meant} Known: {', '.join(known)}."
    if error["type"] == "missing":
        return f"{where} is missing."
    message = re.sub("^Value error, ", "", error["msg"])
    return message if error["type"] == "value_error" else f"{where} = {error['input']!r}: {message}"
