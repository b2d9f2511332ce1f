"""`rebalance doctor`: whether this machine, its Airflow and a pipeline can do what they should, and how to mend what cannot.

Nothing is changed, but for one small object on an object store that is put and removed again; no Spark is started.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from rebalance.errors import ConfigError
from rebalance.pipeline.file import Pipeline, find_pipeline
from rebalance.stores.places import is_secret
from rebalance.view.doctor import airflow, machine, pipelines, source, spark, tables
from rebalance.view.doctor.findings import PATIENCE, Check, Finding, State, run_checks

__all__ = ["Finding", "as_document", "examine", "print_findings"]

_STYLES: dict[State, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}
#: Variables of the environment whose values nobody may see.
_SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY")


def examine(name: str | None = None, patience: float = PATIENCE) -> list[Finding]:
    """Look at the machine and Airflow; with a pipeline, at its tables, lock and source too."""
    pipeline, about_file = _pipeline(name) if name else (None, [])
    checks = [
        Check("python", machine.python),
        Check("packages", machine.packages),
        Check("java", machine.java),
        Check("jars of Delta", partial(spark.delta_jars, pipeline)),
        Check("spark master", partial(spark.master, pipeline)),
        Check("warm JVM", partial(spark.warm_jvm, pipeline)),
        Check("airflow", partial(airflow.airflow, pipeline)),
        *(_of_pipeline(pipeline) if pipeline else []),
        *([] if name else [Check("pipeline files", pipelines.pipeline_files)]),
    ]
    return [*about_file, *run_checks(checks, _secrets(pipeline), patience)]


def _of_pipeline(pipeline: Pipeline) -> Sequence[Check]:
    return [
        Check("operator", partial(pipelines.operator, pipeline)),
        Check("jars for stores", partial(spark.store_jars, pipeline)),
        Check("table root", partial(tables.tables, pipeline)),
        Check("source", partial(source.source, pipeline)),
    ]


def _pipeline(name: str) -> tuple[Pipeline | None, list[Finding]]:
    """The pipeline, if its file can be used; what is said of the file."""
    try:
        pipeline = find_pipeline(name)
    except ConfigError as error:
        return None, [
            Finding(
                "pipeline file",
                "fail",
                str(error),
                "Correct the file, or the name; nothing of the pipeline was looked at.",
            )
        ]
    return pipeline, [Finding("pipeline file", "ok", f"{pipeline.file} is valid")]


def _secrets(pipeline: Pipeline | None) -> Sequence[str]:
    """What must stand in no finding, whatever an error says."""
    of_file = [value for name, value in pipeline.spark.settings.items() if is_secret(name)] if pipeline else []
    return [*of_file, *(os.environ.get(name, "") for name in _SECRET_VARIABLES)]


def as_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """For `--json`: whether nothing fails, and the findings."""
    return {"well": not _failed(findings), "findings": [vars(finding) for finding in findings]}


def _failed(findings: Sequence[Finding]) -> int:
    return sum(finding.state == "fail" for finding in findings)


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """A line a finding; how to mend it below."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        line = Text.assemble(
            (f"{finding.state:<8}", _STYLES[finding.state]), f"{finding.name:<{width}}  ", finding.seen
        )
        console.print(line, soft_wrap=True)
        if finding.mend:
            console.print(Text(f"{'':{width + 10}}→ {finding.mend}", style="italic"), soft_wrap=True)
    counts = {state: sum(finding.state == state for finding in findings) for state in _STYLES}
    said = f"{counts['ok']} well, {counts['warn']} to look at, {counts['fail']} to mend, {counts['skipped']} not looked at."
    console.print(said, style="bold", soft_wrap=True)
