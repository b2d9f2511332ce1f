"""Writes the reference pages of docs/ from the code: tables, knobs, commands, planners, errors, metrics.

    python tools/reference.py

Run it after a change of any of them (`make docs` does); a test fails while a page is not what this makes.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from rebalance import errors
from rebalance.cli.parser import make_parser
from rebalance.planners.registry import PLANNERS
from rebalance.planning.interface import needs_merging
from rebalance.steps.exits import CODES
from rebalance.storage.schemas import SCHEMAS, about, comments, has_own_keys, schema_of
from reference_knobs import knobs_page
from reference_parts import MADE, sentences, table

PROJECT = Path(__file__).resolve().parents[1]
#: Where a table's page says more.
_MORE = {
    "quality_runs": "[quality](quality.md)",
    "plans": "[planners](planners.md)",
    "quarantine": "[sources](sources.md#rows-that-cannot-be-used)",
    "results": "[operators](operators.md)",
    "late_events": "[sources](sources.md#events-that-come-late)",
}
#: What the metrics that rebalance/airflow/metrics.py emits mean, each with its unit.
_METRICS = {
    "{step}.seconds": "A timer: how long the step took, in milliseconds as StatsD's timers are; once per step and run.",
    "max_over_mean.hash": "The fullest channel's load over the mean, had the ring alone placed the interval's keys; no unit, 1 is perfect.",
    "max_over_mean.reached": "The same as it came out: under the function that the interval was processed with.",
    "max_over_mean.planned": "The same as the plan promised it; only if there was a plan.",
    "bytes_moved": "Bytes of state that the interval's plan moved, estimated; 0 if nothing was moved.",
}


def tables_page() -> str:
    """Every table and column, by the words that stand in the tables themselves."""
    page = f"""{MADE}# Tables

