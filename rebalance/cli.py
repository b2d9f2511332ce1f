"""The command `rebalance`: run intervals without Airflow, and look at everything a pipeline has left behind.

Only `run` starts Spark, and `maintain` if state is to be rewritten; the rest reads the small tables and answers in about a second.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rebalance.errors import ConfigError, RebalanceError, extras_named
from rebalance.pipeline.file import Pipeline, find_pipeline
from rebalance.pipeline.intervals import parse_start

if TYPE_CHECKING:
    from rich.console import Console

_ABOUT = """\
Keeps a keyed, stateful pipeline on Spark and Delta balanced.

  rebalance init demo --source PATH  a commented pipeline file from a look at a table
  rebalance run demo                 process all closed intervals that have data, one after the other
  rebalance status demo              where the pipeline stands, and what the last intervals did
  rebalance plan demo --dry-run      what would be planned now, and why; changes nothing
  rebalance approve demo             in mode approve: let the waiting plan be carried out, or --reject it
  rebalance inspect demo             tables, versions and epochs, loads per channel
  rebalance explain demo KEY         where a key goes, why, and since when; without a key, the newest plan and why
  rebalance rewind demo --to START   go back to before an interval, to run it and the later ones again; --undo takes it back
  rebalance adopt demo               after a change of key or operator: the state means what the file says now
  rebalance maintain demo            remove what is old and needed no more, tidy the state's files; --dry-run only says what

A pipeline is a TOML file, or the name of one in the folder that REBALANCE_PIPELINES names; without it, in dags/pipelines or pipelines
where you are."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; trouble with a plain message is one line on standard error and exit code 2."""
    arguments = _parser().parse_args(argv)
    try:
        with extras_named():
            arguments.act(arguments)
    except RebalanceError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    except BrokenPipeError:
        sys.stderr.close()
    return 0


def _act(act: Callable[[Pipeline, argparse.Namespace], None], arguments: argparse.Namespace) -> None:
    """Do what is asked with the pipeline that is named."""
    from rebalance.storage.trouble import storage_in_words

    pipeline = find_pipeline(arguments.pipeline)
    with storage_in_words(pipeline.tables):
        act(pipeline, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rebalance", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, act: Callable[[Pipeline, argparse.Namespace], None], about: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument("pipeline", help="a pipeline file, or the name of one (see `rebalance --help`)")
        command.set_defaults(act=lambda arguments: _act(act, arguments))
        return command

    _add_init(commands)
    run = add(
        "run",
        _run,
        "Run intervals without Airflow: the same five steps, in order, in one Spark session. "
        "Trouble with a plan is a warning; the exit code is 0 if all results are there.",
    )
    run.add_argument(
        "--from", dest="first", metavar="START", help="first interval; default: the one after the last processed"
    )
    run.add_argument(
        "--intervals", type=int, metavar="N", help="how many; default: as long as there is data and they are closed"
    )
    run.add_argument("--now", action="store_true", help="take intervals that are not closed yet too")
    run.add_argument(
        "--skip", action="store_true", help="with --from: leave out the intervals before it, which is recorded"
    )
    status = add("status", _status, "Where the pipeline stands: epoch, function, the last intervals.")
    status.add_argument("--last", type=int, default=8, metavar="N", help="how many intervals to show (default 8)")
    plan = add("plan", _plan, "Plan on the newest statistics.")
    plan.add_argument("--dry-run", action="store_true", help="show the plan, write nothing")
    plan.add_argument("--planner", metavar="NAME", help="with --dry-run: try another planner than the pipeline's")
    plan.add_argument("--theta-max", type=float, metavar="θ", help="with --dry-run: try another θ_max")
    approve = add("approve", _approve, "In mode approve: show the plan that waits for an answer, and approve it.")
    approve.add_argument("plan", nargs="?", metavar="PLAN_ID", help="the plan; default: the one that waits")
    approve.add_argument("--reject", action="store_true", help="reject it instead; also takes an approval back")
    approve.add_argument("--who", metavar="NAME", help="who answers; default: the user of this machine")
    add("inspect", _inspect, "Tables with versions and sizes, epochs, loads per channel.")
    explain = add("explain", _explain, "Where a key goes, why, and since when; without a key, the newest plan and why.")
    explain.add_argument("key", nargs="?", help="the key, as it stands in the source; default: the newest plan")
    rewind = add(
        "rewind",
        _rewind,
        "Go back to before an interval: function and state of then become active again. Then run it and the later ones again.",
    )
    where = rewind.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="START", help="the first interval that is to be run again")
    where.add_argument("--undo", action="store_true", help="take the newest rewind back; nothing may have run since")
    add(
        "adopt",
        _adopt,
        "Say that the state means what the pipeline file says now, though key or operator have changed.",
    )
    maintain = add(
        "maintain",
        _maintain,
        "Remove what [retention] says is old and no rewind needs, rewrite fragmented state, clean logs and leftovers.",
    )
    maintain.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")
    return parser


