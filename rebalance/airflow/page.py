"""What a pipeline's page in Airflow says: what the tasks do, where the tables are, which knobs are in force."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from rebalance.airflow.assets import WRITTEN
from rebalance.airflow.operator import page_address
from rebalance.pipeline.file import Pipeline
from rebalance.steps import RESULTS, steps_of

#: Settings whose values are nobody else's business.
_SECRET = re.compile(r"secret|password|token|credential|access\.?key|account\.?key", re.IGNORECASE)
_MODES = {
    "auto": "Plans are carried out as they are made.",
    "approve": "A plan is carried out once a person has approved it, and results do not wait for that. `ask_approval` puts the question: "
    "answer it in Airflow (Browse → Required Actions, or the DAG `{dag}_approve`), or by `rebalance approve {file}`. "
    "The next `migrate_state` then carries the plan out. A newer plan takes the place of an unanswered one.",
    "shadow": "Plans are made and reported, nothing is ever moved.",
}
_ORDERS = {
    "before": "The interval is planned before it is processed, so the plan serves the very events it was made for.",
    "after": "The interval is processed first, so results come sooner, and the plan serves the next one.",
}


def describe(pipeline: Pipeline) -> str:
    """The page of a pipeline, in Markdown."""
    operator = pipeline.operator.label
    keys = ", ".join(f"`{column}`" for column in pipeline.source.key)
    planning, count = pipeline.planning, pipeline.channels.count
    mode = _MODES[planning.mode].format(dag=pipeline.dag_id, file=pipeline.file)
    steps = "\n".join(f"{number}. **{step.name}** {step.about}." for number, step in enumerate(steps_of(pipeline), 1))
    return f"""\
# {pipeline.name}: balanced `{operator}` per {keys}

`{operator}` runs for every {keys} on {count} channels, that is {count} Spark tasks side by side, and keeps state per key. A hash alone gives some
channels far more work than others, and an interval takes as long as its fullest channel. So each interval is counted, and where a channel is
more than {planning.theta_max:.0%} from its fair load, `{planning.planner}` gives a few keys another channel, and only their state moves.

{picture(pipeline)}

One run is one interval of {_words(pipeline.interval.length)}; each task can be run again for its interval and changes nothing the second time.
{_ORDERS[planning.when]} What each task did is its note, what the interval came to is the run's note, and the link **Interval** in a task's details
leads to its interval on [the pipeline's page]({page_address(f"#/dag/{pipeline.dag_id}")}).

{steps}

**Mode `{planning.mode}`.** {mode}

**If a task fails:** a message that starts with the kind of trouble (`QualityError`, `SourceError`, …) is final and says what to change.
Everything else is retried {pipeline.airflow.retries} times first. Then it depends on the task:

- A task that plans: the results are made all the same, by the function that is active, and later intervals run on. The run is marked
  failed, and its note says what was wrong. To plan it once more, clear the failed task; to leave it is safe too.
- `{RESULTS}`: the results of the interval are missing. The run is marked failed and the DAG is paused, because later intervals build on
  this one's state. Put right what the note says, clear the task, then unpause.

**When a run begins:** when its interval has ended. Its first task then waits until `interval.grace` has passed, without a worker. A run
triggered by hand may **skip** the intervals between the newest processed one and its own, which is recorded, or take an interval **now**,
before it is closed. Without that, a run whose interval does not follow the newest processed one is refused. It may also plan with another
**planner** or **theta_max**, or move nothing (**dry_run**), in this one run; the plan's notes say so.

**To fill a range of intervals:** trigger a backfill. They run in the order of time, whatever it says of active runs at once: an interval waits
for the one before.

**Tables:** Delta, under `{pipeline.tables}`. `rebalance status {pipeline.file}` reads them without Spark.

## Knobs in force

From `{pipeline.file}`; **bold** where the file says so, else the default.

| knob | value | meaning |
|---|---|---|
{_rows(pipeline)}
"""


def picture(pipeline: Pipeline) -> str:
    """The flow as a table: Airflow's Markdown draws no diagrams, and runs the lines of a code block together."""
    lines = ["| task | writes |", "|---|---|", f"| events of `{_cell(pipeline.source.place)}` | |"]
    for step in steps_of(pipeline):
        lines.append(f"| ▼ **{step.name}** | {', '.join(f'`{table}`' for table in WRITTEN[step.name])} |")
        if step.name == "migrate_state" and pipeline.planning.mode == "approve":
            lines.append(
                f"| ▶ **ask_approval** | asks a person, in `{pipeline.dag_id}_approve`; nothing waits for the answer |"
            )
    if pipeline.planning.when == "before":
        lines += ["", f"`{RESULTS}` runs whatever became of the other four: results never wait for a plan."]
    return "\n".join(lines)


def describe_approval(pipeline: Pipeline) -> str:
    """The page of the DAG that asks a person about the pipeline's plans."""
    return f"""\
# Approval of the plans of {pipeline.name}

One run per plan, started by `{pipeline.dag_id}` when an interval leaves a plan that would move state. **approve_plan** shows the plan and
waits for a person; **record_answer** stores the answer in the table `approvals`, for exactly the function that was shown. Nothing else waits.
A newer plan takes the place of an unanswered one: the older question closes itself within an interval, and an answer that comes in
between fails `record_answer` and has no effect.

**Approve:** `migrate_state` of the next run of `{pipeline.dag_id}` moves the keys with their state in one commit, verifies it, and switches to the
new function. **Reject:** nothing is moved.
"""


def describe_maintain(pipeline: Pipeline) -> str:
    """The page of the DAG that maintains a pipeline's tables."""
    return f"""\
# Maintenance of {pipeline.name}

The same as `rebalance maintain {pipeline.file}`: it removes rows that `[retention]` gives up, old entries of logs, files that no served epoch
needs and leftovers of killed runs, and rewrites state that lies in pieces. It changes no result and no row of the state, and can be killed and
run again at any time. With **dry_run** it only says what it would do. What it did is the task's note.
"""


def describe_rewind(pipeline: Pipeline) -> str:
    """The page of the DAG that rewinds a pipeline."""
    return f"""\
# Rewind of {pipeline.name}

The same as `rebalance rewind {pipeline.file}`: trigger it with the first interval that is to be run again, for example because its events were
corrected. What happens then:

1. Function and state from before that interval become active, at once and by one row (an epoch). Nothing is deleted.
2. Results of that interval and the later ones stay as they are until these run again.
3. That is yours to start: clear the runs of `{pipeline.dag_id}` from that interval on, oldest first.

With **undo**, the newest rewind is taken back instead, as long as nothing has run since. What it did is the task's note.
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
        return f"{minutes} min" if minutes % 60 or not minutes else f"{minutes // 60} h"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return ", ".join(f"{name} = {'***' if _SECRET.search(name) else item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _cell(text: str) -> str:
    """Text that neither ends a table's cell nor is taken for HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
