"""The documentation: one sentence per line, and nothing named that is not there."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rebalance.planners.registry import PLANNERS
from rebalance.steps import STEPS
from rebalance.storage.schemas import SCHEMAS
from tests.support.markdown import PAGES, PROJECT, anchors, blocks, broken_prose, code_words, links, tables

EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@EVERY_PAGE
def test_a_line_of_prose_is_one_sentence(page: Path) -> None:
    wrong = broken_prose(page.read_text())
    assert not wrong, "\n".join(["Give every sentence a line of its own:", *wrong])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("One sentence.\nAnother one.", []),
        ("One sentence. Another one.", ["One sentence. Another one."]),
        ("One that is\nbroken.", ["One that is"]),
        ("- An item.\n  It goes on.\n- Another", []),
        ("1. An item. It goes on.", ["An item. It goes on."]),
        ("Some planners, e.g. `mixed. It`, are from Fang et al. and others.", []),
        ("Two figures, 1.5 and 2.", []),
        ("```\nOne. Two.\n```\n\n| One. Two. |\n", []),
        ("**A title.** And more.", ["**A title.** And more."]),
    ],
)
def test_the_rule_of_one_sentence_per_line_finds_what_breaks_it(text: str, wrong: list[str]) -> None:
    assert broken_prose(text) == wrong


@EVERY_PAGE
def test_a_link_leads_somewhere(page: Path) -> None:
    for link in links(page.read_text()):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target.read_text()), f"{page.name} links to {link}"


@EVERY_PAGE
def test_a_file_that_is_named_exists(page: Path) -> None:
    folders = "rebalance|tests|docs|dags|jobs|tools|docker"
    named = [word for word in code_words(page.read_text()) if re.fullmatch(rf"(?:{folders})/[\w./-]+", word)]
    assert [name for name in named if not (PROJECT / name).exists()] == []


def test_a_page_that_the_code_points_at_exists() -> None:
    sources = [*PROJECT.glob("rebalance/**/*.py"), *PROJECT.glob("tests/**/*.py"), *PROJECT.glob("dags/**/*.toml")]
    named = {name for source in sources for name in re.findall(r"docs/\w+\.(?:md|png)", source.read_text())}
    assert named
    assert [name for name in sorted(named) if not (PROJECT / name).exists()] == []


@EVERY_PAGE
def test_a_make_command_is_a_target_of_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = {word.split()[1] for word in code_words(page.read_text()) if re.match(r"make [\w-]+", word)}
    assert named <= targets


@EVERY_PAGE
def test_a_module_that_is_run_exists_and_knows_its_options(page: Path) -> None:
    commands = [word.split() for word in code_words(page.read_text()) if word.startswith("python -m ")]
    for _, _, module, *options in commands:
        path = PROJECT / module.replace(".", "/")
        file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        assert file.is_file(), module
        known = {*re.findall(r'"(--[\w-]+)"', file.read_text()), "--help"}
        assert {option.strip("[]") for option in options if option.lstrip("[").startswith("--")} <= known, module


@EVERY_PAGE
def test_a_job_that_is_submitted_exists(page: Path) -> None:
    commands = [word.split() for word in code_words(page.read_text()) if word.startswith("spark-submit ")]
    jobs = [next(word for word in words if word.startswith("jobs/")) for words in commands]
    assert [job for job in jobs if not (PROJECT / job).is_file()] == []


def test_the_simulator_s_python_runs() -> None:
    (code,) = blocks((PROJECT / "docs" / "simulation.md").read_text(), "python")
    names: dict[str, Any] = {}
    exec(code.replace("10**6", "10**4"), names)
    assert names["outcome"].utilisation.shape == names["outcome"].queue.shape


def test_the_readme_s_function_per_key_remembers_what_it_has_seen() -> None:
    (code,) = [block for block in blocks((PROJECT / "README.md").read_text(), "python") if "def process" in block]
    names: dict[str, Any] = {}
    exec(code, names)
    state = pa.schema([("trades", pa.int64()), ("total", pa.float64())]).empty_table()
    for prices, seen in (([1.0, 2.0], (2, 1.5)), ([6.0], (3, 3.0))):
        results, state = names["process"]("key", pa.table({"price": prices}), state)
        assert results.to_pylist() == [dict(zip(("trades", "mean"), seen, strict=True))]
    for table, declared in ((results, names["RESULTS"]), (state, names["STATE"])):
        assert table.column_names == [column.split()[0] for column in declared.split(", ")]


def default_in_words(value: Any) -> str:
    """A parameter's default as the table of planners writes it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def test_the_table_of_planners_lists_every_planner_with_its_parameters_and_their_defaults() -> None:
    _, *rows = tables((PROJECT / "docs" / "planners.md").read_text())[0]
    listed: list[str] = []
    for names, _, parameters, *_ in rows:
        planners = [name for name in re.findall(r"`(\w+)`", names) if name in PLANNERS]
        own = {field.name: field.default for planner in planners for field in fields(PLANNERS[planner])}
        assert MISSING not in own.values()
        written = dict(re.findall(r"`(\w+)` (?!also)(\S+?)(?=[,;]?(?:\s|$))", parameters))
        assert written == {name: default_in_words(value) for name, value in own.items()}, names
        listed += planners
    assert sorted(listed) == sorted(PLANNERS)