The columns of every table that a pipeline writes.
Which step writes which table, and why, is in [design](design.md#the-tables).
Spark, polars and DuckDB read all of them; [questions to the tables](questions.md) has queries that work.

The words below also stand in the tables themselves, as Delta's comments: `DESCRIBE TABLE` shows them in Spark SQL.
A table that was made before it had comments keeps working without them.

An interval is named after its start in UTC, as in `20260131T0500Z`.
Channels count from 0.
Cost has no unit: only ratios between keys matter.
Bytes of state are an estimate from the rows' values, without headers or compression; they serve to compare keys.
The tables are in the order in which an interval fills them.
"""
    for name in SCHEMAS:
        said = sentences(about(name))
        more = f"\nMore: {_MORE[name]}.\n" if name in _MORE else ""
        page += f"\n## `{name}`\n\n{said}\n{more}\n{table(('column', 'type', 'meaning'), _columns(name))}"
    return page


def _columns(name: str) -> Iterator[tuple[str, str, str]]:
    own = has_own_keys(name)
    for field in schema_of(name, "string"):
        kind = "STRING or BIGINT" if own and field.name == "key" else sql_type(field.type)
        yield f"`{field.name}`", kind, comments(name)[field.name]
    if name in ("results", "state"):
        what = "what it computes" if name == "results" else "its state columns"
        yield "the operator's own", "", f"{what}, with the comments that it gives them"


def sql_type(kind: pa.DataType) -> str:
    """A type as Spark SQL names it."""
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name} {sql_type(field.type)}' for field in kind)}>"
    names = {
        pa.string(): "STRING",
        pa.int64(): "BIGINT",
        pa.int32(): "INT",
        pa.float64(): "DOUBLE",
        pa.bool_(): "BOOLEAN",
    }
    return names.get(kind, "TIMESTAMP")


def commands_page() -> str:
    """The command line, from the parser itself."""
    parser = make_parser()
    codes = table(("code", "meaning"), [(str(code), said) for code, said in CODES.items()])
    page = f"""{MADE}# The command line

`rebalance COMMAND --help` says the same.
Most commands read small tables, start no Spark and answer in about a second.
Trouble is one line on standard error.
With `--json` the answer is one document of plain data.

## Exit codes

{codes}"""
    (verbs,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for name, command in verbs.choices.items():
        rows = [(_option(action), _about(action)) for action in command._actions if action.dest != "help"]
        said = sentences(command.description or "")
        given = table(("argument", "meaning"), rows)
        page += f"\n## `rebalance {name}`\n\n{said}\n\n```\n{_usage(command)}\n```\n\n{given}"
    return page


def _usage(command: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(command.prog, width=1000)
    formatter.add_usage(command.usage, command._actions, command._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _option(action: argparse.Action) -> str:
    word = action.metavar or (" or ".join(map(str, action.choices)) if action.choices else action.dest)
    if not action.option_strings:
        return f"`{word}`"
    takes = "" if action.nargs == 0 else f" {word}"
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings)


def _about(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default)) + (
        "; needed" if action.required and action.option_strings else ""
    )


def planners_page() -> str:
    """Every planner with its parameters, from the registry."""
    page = f"""{MADE}# Planners and their parameters

Which of them to use is in [planners](../planners.md), and how each paper was read in [papers](../papers.md).
Parameters go under `[planning.parameters]`, in the letters of the planner's paper.
"""
    for name, planner in PLANNERS.items():
        keys = (
            "It splits keys, so the operator's states must merge."
            if needs_merging(planner)
            else "It places keys whole."
        )
        if planner.splits_keys and not needs_merging(planner):
            keys = "It splits keys where the operator's states merge, and places them whole where not."
        family = planner.__module__.replace(".", "/")
        page += f"\n## `{name}`\n\n{_summary(planner)}\n{keys}\nIts steps and guarantees are in `{family}.py`.\n"
        said = _field_comments(planner)
        rows = [
            (f"`{f.name}`", f"`{f.default!r}`" if f.default is not None else "unset", said[f.name])
            for f in fields(planner)
        ]
        page += f"\n{table(('parameter', 'default', 'meaning'), rows)}" if rows else "\nIt has no parameters.\n"
    return page


def _summary(planner: type[Any]) -> str:
    """What the planner's file says first of it."""
    return sentences((inspect.getdoc(inspect.getmodule(planner)) or "").splitlines()[0])


def _field_comments(planner: type[Any]) -> dict[str, str]:
    """What stands in `#:` comments above the fields of a class and of those it builds on."""
    found: dict[str, str] = {}
    for part in reversed(planner.__mro__[:-1]):
        if part.__module__.startswith("rebalance."):
            for lines, name in re.findall(r"((?:^    #: .*\n)+)    (\w+):", inspect.getsource(part), re.MULTILINE):
                found[name] = " ".join(line.strip(" #:") for line in lines.splitlines())
    return found


def errors_page() -> str:
    """Every class of errors, from the classes."""
    page = f"""{MADE}# Errors

Every message says what is wrong, the numbers, and what to change.
The class tells what kind of trouble it is, and whether trying again can cure it.
Airflow does not retry what is final.
"""
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.RebalanceError)]
    rows = [
        (f"`{kind.__name__}`", inspect.getdoc(kind) or "", "yes" if kind.final else "no", kind.remedy)
        for kind in sorted(found, key=lambda kind: inspect.getsourcelines(kind)[1])
    ]
    return f"{page}\n{table(('class', 'what it means', 'final', 'what to do'), rows)}"


def metrics_page() -> str:
    """Every metric that the tasks emit, by what stands in the code."""
    source = (PROJECT / "rebalance" / "airflow" / "metrics.py").read_text()
    emitted = re.findall(r'stats\.(\w+)\(\s*f"\{name\}\.([^"]+)"', source)
    return f"""{MADE}# Metrics

Where Airflow has metrics switched on (StatsD, OpenTelemetry), every pipeline has these, under `rebalance.NAME` with the pipeline's name.
Nothing is emitted where Airflow has none, and a metric that fails never fails a step.

{table(("metric", "kind", "meaning"), [(f"`rebalance.NAME.{name.replace('{step}', 'STEP')}`", how, _METRICS[name]) for how, name in emitted])}"""


#: Each page, under docs/, with what makes it.
PAGES: dict[str, Callable[[], str]] = {
    "tables.md": tables_page,
    "reference/pipeline_file.md": knobs_page,
    "reference/commands.md": commands_page,
    "reference/planners.md": planners_page,
    "reference/errors.md": errors_page,
    "reference/metrics.md": metrics_page,
}


def main() -> int:
    """Write the pages that are not what they should be."""
    for name, make in PAGES.items():
        page, text = PROJECT / "docs" / name, make()
        page.parent.mkdir(exist_ok=True)
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
            print(f"written: {page.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
