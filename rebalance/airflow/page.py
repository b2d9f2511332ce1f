"""What a pipeline's page in Airflow says: what the tasks do, where the tables are, which knobs are in force."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from rebalance.pipeline.file import Pipeline
from rebalance.steps import STEPS

#: Settings whose values are nobody else's business.
_SECRET = re.compile(r"secret|password|token|credential|access\.?key|account\.?key", re.IGNORECASE)
_MODES = {
    "auto": "Plans are applied as they are made.",
    "approve": "Before state is moved, `approve_plan` waits for a person (Browse → Required Actions). It is skipped when there is nothing to "
    "approve. A rejection fails the run and pauses the DAG: change the knobs, clear `make_plan` and what follows, then unpause.",
    "shadow": "Plans are made and reported, nothing is ever moved.",
}


def describe(pipeline: Pipeline) -> str:
    """The page of a pipeline, in Markdown."""
    operator = pipeline.operator.name or pipeline.operator.file
    keys = ", ".join(f"`{column}`" for column in pipeline.source.key)
    steps = "\n".join(f"{number}. **{step.name}** {step.about}." for number, step in enumerate(STEPS, 1))
    return f"""\
# {pipeline.name}: balanced `{operator}` per {keys}

Events of `{pipeline.source.path}` in intervals of {_words(pipeline.interval.length)}, on {pipeline.channels.count} channels. One run is one
interval; each task can be run again for its interval and changes nothing the second time. Results are out after the first task:
they are never late because of a plan.

{steps}

**Mode `{pipeline.planning.mode}`.** {_MODES[pipeline.planning.mode]}

**If a task fails:** a message that starts with the kind of trouble (`QualityError`, `SourceError`, …) is final and says what to change.
Everything else is retried {pipeline.airflow.retries} times first. A failed run pauses the DAG, because later intervals build on its state: put right
what the message says, clear the failed task with everything after it, then unpause.

**Tables:** Delta, under `{pipeline.tables}`. `rebalance status {pipeline.file}` reads them without Spark.

## Knobs in force

From `{pipeline.file}`; **bold** where the file says so, else the default.

| knob | value | meaning |
|---|---|---|
{_rows(pipeline)}
"""


def describe_broken(file: str, error: str) -> str:
    """The page of a pipeline file that cannot be used."""
    return f"""\
# `{file}` cannot be used

{error}

The other pipelines are not affected. This page becomes the pipeline's own once the file is right; Airflow looks again every half minute.
"""


def _rows(pipeline: Pipeline) -> str:
    return "\n".join(f"| `{name}` | {value} | {_cell(meaning)} |" for name, value, meaning in _knobs(pipeline))


def _knobs(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _knobs(value, f"{prefix}{name}.")
        elif field.description:
            text = _cell(_words(value))
            yield prefix + name, f"**{text}**" if name in section.model_fields_set else text, field.description


def _words(value: Any) -> str:
    if value is None or value in ((), {}):
        return "–"
    if isinstance(value, timedelta):
        minutes = value // timedelta(minutes=1)
        return f"{minutes} min" if minutes % 60 else f"{minutes // 60} h"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return ", ".join(f"{name} = {'***' if _SECRET.search(name) else item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _cell(text: str) -> str:
    """Text that neither ends a table's cell nor is taken for HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
