"""docs/questions.md: every query runs on real tables, and Spark, DuckDB and polars give the same answer; what the tables say of themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from rebalance.pipeline.file import Pipeline
from rebalance.steps import run_step
from rebalance.storage import control
from rebalance.storage.schemas import OWN_COLUMN, about, comments
from tests.support.markdown import PROJECT, blocks
from tests.support.world import Stages, contents, first_interval, make_world

pytestmark = pytest.mark.usefixtures("few_rows")

_FIRST, *_SECTIONS = re.split(r"^## ", (PROJECT / "docs" / "questions.md").read_text(), flags=re.MULTILINE)
SETUP, *QUESTIONS = _SECTIONS
#: Whose answer is empty as long as all is well.
FAILED = "Which checks have failed?"


@pytest.fixture(scope="module")
def pipeline(matches: Stages, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Three intervals, and a check of theirs that has failed."""
    pipeline = matches.copy(tmp_path_factory.mktemp("questions"), "done")
    (row, *_) = control.read(pipeline.tables, "quality_runs").to_pylist()
    failed = {**row, "success": False, "bad_rows": 3, "detail": "three rows too many"}
    write_deltalake(f"{pipeline.tables}/quality_runs", pl.DataFrame([failed]).to_arrow(), mode="append")
    return pipeline


@pytest.fixture(scope="module")
def names(spark: SparkSession, pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    """What the page's own code has defined, for all three engines."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        # Out of its package: nothing is downloaded.
        (file,) = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
        connection.load_extension(str(file))
        defined: dict[str, Any] = {"spark": spark, "duckdb": connection, "root": pipeline.tables}
        for code in blocks(SETUP, "python"):
            exec(code, defined)
        yield defined
        for view in (*defined["TABLES"], "state"):
            spark.catalog.dropTempView(view)


def answer_of_python(code: str, names: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a block's last expression."""
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(before, []), "questions.md", "exec"), names)
    found: pl.LazyFrame = eval(compile(ast.Expression(last.value), "questions.md", "eval"), names)
    return found.collect().rows()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda text: text.splitlines()[0])
def test_all_engines_give_the_same_answer(pipeline: Pipeline, names: dict[str, Any], question: str) -> None:
    key = control.read(pipeline.tables, "state")["key"][0].as_py()
    sql, (python,) = blocks(question, "sql"), blocks(question, "python")
    of_spark, of_duckdb = [text.replace("KEY", key) for text in (sql * 2 if len(sql) == 1 else sql)]
    answers = [
        [tuple(row) for row in names["spark"].sql(of_spark).collect()],
        names["duckdb"].execute(of_duckdb).fetchall(),
        answer_of_python(python.replace("KEY", key), names),
    ]
    assert answers[0]
    for other in answers[1:]:
        assert len(other) == len(answers[0])
        for row, expected in zip(other, answers[0], strict=True):
            assert list(map(plain, row)) == list(map(alike, expected))


def alike(value: Any) -> Any:
    """What another engine may say for a value: sums in any order."""
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else plain(value)


def plain(value: Any) -> Any:
    """A value as all engines have it: times without a zone."""
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def test_the_checks_that_failed_are_those_that_were_not_met(names: dict[str, Any]) -> None:
    (question,) = [text for text in QUESTIONS if text.startswith(FAILED)]
    (row,) = answer_of_python(*blocks(question, "python"), names)
    assert row[-2:] == (3, "three rows too many")


def test_describe_table_says_what_every_column_is(spark: SparkSession, pipeline: Pipeline) -> None:
    for table in ("results", "state", "plans", "epochs", "key_stats"):
        found = spark.sql(f"DESCRIBE TABLE delta.`{pipeline.tables}/{table}`").collect()
        said = {
            row["col_name"]: row["comment"] for row in found if row["comment"] and not row["col_name"].startswith("#")
        }
        ours = comments(table)
        assert {name: said[name] for name in ours} == ours
        assert {said[name] for name in said.keys() - ours} <= {OWN_COLUMN}
        (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{pipeline.tables}/{table}`").collect()
        assert detail["description"] == about(table)


def test_tables_that_were_made_without_comments_go_on_as_they_are(matches: Stages, tmp_path: Path) -> None:
    pipeline = matches.copy(tmp_path, "1 collect_stats")
    silence(Path(pipeline.tables))
    for step in ("collect_stats", "check_quality", "make_plan", "migrate_state", "process_batch"):
        run_step(step, pipeline, first_interval(pipeline).shifted(1))
    expected = matches.copy(tmp_path / "same", "2 collect_stats")
    assert contents(pipeline)["results"] == contents(expected)["results"]
    for table in ("results", "state", "batches", "epochs"):
        delta = DeltaTable(f"{pipeline.tables}/{table}")
        assert delta.metadata().description is None
        assert {field.name for field in delta.schema().fields if field.metadata} == set(), table


def silence(root: Path) -> None:
    """Take the comments out of the tables' logs, as if they had been made before there were any."""
    for log in root.glob("*/_delta_log/*.json"):
        text = log.read_text()
        text = re.sub(r'\{\\"comment\\":\s?\\".*?\\"\}', "{}", text)
        log.write_text(re.sub(r'"description":\s?".*?",', '"description":null,', text))


SPENT = """
import pyarrow as pa

RESULTS = "spent DOUBLE COMMENT 'in euros', rows BIGINT"
STATE = "spent DOUBLE COMMENT 'until now'"
ROWS = ["price"]


def process(key, rows, state):
    spent = sum(rows["price"].to_pylist()) + sum(state["spent"].to_pylist())
    return pa.table({"spent": [spent], "rows": [rows.num_rows]}), pa.table({"spent": [spent]})
"""


def test_the_words_of_an_operator_stand_in_its_columns_and_others_say_whose_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "spent.py").write_text(SPENT)
    operator = '[operator]\nfunction = "spent.py"'
    pipeline = make_world(tmp_path, operator=operator, channels=2, intervals=1, events=50, keys=5)
    run_step("process_batch", pipeline, first_interval(pipeline))
    said = {table: columns_of(pipeline, table) for table in ("results", "state")}
    assert said["results"] == {**comments("results"), "spent": "in euros", "rows": OWN_COLUMN}
    assert said["state"].items() >= {**comments("state"), "spent": "until now"}.items()


def columns_of(pipeline: Pipeline, table: str) -> dict[str, str]:
    """What a table's columns say of themselves."""
    return {field.name: field.metadata["comment"] for field in DeltaTable(f"{pipeline.tables}/{table}").schema().fields}
