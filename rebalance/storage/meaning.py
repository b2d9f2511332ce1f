"""What the state means, recorded with every epoch: a pipeline file that says otherwise would read it wrongly.

A key, an interval or an operator that has changed makes other sense of the same rows, and nothing would show it. Channels, capacities,
planner and limits may change at any time: they only say where rows lie.
"""

from __future__ import annotations

import json
from typing import Any

from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline
from rebalance.storage.epochs import Epoch


def meaning_of(pipeline: Pipeline) -> str:
    """The knobs that give the state its meaning, as JSON with sorted names."""
    return json.dumps(_knobs(pipeline), sort_keys=True, ensure_ascii=False)


def check_meaning(pipeline: Pipeline, epoch: Epoch) -> None:
    """Refuse a pipeline file that gives the state another meaning than it had when it was written."""
    if not epoch.interval_id:
        return
    was, now = json.loads(epoch.meaning), json.loads(meaning_of(pipeline))
    changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    if not changed:
        return
    said = "; ".join(f"{name} was {_word(was.get(name))} and is {_word(now.get(name))}" for name in changed)
    raise ConfigError(
        f"{pipeline.file.name}: the state up to interval {epoch.interval_id} was made with another meaning: {said}. Nothing was done. "
        f"Put the file back; or process all intervals anew, with an empty folder as `tables` or after `rebalance rewind {pipeline.name} "
        f"--to {pipeline.interval_at(pipeline.interval.first).id}`; or, if the state means the same all the same, say so: "
        f"`rebalance adopt {pipeline.name}`."
    )


def _knobs(pipeline: Pipeline) -> dict[str, Any]:
    operator = pipeline.operator
    knobs: dict[str, Any] = {
        "source.key": list(pipeline.source.key),
        "interval.length": f"{pipeline.interval.length.total_seconds():g} s",
        "operator": operator.label,
        "operator.parameters": operator.parameters,
    }
    if operator.sql is not None:
        knobs |= {"operator.sql.rows": operator.sql.rows, "operator.sql.state": operator.sql.state}
    if operator.horizon is not None:
        knobs["operator.window"] = operator.window
    # As a table gives it back: dates in parameters become text.
    return dict(json.loads(json.dumps(knobs, default=str)))


def _word(value: Any) -> str:
    return "not there" if value is None else json.dumps(value, ensure_ascii=False)
