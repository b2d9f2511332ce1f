"""docs/tutorial.md, from its first command to its last, but for those that need a running Airflow."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from rebalance.cli import main
from tests.support.markdown import PROJECT, blocks

PAGE = (PROJECT / "docs" / "tutorial.md").read_text()
COMMANDS = [line for block in blocks(PAGE, "bash") for line in block.splitlines()]
#: Python that is a file, by the name in its first line; and what is only run.
FILES = {name: code for code in blocks(PAGE, "python") for name in re.findall(r"\A# (\S+\.py)\n", code)}
(LAST,) = [code for code in blocks(PAGE, "python") if code not in FILES.values()]

pytestmark = pytest.mark.usefixtures("few_rows")


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder that is worked in."""
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("REBALANCE_PIPELINES", raising=False)
        yield folder


def run(command: str) -> None:
    """One line of the page's commands."""
    words = shlex.split(command)
    if words[0] == "rebalance":
        assert main(words[1:]) == 0
    else:
        subprocess.run([sys.executable if word == "python" else word for word in words], check=True)


def test_the_tutorial_leads_from_a_file_to_a_balanced_pipeline(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "pipelines" / "clicks.toml"
    commands = [command for command in COMMANDS if not command.startswith("airflow ")]
    assert [command.split()[0] for command in commands] == ["python", "mkdir", *["rebalance"] * 6]
    maker, dags = FILES
    assert (maker, dags) == ("make_clicks.py", "dags/rebalance_pipelines.py")
    (folder / maker).write_text(FILES[maker])
    for command in commands[:3]:
        run(command)
    (section,) = blocks(PAGE, "toml")
    file.write_text(re.sub(r"^\[operator\]\n.*?(?=^\[channels\])", f"{section}\n", file.read_text(), flags=re.M | re.S))

    run(commands[3])
    run(commands[4])
    assert (table("plans")["decision"] == "apply").any()
    assert table("epochs").sort("epoch")["kind"].to_list() == ["start", "process", "process"]

    assert 'mode = "shadow"' in file.read_text()
    file.write_text(file.read_text().replace('mode = "shadow"', 'mode = "auto"'))
    run(commands[5])
    assert "migrate" in table("epochs")["kind"].to_list()
    capsys.readouterr()
    run(commands[6])
    run(commands[7])
    said = capsys.readouterr().out
    assert "reached" in said
    assert "user-0" in said
    loads = table("batches").sort("interval_id")["loads"]
    first, second, *others = (loads.list.max() / loads.list.mean()).to_list()
    assert len(others) == 3
    assert max(others) < 1.081 < min(first, second)

    newest = table("results").filter(pl.col("interval_id") == pl.col("interval_id").max())
    window = pl.read_parquet("clicks.parquet").filter(pl.col("at") >= pl.datetime(2026, 1, 1, 3, time_zone="UTC"))
    expected = window.group_by("user").agg(pl.len(), pl.col("price").sum()).sort("user")
    assert newest.sort("key").select("key", "clicks").rows() == expected.select("user", "len").rows()
    assert newest.sort("key")["spent"].to_list() == pytest.approx(expected["price"].to_list())
    exec(LAST, {})


def table(name: str) -> pl.DataFrame:
    """A table that the tutorial's pipeline has written."""
    return pl.read_delta(f"pipelines/clicks_tables/{name}")


def test_its_dag_file_makes_the_dags_that_it_names(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(FILES["dags/rebalance_pipelines.py"].replace("/path/to/pipelines", str(folder / "pipelines")), names)
    named = set(re.findall(r"`(rebalance_clicks\w*)`", PAGE))
    assert named <= names.keys()
    assert {name for name in names if name.startswith("rebalance_clicks")} == named