def test_every_planner_is_traced_to_its_paper() -> None:
    headings = re.findall(r"^## .*$", (PROJECT / "docs" / "papers.md").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(headings))) == sorted(PLANNERS)


def test_the_rooms_are_described_in_the_order_in_which_they_may_import_each_other() -> None:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    page = (PROJECT / "docs" / "design.md").read_text()
    (rooms,) = [rows for (head, *rows) in tables(page) if head[0] == "room"]
    described = [re.findall(r"`(\w+)`", names) for names, _ in rooms]
    assert described == [layer.replace("rebalance.", "").split(" | ") for layer in layers]
    folders = {folder.parent.name for folder in PROJECT.glob("rebalance/*/__init__.py")}
    assert folders <= {room for row in described for room in row}


def test_the_design_lists_every_table_with_the_steps_that_write_it() -> None:
    (rows,) = [rows for (head, *rows) in tables((PROJECT / "docs" / "design.md").read_text()) if head[0] == "table"]
    listed = {table: writers for names, _, writers in rows for table in re.findall(r"`(\w+)`", names)}
    assert list(listed) == list(SCHEMAS)
    for step in STEPS:
        written = [table for table, writers in listed.items() if step.name in re.findall(r"\w+", writers)]
        said = set(re.findall(r"`(\w+)`", step.about)) & SCHEMAS.keys()
        assert said <= set(written), step.name


def test_the_design_names_every_room_of_the_package() -> None:
    (rows,) = [rows for (head, *rows) in tables((PROJECT / "docs" / "design.md").read_text()) if head[0] == "room"]
    named = {room for rooms, _ in rows for room in code_words(rooms)}
    files = {file.stem for file in PROJECT.glob("rebalance/*.py")} - {"__init__"}
    assert named == {folder.parent.name for folder in PROJECT.glob("rebalance/*/__init__.py")} | files


def test_every_figure_stands_under_the_command_that_made_it_and_every_benchmark_is_named() -> None:
    _, *sections = re.split(r"^## ", (PROJECT / "docs" / "measurements.md").read_text(), flags=re.MULTILINE)
    assert [section.splitlines()[0] for section in sections if "`python -m tests.bench." not in section] == []
    named = {name for page in PAGES for name in re.findall(r"python -m tests\.bench\.(\w+)", page.read_text())}
    assert named == {file.stem for file in PROJECT.glob("tests/bench/bench_*.py")}


def test_the_readme_leads_to_every_page() -> None:
    linked = set(links((PROJECT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in (PROJECT / "docs").glob("*.md")} <= linked
