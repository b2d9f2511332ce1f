"""The verbs of the command line and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from rebalance.cli import verbs
from rebalance.cli.completion import SHELLS
from rebalance.cli.output import Answer
from rebalance.steps.exits import CODES

if TYPE_CHECKING:
    from rebalance.pipeline.file import Pipeline

Verb = Callable[["Pipeline", argparse.Namespace], Answer | None]

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
  rebalance report demo              an HTML file for somebody who was not there: what was done, and what it has brought
  rebalance doctor                   what is missing or broken here, and how to mend it; `doctor demo`: of the pipeline, too
  rebalance maintain demo            remove what is old and needed no more, tidy the state's files; --dry-run only says what
  rebalance completion bash          what makes the shell complete all this: eval "$(rebalance completion bash)"

A pipeline is a TOML file, or the name of one in the folder that REBALANCE_PIPELINES names; without it, in dags/pipelines or pipelines
where you are. With --json, every verb prints one JSON document, run one line per step."""
_CODES = "exit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in CODES.items())


def make_parser() -> argparse.ArgumentParser:
    """The parser; what it finds says in `act` what to do."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="rebalance", description=_ABOUT, epilog=_CODES, formatter_class=plain)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, verb: Verb, about: str) -> argparse.ArgumentParser:
        """A verb that does something with a pipeline."""
        command = _add(commands, name, about)
        command.add_argument("pipeline", help="a pipeline file, or the name of one (see `rebalance --help`)")
        command.set_defaults(act=lambda given: _with_pipeline(verb, given))
        return command

    init = _add(
        commands,
        "init",
        "Write a commented pipeline file from a look at a table: its columns, times and skew. Starts no Spark, overwrites nothing.",
    )
    _init_options(init)
    _run_options(
        add(
            "run",
            verbs.run,
            "Run intervals without Airflow: the same five steps, in order, in one Spark session. "
            "Trouble with a plan is a warning; the exit code is 0 if all results are there.",
        )
    )
    status = add("status", verbs.status, "Where the pipeline stands: epoch, function, the last intervals.")
    status.add_argument("--last", type=int, default=8, metavar="N", help="how many intervals to show (default 8)")
    _plan_options(add("plan", verbs.plan, "Plan on the newest statistics."))
    approve = add("approve", verbs.approve, "In mode approve: show the plan that waits for an answer, and approve it.")
    approve.add_argument("plan", nargs="?", metavar="PLAN_ID", help="the plan; default: the one that waits")
    approve.add_argument("--reject", action="store_true", help="reject it instead; also takes an approval back")
    approve.add_argument("--who", metavar="NAME", help="who answers; default: the user of this machine")
    add("inspect", verbs.inspect, "Tables with versions and sizes, epochs, loads per channel.")
    explain = add(
        "explain", verbs.explain, "Where a key goes, why, and since when; without a key, the newest plan and why."
    )
    explain.add_argument("key", nargs="?", help="the key, as it stands in the source; default: the newest plan")
    rewind = add(
        "rewind",
        verbs.rewind,
        "Go back to before an interval: function and state of then become active again. Then run it and the later ones again.",
    )
    where = rewind.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="START", help="the first interval that is to be run again")
    where.add_argument("--undo", action="store_true", help="take the newest rewind back; nothing may have run since")
    add(
        "adopt",
        verbs.adopt,
        "Say that the state means what the pipeline file says now, though key or operator have changed.",
    )
    report = add("report", verbs.report, "Write one HTML file about the pipeline, for somebody who was not there.")
    report.add_argument("--last", type=int, default=48, metavar="N", help="over how many intervals (default 48)")
    report.add_argument(
        "--out", metavar="FILE", help="where to; default: the pipeline's name with .html, where you are"
    )
    doctor = _add(
        commands,
        "doctor",
        "Look at Python, Java, jars, Spark's master and Airflow, and say how to mend what is wrong; "
        "with a pipeline, at its tables, lock and source, too. Starts no Spark.",
    )
    doctor.add_argument("pipeline", nargs="?", help="a pipeline file, or the name of one; default: the machine alone")
    doctor.set_defaults(act=verbs.doctor)
    maintain = add(
        "maintain",
        verbs.maintain,
        "Remove what [retention] says is old and no rewind needs, rewrite fragmented state, clean logs and leftovers.",
    )
    maintain.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")
    completion = _add(
        commands, "completion", "Print what makes a shell complete verbs, options, pipelines and planners."
    )
    completion.add_argument("shell", choices=list(SHELLS), help="which shell")
    completion.set_defaults(act=verbs.completion)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=about, description=about)
    command.add_argument("--json", action="store_true", help="print JSON instead of what people read")
    return command


def _with_pipeline(verb: Verb, given: argparse.Namespace) -> Answer | None:
    """Do what is asked with the pipeline that is named."""
    from rebalance.pipeline.file import find_pipeline
    from rebalance.steps.trouble import trouble_in_words

    pipeline = find_pipeline(given.pipeline)
    with trouble_in_words(pipeline.tables):
        return verb(pipeline, given)


def _init_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", help="what the pipeline shall be called")
    command.add_argument("--source", required=True, metavar="PATH", help="a Delta table, or Parquet, CSV or JSON files")
    command.add_argument("--format", choices=["delta", "parquet", "csv", "json"], help="default: by what is there")
    command.add_argument("--key", metavar="COLUMN", help="what the work is done per; default: a guess")
    command.add_argument("--time", metavar="COLUMN", help="when an event happened; default: a guess")
    command.add_argument("--channels", type=int, default=8, metavar="N", help="units of parallel work (default 8)")
    command.set_defaults(act=verbs.init)


def _run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--from", dest="first", metavar="START", help="first interval; default: the one after the last processed"
    )
    command.add_argument(
        "--intervals", type=int, metavar="N", help="how many; default: as long as there is data and they are closed"
    )
    command.add_argument("--now", action="store_true", help="take intervals that are not closed yet too")
    command.add_argument(
        "--skip", action="store_true", help="with --from: leave out the intervals before it, which is recorded"
    )


def _plan_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--dry-run", action="store_true", help="show the plan, write nothing")
    command.add_argument("--planner", metavar="NAME", help="with --dry-run: try another planner than the pipeline's")
    command.add_argument("--theta-max", type=float, metavar="θ", help="with --dry-run: try another θ_max")
    command.add_argument("--max-routes", type=int, metavar="N", help="with --dry-run: try another max_routes")
    command.add_argument("--channels", type=int, metavar="N", help="with --dry-run: try another number of channels")
