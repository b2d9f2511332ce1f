"""What each verb does with a pipeline. Everything heavy is imported in the verb that needs it."""

from __future__ import annotations

import getpass
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from rebalance.cli.output import Answer, make_console, print_json, progress, said, say
from rebalance.errors import ConfigError
from rebalance.steps.exits import DONE, FAULT

if TYPE_CHECKING:
    from rebalance.pipeline.file import Pipeline


def init(given: Namespace) -> Answer:
    """Write a pipeline file."""
    from rebalance.view.init import init

    pipeline, words = init(
        given.name, given.source, kind=given.format, key=given.key, time=given.time, channels=given.channels
    )
    document = {"said": words.splitlines(), "name": pipeline.name, "file": str(pipeline.file)}
    return Answer(document, lambda console: console.file.write(f"{words}\n"))


def completion(given: Namespace) -> Answer:
    """The words of a shell."""
    from rebalance.cli.completion import SHELLS

    # As it is: a console would break its lines.
    return Answer(
        {"shell": given.shell, "script": SHELLS[given.shell]}, lambda console: console.file.write(SHELLS[given.shell])
    )


def run(pipeline: Pipeline, given: Namespace) -> Answer | None:
    """Run intervals, and tell each step as it ends."""
    from rebalance.documents.words import several
    from rebalance.pipeline.intervals import parse_start
    from rebalance.steps import Insist
    from rebalance.steps.run import run_intervals

    if given.skip and not given.first:
        raise ConfigError("--skip goes with --from: say which interval to go on with.")
    first = pipeline.interval_at(parse_start(given.first)) if given.first else None
    asked = {"first": first, "count": given.intervals, "insist": Insist(now=given.now, skip=given.skip)}
    if given.json:
        run_intervals(pipeline, say=lambda text: None, note=lambda done: print_json(asdict(done)), **asked)
        return None
    console = make_console()
    with progress(console) as begins:
        done = run_intervals(pipeline, say=lambda text: say(text, console), begins=begins, **asked)
    return said(
        f"{several(done, 'interval')} done: all results are there. `rebalance status {given.pipeline}` shows what happened."
    )


def status(pipeline: Pipeline, given: Namespace) -> Answer:
    """Where the pipeline stands."""
    from rebalance.documents.status import status_document
    from rebalance.view.status import print_status

    if given.last < 1:
        raise ConfigError(f"--last is {given.last}; there must be at least one interval to show.")
    found = status_document(pipeline, given.last)
    return Answer(found, lambda console: print_status(found, console))


def plan(pipeline: Pipeline, given: Namespace) -> Answer:
    """A plan, or what would be one."""
    tried = {
        "planner": given.planner,
        "theta_max": given.theta_max,
        "max_routes": given.max_routes,
        "channels": given.channels,
    }
    if given.dry_run:
        from rebalance.documents.trial import known_planners, try_plan
        from rebalance.view.dry_run import print_trial

        found, names = try_plan(pipeline, **tried), [planner["name"] for planner in known_planners()]
        return Answer(found, lambda console: print_trial(found, names, console))
    if any(value is not None for value in tried.values()):
        raise ConfigError(
            "--planner, --theta-max, --max-routes and --channels only go with --dry-run; what is carried out is set in the pipeline file."
        )
    from rebalance.documents.trial import newest_counted
    from rebalance.steps import Insist, run_step

    interval = newest_counted(pipeline)
    # Counted it is already, closed or not.
    return said(run_step("make_plan", pipeline, interval, Insist(now=True)), interval=interval.id)


def approve(pipeline: Pipeline, given: Namespace) -> Answer:
    """Answer a plan."""
    from rebalance.documents.answer import answer_plan
    from rebalance.view.approve import print_answer

    answer: Literal["approve", "reject"] = "reject" if given.reject else "approve"
    found = answer_plan(pipeline, given.plan, answer, given.who or getpass.getuser())
    return Answer(found, lambda console: print_answer(found, console))


def inspect(pipeline: Pipeline, given: Namespace) -> Answer:
    """What the tables hold."""
    from rebalance.documents.tables import tables_document
    from rebalance.view.inspect import print_inspection

    found = tables_document(pipeline)
    return Answer(found, lambda console: print_inspection(found, console))


def explain(pipeline: Pipeline, given: Namespace) -> Answer:
    """A key, or the newest plan."""
    from rebalance.view.explain import print_key, print_plan

    if given.key is None:
        from rebalance.documents.plan import plan_document

        newest = plan_document(pipeline)
        return Answer(newest, lambda console: print_plan(newest, console))
    from rebalance.documents.key import key_document

    found = key_document(pipeline, given.key)
    return Answer(found, lambda console: print_key(found, console))


def rewind(pipeline: Pipeline, given: Namespace) -> Answer:
    """Go back, or take that back."""
    from rebalance.pipeline.intervals import parse_start
    from rebalance.steps.rewind import rewind, undo

    if given.undo:
        return said(undo(pipeline))
    return said(rewind(pipeline, pipeline.interval_at(parse_start(given.to))))


def adopt(pipeline: Pipeline, given: Namespace) -> Answer:
    """Take the file's word for what the state means."""
    from rebalance.steps.rewind import adopt

    return said(adopt(pipeline))


def report(pipeline: Pipeline, given: Namespace) -> Answer:
    """A file about the pipeline."""
    from rebalance.view.report import write_report

    file = str(write_report(pipeline, given.last, given.out))
    return said(f"Written: {file}", file=file)


def doctor(given: Namespace) -> Answer:
    """What is wrong here."""
    from rebalance.view.doctor import as_document, examine, print_findings

    found = examine(given.pipeline)
    document = as_document(found)
    return Answer(document, lambda console: print_findings(found, console), code=DONE if document["well"] else FAULT)


def maintain(pipeline: Pipeline, given: Namespace) -> Answer:
    """Tidy up."""
    from rebalance.steps.maintain import maintain

    return said(*maintain(pipeline, dry_run=given.dry_run))
