"""What the README shows works as it stands there: its commands and its Python, on a small pipeline; and its tables have the columns described."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from rebalance.cli import main
from rebalance.pipeline.file import Pipeline, load_pipeline
from tests.support.markdown import PAGES, PROJECT, blocks, code_words, documented_columns
from tests.support.world import make_world

README = (PROJECT / "README.md").read_text()
#: Every command of the documentation that is given a pipeline, the README's first.
INIT, FIRST, *COMMANDS = dict.fromkeys(
    word
    for page in (PROJECT / "README.md", *PAGES)
    for word in code_words(page.read_text())
    if word.startswith("rebalance ") and "<name>" in word
)

#: Written when a person answers, with a function per key or compact statistics, or when rows are bad or late; their columns are tested
#: with them.
NOT_HERE = {"approvals", "key_costs", "key_sums", "late_events", "quarantine", "slot_stats"}


def run(command: str, name: str, key: str = "") -> None:
    """Run a command of the documentation on a pipeline."""
    told = command.replace("<name>", name).replace("KEY", key).replace("START", "20260101T0100Z")
    told = told.replace("FILE", os.path.join(os.environ["REBALANCE_PIPELINES"], "report.html"))
    assert main(shlex.split(told)[1:]) == 0


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """Two small intervals, run by the README's own command; the pipeline goes by its name."""
    world = make_world(tmp_path_factory.mktemp("readme"), channels=4, intervals=2, events=300, keys=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REBALANCE_PIPELINES", str(world.file.parent))
        run(FIRST, world.name)
        yield world


def test_the_command_before_it_makes_a_pipeline_file(pipeline: Pipeline) -> None:
    assert INIT == "rebalance init <name> --source PATH"
    run(INIT.replace("PATH", shlex.quote(pipeline.source.path)), "made")
    assert load_pipeline(pipeline.file.with_name("made.toml")).source.key == pipeline.source.key


def test_the_first_command_runs_the_pipeline(pipeline: Pipeline) -> None:
    assert FIRST == "rebalance run <name>"
    assert pl.read_delta(f"{pipeline.tables}/batches").height == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_and_says_something(
    pipeline: Pipeline, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(command, pipeline.name, key=str(pl.read_delta(f"{pipeline.tables}/key_stats")["key"][0]))
    assert capsys.readouterr().out


def values_of(code: str, names: dict[str, Any]) -> list[Any]:
    """Run a block of Python; what each of its bare expressions gives."""
    values = []
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            values.append(eval(compile(ast.Expression(statement.value), "README.md", "eval"), names))
        else:
            exec(compile(ast.Module([statement], []), "README.md", "exec"), names)
    return values


def test_the_python_runs(spark: SparkSession, pipeline: Pipeline) -> None:
    users = ["ann", "bob", "eve"]
    names: dict[str, Any] = {"spark": spark, "df": spark.createDataFrame([(user,) for user in users], "user string")}
    code = "\n".join(blocks(README, "python")).replace("path/to/tables", pipeline.tables)
    state, routed, scanned = values_of(code, names)
    assert isinstance(state, DataFrame)
    assert state.count() == scanned.collect().height > 0
    channels = {row["user"]: row["channel"] for row in routed.collect()}
    assert channels == dict(zip(users, names["tables"].function.channel_of(users).tolist(), strict=True))


@pytest.mark.parametrize("table", sorted(documented_columns().keys() - NOT_HERE))
def test_a_table_has_the_columns_that_are_described(pipeline: Pipeline, table: str) -> None:
    described, found = documented_columns()[table], DeltaTable(f"{pipeline.tables}/{table}").schema().to_arrow()
    fixed = [column for column in described if column != "the operator's own"]
    assert set(fixed) <= set(found.names)
    assert fixed != described or sorted(fixed) == sorted(found.names)


def test_every_table_is_described(pipeline: Pipeline) -> None:
    written = {log.parent.name for log in Path(pipeline.tables).glob("*/_delta_log")}
    assert written == documented_columns().keys() - NOT_HERE
