"""The recipes of CONTRIBUTING.md: short, and what they ask for is there for everything that was ever added."""

from __future__ import annotations

import importlib
import re
from dataclasses import is_dataclass
from typing import Any

import pytest

from rebalance import steps
from rebalance.airflow.page import describe
from rebalance.cli import main
from rebalance.operators import BUILT_IN
from rebalance.pipeline.file import load_pipeline
from rebalance.planners.registry import PLANNERS
from rebalance.storage import control
from tests.support.markdown import PROJECT, blocks, documented_columns, tables
from tests.unit.test_contract import CASES

README = (PROJECT / "README.md").read_text()
RECIPES = dict(re.findall(r"^### (.+)\n\n((?:.+\n)+)", (PROJECT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
STEPS = [step for step in re.findall(r"─► (\w+) ", README) if "_" in step]


def is_frozen(kind: Any) -> bool:
    """Whether it is a dataclass whose objects cannot be changed."""
    return is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)


def test_there_is_a_recipe_for_everything_that_is_added_again_and_again() -> None:
    assert set(RECIPES) == {
        f"Add a{what}" for what in (" planner", "n operator", " table column", " step", " CLI verb")
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_has_at_most_ten_lines_and_names_the_test_that_backs_it(recipe: str) -> None:
    assert len(RECIPES[recipe].splitlines()) <= 10
    assert "`tests/" in RECIPES[recipe].splitlines()[-1] + RECIPES[recipe].splitlines()[-2]


@pytest.mark.parametrize("name", PLANNERS)
def test_a_planner_is_a_frozen_dataclass_in_its_family_s_package_and_is_held_to_the_contract(name: str) -> None:
    planner = PLANNERS[name]
    assert is_frozen(planner)
    assert re.fullmatch(rf"rebalance\.planners\.\w+\.{name}", planner.__module__)
    assert type(CASES[name]) is planner


def test_every_planner_in_the_families_is_in_the_registry() -> None:
    named = {
        file.stem
        for file in PROJECT.glob("rebalance/planners/*/*.py")
        if "    name: ClassVar[str] = " in file.read_text()
    }
    assert named == set(PLANNERS)


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_operator_is_a_frozen_dataclass_in_a_file_of_its_name(name: str) -> None:
    assert is_frozen(BUILT_IN[name])
    assert BUILT_IN[name].__module__ == f"rebalance.operators.{name}"


def test_every_operator_is_in_the_table_of_operators_with_whether_its_states_merge() -> None:
    _, *rows = tables((PROJECT / "docs" / "operators.md").read_text())[0]
    said = {names.strip("`"): merge for names, *_, merge in rows}
    assert said == {name: "yes" if operator.mergeable else "no" for name, operator in BUILT_IN.items()}


@pytest.mark.parametrize("table", control.SCHEMAS)
def test_every_column_of_a_table_is_described(table: str) -> None:
    described = [column for column in documented_columns()[table] if column != "the operator's own"]
    assert sorted(described) == sorted(control.SCHEMAS[table].names)


def test_every_table_is_described_where_an_interval_fills_it() -> None:
    assert list(documented_columns()) == list(control.SCHEMAS)


def test_the_picture_has_the_steps_in_the_order_in_which_they_run() -> None:
    assert [step.name for step in steps.STEPS] == STEPS


def test_every_step_has_a_job() -> None:
    assert set(STEPS) == {file.stem for file in PROJECT.glob("jobs/*_*.py")} - {"__init__"}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_a_function_in_a_module_of_its_name_and_stands_on_the_pipeline_s_page(step: str) -> None:
    assert callable(getattr(importlib.import_module(f"rebalance.steps.{step}"), step))
    assert f". **{step}** " in describe(load_pipeline(PROJECT / "dags" / "pipelines" / "demo.toml"))


def test_every_verb_of_the_command_line_is_in_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    verbs = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert verbs == re.findall(r"^rebalance (\w+) ", "\n".join(blocks(README, "bash")), re.MULTILINE)
