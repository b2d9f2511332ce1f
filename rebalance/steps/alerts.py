"""What needs a person, as a step leaves it: found in the tables, posted to the webhook of [alerts].

Telling is never a failure: what goes wrong here is a warning, and the step's outcome stands. The webhook's address is a secret and is in no
message.
"""

from __future__ import annotations

import json
import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rebalance.errors import QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.steps import AS_USUAL, RESULTS, Insist, run_step
from rebalance.storage import control
from rebalance.storage.history import IntervalRecord, read_history
from rebalance.storage.late import Late, advice

Kind = Literal[
    "step_failed", "quality_failed", "plan_refused", "late_events", "imbalance_stays", "worse_than_predicted"
]

log = logging.getLogger("rebalance")


@dataclass(frozen=True)
class Alert:
    """One thing that needs a person."""

    kind: Kind
    pipeline: str
    interval: str
    step: str
    message: str

    def body(self) -> bytes:
        """As JSON; `text` is what chat services show."""
        told = asdict(self)
        told["text"] = f"{self.pipeline} {self.interval} {self.step}: {self.kind.replace('_', ' ')}. {self.message}"
        return json.dumps(told).encode()


def run_and_tell(step: str, pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Run a step that is not tried again, and tell what of it needs a person."""
    try:
        done = run_step(step, pipeline, interval, insist)
    except Exception as error:
        tell(pipeline, interval, step, error)
        raise
    tell(pipeline, interval, step)
    return done


def tell(pipeline: Pipeline, interval: Interval, step: str, error: BaseException | None = None) -> list[Alert]:
    """Find what a step that has ended, well or with an error, gives cause to alert, and post it; returns it."""
    try:
        if error is not None:
            kind: Kind = "quality_failed" if isinstance(error, QualityError) else "step_failed"
            found = [(kind, f"{type(error).__name__}: {error}")]
        else:
            found = list(_findings(pipeline, interval, step))
    except Exception:
        log.warning("%s %s: it cannot be told whether there is cause to alert", step, interval.id, exc_info=True)
        return []
    alerts = [Alert(kind, pipeline.name, interval.id, step, message) for kind, message in found]
    for alert in alerts:
        _post(pipeline, alert)
    return alerts


def _findings(pipeline: Pipeline, interval: Interval, step: str) -> Iterator[tuple[Kind, str]]:
    if step == "make_plan":
        plans = control.rows(pipeline.tables, "plans", interval_id=interval.id)
        newest = max(plans, key=lambda plan: int(plan["base_function"]), default=None)
        if newest and newest["decision"] == "reject":
            yield "plan_refused", newest["reason"]
    if step == RESULTS:
        # A row changes when its count does: told once.
        seen = control.rows(
            pipeline.tables, "late_events", columns=["interval_id", "events", "late"], seen_by=interval.id
        )
        if seen:
            yield "late_events", advice(sorted(map(_late, seen), key=str), pipeline.name)
        # One more than the streak: was it alerted before?
        wanted = pipeline.alerts.imbalance_intervals + 1
        records = [record for record in read_history(pipeline.tables, wanted) if record.interval_id <= interval.id]
        if records and records[-1].interval_id == interval.id:
            yield from _of_loads(pipeline, records)


def _late(row: dict[str, Any]) -> Late:
    return Late(row["interval_id"], row["events"], row["late"])


def _of_loads(pipeline: Pipeline, records: list[IntervalRecord]) -> Iterator[tuple[Kind, str]]:
    newest, limit, streak = records[-1], pipeline.planning.theta_max, pipeline.alerts.imbalance_intervals
    capacities = pipeline.capacities()
    above_fair = [record.above_fair(capacities) for record in records]
    above = [excess > limit for excess in above_fair]
    # Told once, when the streak is just long enough.
    if len(above) >= streak and all(above[-streak:]) and not (len(above) > streak and above[-streak - 1]):
        yield (
            "imbalance_stays",
            f"for {streak} intervals a channel had more than θ_max = {limit:g} above its fair load; now {above_fair[-1]:.2f}. "
            f"The newest plan: {newest.decision or 'none'}. {newest.reason}".rstrip(),
        )
    # A plan that serves the next interval promises nothing about this one.
    promised = newest.predicted if newest.applied and pipeline.planning.when == "before" else None
    if promised is not None and newest.reached > promised + limit:
        yield (
            "worse_than_predicted",
            f"the fullest channel got {newest.reached:.2f} times the mean; the plan said {promised:.2f}. Events may have come after they were "
            "counted, or keys are split.",
        )


def _post(pipeline: Pipeline, alert: Alert) -> None:
    if pipeline.alerts.webhook is None:
        return
    address = os.path.expandvars(pipeline.alerts.webhook.get_secret_value())
    if not re.match("https?://", address):
        log.warning("alert %s was not posted: the variable that alerts.webhook names has no URL here", alert.kind)
        return
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(address, data=alert.body(), headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=pipeline.alerts.timeout_seconds):
            pass
    except Exception as error:
        log.warning("alert %s was not posted: the webhook %s", alert.kind, _trouble(error))


def _trouble(error: Exception) -> str:
    """What went wrong, without the address."""
    if isinstance(error, urllib.error.HTTPError):
        return f"answered {error.code}"
    reason = getattr(error, "reason", error)
    return f"cannot be reached ({type(reason).__name__})"