def _add_init(commands: Any) -> None:
    about = "Write a commented pipeline file from a look at a table: its columns, times and skew. Starts no Spark, overwrites nothing."
    command = commands.add_parser("init", help=about, description=about)
    command.add_argument("name", help="what the pipeline shall be called")
    command.add_argument("--source", required=True, metavar="PATH", help="a Delta table, or Parquet, CSV or JSON files")
    command.add_argument("--format", choices=["delta", "parquet", "csv", "json"], help="default: by what is there")
    command.add_argument("--key", metavar="COLUMN", help="what the work is done per; default: a guess")
    command.add_argument("--time", metavar="COLUMN", help="when an event happened; default: a guess")
    command.add_argument("--channels", type=int, default=8, metavar="N", help="units of parallel work (default 8)")
    command.set_defaults(act=_init)


def _console() -> Console:
    from rich.console import Console

    # Wide enough for the tables where the output is not a terminal, for example in a log.
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def _init(given: argparse.Namespace) -> None:
    from rebalance.view.init import init

    _, said = init(given.name, given.source, kind=given.format, key=given.key, time=given.time, channels=given.channels)
    sys.stdout.write(said + "\n")


def _run(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.steps import Insist
    from rebalance.steps.run import run_intervals

    if arguments.skip and not arguments.first:
        raise ConfigError("--skip goes with --from: say which interval to go on with.")
    console = _console()
    first = pipeline.interval_at(parse_start(arguments.first)) if arguments.first else None

    def say(text: str) -> None:
        # A message may have brackets of its own.
        console.print(text, markup=False)

    insist = Insist(now=arguments.now, skip=arguments.skip)
    done = run_intervals(pipeline, first=first, count=arguments.intervals, say=say, insist=insist)
    say(f"{done} intervals have their results. `rebalance status {arguments.pipeline}` shows what happened.")


def _status(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.documents.status import status_document
    from rebalance.view.status import print_status

    print_status(status_document(pipeline, arguments.last), _console())


def _plan(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    if arguments.dry_run:
        from rebalance.documents.trial import known_planners, try_plan
        from rebalance.view.dry_run import print_trial

        found = try_plan(pipeline, planner=arguments.planner, theta_max=arguments.theta_max)
        print_trial(found, [planner["name"] for planner in known_planners()], _console())
        return
    if arguments.planner or arguments.theta_max is not None:
        raise ConfigError(
            "--planner and --theta-max only go with --dry-run; what is carried out is set in the pipeline file."
        )
    from rebalance.documents.trial import newest_counted
    from rebalance.steps import Insist, run_step

    # Counted it is already, closed or not.
    _console().print(run_step("make_plan", pipeline, newest_counted(pipeline), Insist(now=True)))


def _approve(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.documents.answer import answer_plan
    from rebalance.view.approve import print_answer

    answer: Literal["approve", "reject"] = "reject" if arguments.reject else "approve"
    print_answer(answer_plan(pipeline, arguments.plan, answer, arguments.who or getpass.getuser()), _console())


def _inspect(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.documents.tables import tables_document
    from rebalance.view.inspect import print_inspection

    print_inspection(tables_document(pipeline), _console())


def _explain(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.view.explain import print_key, print_plan

    if arguments.key is None:
        from rebalance.documents.plan import plan_document

        print_plan(plan_document(pipeline), _console())
        return
    from rebalance.documents.key import key_document

    print_key(key_document(pipeline, arguments.key), _console())


def _rewind(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.steps.rewind import rewind, undo

    said = undo(pipeline) if arguments.undo else rewind(pipeline, pipeline.interval_at(parse_start(arguments.to)))
    _console().print(said, markup=False)


def _adopt(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.steps.rewind import adopt

    _console().print(adopt(pipeline), markup=False)


def _maintain(pipeline: Pipeline, arguments: argparse.Namespace) -> None:
    from rebalance.steps.maintain import maintain

    for sentence in maintain(pipeline, dry_run=arguments.dry_run):
        _console().print(sentence, markup=False)


if __name__ == "__main__":
    sys.exit(main())
