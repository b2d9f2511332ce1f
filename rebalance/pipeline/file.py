"""One file per pipeline, read and checked; the modules beside this one have every knob with its meaning, unit and default.

The file is TOML. Unknown knobs are refused with the nearest known one, impossible pairs with the alternative named. Paths may use
environment variables and are relative to the file. Nothing here imports Spark, so an Airflow DAG file can read it in milliseconds.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError, model_validator

from rebalance.errors import ConfigError
from rebalance.operators import BUILT_IN, AnyOperator
from rebalance.pipeline.alerts import Alerts
from rebalance.pipeline.folder import FOLDER_VARIABLE, pipeline_names, pipelines_folder
from rebalance.pipeline.intervals import Interval
from rebalance.pipeline.operator import OperatorSection
from rebalance.pipeline.retention import Retention
from rebalance.pipeline.section import Section
from rebalance.pipeline.sections import (
    AirflowSection,
    Channels,
    IntervalSection,
    NodeSection,
    Planning,
    Quality,
    SparkSection,
)
from rebalance.pipeline.source import Source
from rebalance.planners.registry import PLANNERS, make_planner
from rebalance.planning.interface import Planner, needs_merging, plans_on_some_keys
from rebalance.planning.model import Node, check_nodes
from rebalance.stores.places import STORES, complaint, is_remote, qualified, remember


class Pipeline(Section):
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
    retention: Retention = Retention()
    alerts: Alerts = Alerts()
    airflow: AirflowSection = AirflowSection()
    spark: SparkSection = SparkSection()
    #: Where the file was read from.
    file: Path

    @property
    def dag_id(self) -> str:
        """The Airflow DAG of this pipeline."""
        return f"rebalance_{self.name}"

    def make_operator(self) -> AnyOperator:
        """The pipeline's operator, built in or the user's own; refused if the planning needs states that merge and its do not."""
        operator = self.operator.make()
        if not operator.mergeable:
            self._refuse_merging(operator.name)
        return operator

    def states_merge(self) -> bool:
        """Whether the operator's states merge. No code of the user's is run to tell, unless the operator is a class of theirs."""
        if self.operator.function is None:
            return self.make_operator().mergeable
        # A function per key says nothing of merging.
        self._refuse_merging(self.operator.label)
        return False

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

    def retained(self, what: Literal["results", "statistics", "plans", "functions", "epochs"]) -> int | None:
        """How many intervals of something are kept; None = all of them."""
        kept: int | timedelta | None = getattr(self.retention, what)
        return -(-kept // self.interval.length) if isinstance(kept, timedelta) else kept

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
    def _places(self) -> Pipeline:
        for knob, path, schemes in (("tables", self.tables, STORES), ("source.path", self.source.path, None)):
            wrong = complaint(knob, path, schemes)
            if wrong:
                raise ValueError(wrong)
        if is_remote(self.quality.docs or self.tables):
            raise ValueError(
                "Data Docs need a local folder: set quality.docs to one on this machine. "
                f"{'It is' if self.quality.docs else 'They would be under tables, which is'} on an object store."
            )
        return self

    @model_validator(mode="after")
    def _pairs(self) -> Pipeline:
        self.make_planner()
        if self.planning.statistics != "exact":
            self._refuse_some_keys()
        # A user's own file is not run just to read the settings; it is checked when the operator is made.
        if self.operator.file is None and self.operator.function is None:
            self.make_operator()
        return self

    def _refuse_some_keys(self) -> None:
        planner, statistics = self.make_planner(), f"planning.statistics = {self.planning.statistics!r}"
        if not plans_on_some_keys(planner):
            able = ", ".join(sorted(name for name, kind in PLANNERS.items() if plans_on_some_keys(kind)))
            raise ConfigError(
                f"{statistics} tells a planner of some keys only, and planner {planner.name!r} needs all of them. "
                f"Use one of the planners {able}; or 'exact'."
            )
        if getattr(planner, "max_keys", None) is not None:
            raise ConfigError(
                f"planner {planner.name!r} cannot count the keys of a channel for max_keys with {statistics}. Leave max_keys out; or use 'exact'."
            )
        if self.operator.function is not None:
            raise ConfigError(
                f"{statistics} adds up what keys cost, but what a function per key costs is measured for each key. Use 'exact'."
            )

    def _refuse_merging(self, operator: str) -> None:
        planner = self.make_planner()
        cannot = f"the states of operator {operator!r} cannot be merged"
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


def load_pipeline(file: str | Path, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Pipeline:
    """Read and check a pipeline file; every complaint names the knob.

    `changes` are knobs by section, in the place of the file's own: they are checked as if they stood in it.
    """
    path, content = _content(Path(file))
    for section, knobs in (changes or {}).items():
        content[section] = {**content.get(section, {}), **knobs}
    content.setdefault("name", path.stem)
    for section, knob in (
        ("", "tables"),
        ("source", "path"),
        ("operator", "file"),
        ("operator", "function"),
        ("quality", "expectations"),
        ("quality", "docs"),
    ):
        holder = content.get(section, {}) if section else content
        if isinstance(holder, dict) and isinstance(holder.get(knob), str):
            holder[knob] = _resolve(holder[knob], path.parent)
    try:
        pipeline = Pipeline(**content, file=path)
        remember(pipeline.tables, pipeline.spark.settings)
        return pipeline
    except ValidationError as error:
        raise ConfigError(f"{path.name}: " + "; ".join(_explain(e) for e in error.errors())) from None
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _content(path: Path) -> tuple[Path, dict[str, Any]]:
    """The file's whole path, and what stands in it."""
    try:
        path = path.resolve()
        content = tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        raise ConfigError(f"there is no pipeline file {path}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#x}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the pipeline file {str(path)!r} cannot be read: {error}") from None
    if "file" in content:
        raise ConfigError(f"{path.name}: there is no knob 'file'. A team's own operator is operator.file.")
    return path, content


def find_pipeline(name: str) -> Pipeline:
    """A pipeline by its file, or by its name in the folder of pipelines."""
    if Path(name).suffix == ".toml" or os.path.isfile(name):
        return load_pipeline(name)
    file = pipelines_folder() / f"{name}.toml"
    if not os.path.isfile(file):
        known = ", ".join(pipeline_names()) or "none"
        raise ConfigError(
            f"there is no pipeline {name!r} in {file.parent.absolute()}. There are: {known}. Give a file, or name the folder in {FOLDER_VARIABLE}."
        )
    return load_pipeline(file)


def _resolve(value: str, folder: Path) -> str:
    expanded = os.path.expanduser(os.path.expandvars(value))
    return qualified(expanded, folder)


def _explain(error: Any) -> str:
    """One pydantic complaint in our words: which knob, what is wrong, what to use."""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        model: Any = Pipeline
        for part in error["loc"][:-1]:
            kind = model if isinstance(part, int) else model.model_fields[part].annotation
            model = next((inner for inner in get_args(kind) if hasattr(inner, "model_fields")), kind)
        known = [name for name in model.model_fields if name != "file" or model is not Pipeline]
        close = get_close_matches(str(error["loc"][-1]), known, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        return f"there is no knob {where!r}.{meant} Known: {', '.join(known)}."
    if error["type"] == "missing":
        return f"{where} is missing."
    message = re.sub("^Value error, ", "", error["msg"])
    # A setting of Spark may be a secret.
    given = "" if where.startswith("spark.settings") else f" = {error['input']!r}"
    return message if error["type"] == "value_error" else f"{where}{given}: {message}"
