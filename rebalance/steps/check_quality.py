"""check_quality: Great Expectations on the interval's statistics, and on its events if asked. Nothing is planned on bad ones.

Leaves a row per expectation in `quality_runs` and a page per suite in Data Docs. Starts Spark only for a team's own expectations on
events.
"""

from __future__ import annotations

from rebalance.errors import QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.pipeline.intervals import Interval
from rebalance.quality.docs import docs_index, write_docs
from rebalance.quality.facts import Facts, read_facts
from rebalance.quality.own import own_expectations
from rebalance.quality.runs import Row, passed_already, stopping, warnings
from rebalance.quality.suite import as_checked, key_stats_suite
from rebalance.quality.validate import Checked, check_pandas, check_spark, keep_to_ourselves
from rebalance.steps import AS_USUAL, Insist
from rebalance.steps.faults import checkpoint
from rebalance.steps.logs import note
from rebalance.steps.turn import its_turn
from rebalance.storage import control


def check_quality(pipeline: Pipeline, interval: Interval, insist: Insist = AS_USUAL) -> str:
    """Check one interval; raises QualityError naming every failed expectation that stops planning."""
    root, index = pipeline.tables, docs_index(pipeline)
    with its_turn(pipeline, interval, insist):
        facts = read_facts(pipeline, interval)
        if passed_already(root, interval.id):
            return f"interval {interval.id} passed already; nothing changed"
        keys, checked = _check(pipeline, facts)
        rows = [row for one in checked for row in one.rows]
        write_docs(pipeline, interval, checked)
        checkpoint("check_quality: docs written")
        control.replace(root, "quality_runs", rows, interval_id=interval.id)
    if stopping(rows):
        raise QualityError(f"{_failures(facts, rows)} | Details: {index}")
    return _sentence(keys, rows)


def _check(pipeline: Pipeline, facts: Facts) -> tuple[int, list[Checked]]:
    """The number of keys, and what each suite found."""
    keep_to_ourselves()
    own, interval = own_expectations(pipeline.quality.expectations), facts.interval
    stats = as_checked(control.read(pipeline.tables, "key_stats", interval_id=interval.id))
    suite = [*key_stats_suite(facts, pipeline.quality), *own.get("key_stats", [])]
    checked = [check_pandas(interval, "key_stats", suite, stats)]
    if own.get("events"):
        from rebalance.spark.events import events_of
        from rebalance.spark.session import spark_session
        from rebalance.spark.source import read_source

        events = events_of(read_source(spark_session(pipeline), pipeline, interval), pipeline, interval)
        checked.append(check_spark(interval, "events", own["events"], events))
    return len(stats), checked


def _failures(facts: Facts, rows: list[Row]) -> str:
    failed = stopping(rows)
    return (
        f"{len(failed)} of {len(rows)} checks on interval {facts.interval.id} failed; nothing is planned on it. "
        + " | ".join(row["detail"] for row in failed)
        + "".join(f" | warning: {row['detail']}" for row in warnings(rows))
    )


def _sentence(keys: int, rows: list[Row]) -> str:
    passed = {suite: sum(row["success"] for row in rows if row["suite"] == suite) for suite in ("key_stats", "events")}
    on_events = f" and {passed['events']} on the events" if passed["events"] else ""
    warned = warnings(rows)
    note(keys=keys, checks_on_key_stats=passed["key_stats"], checks_on_events=passed["events"], warnings=len(warned))
    said = f"; {len(warned)} warning{'s' * (len(warned) > 1)}: " + " | ".join(row["detail"] for row in warned)
    return f"{passed['key_stats']} checks on {keys:,} keys{on_events} passed{said if warned else ''}"
