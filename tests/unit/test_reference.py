"""The reference pages are what the code says, and the tables say of themselves what the pages say of them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rebalance.storage import control
from rebalance.storage.schemas import SCHEMAS, about, comments, schema_of
from tests.support.markdown import PROJECT

PAGES = ("tables.md", *(f"reference/{file.name}" for file in sorted((PROJECT / "docs" / "reference").glob("*.md"))))
#: Words by which a number's comment says what it counts, or that it has no unit.
UNITS = re.compile(
    r"no unit|\b(rows?|keys|bytes|seconds|events|intervals?|number|channels?|version|epoch|slots|tuples)\b"
)


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that makes the pages."""
    monkeypatch.syspath_prepend(str(PROJECT / "tools"))
    return importlib.import_module("reference")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_reference_is_what_the_code_says(reference: ModuleType, page: str) -> None:
    assert (PROJECT / "docs" / page).read_text() == reference.PAGES[page](), "Run: make docs"


def test_every_page_of_the_reference_is_made(reference: ModuleType) -> None:
    assert set(reference.PAGES) == set(PAGES)


@pytest.mark.parametrize("table", SCHEMAS)
def test_every_number_says_its_unit_or_that_it_has_none(table: str) -> None:
    for field in SCHEMAS[table]:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            assert UNITS.search(comments(table)[field.name]), field.name


def test_every_table_and_every_column_says_what_it_is() -> None:
    for table in SCHEMAS:
        assert about(table).endswith(".")
        assert all(comments(table).values())
        assert comments(table).keys() == set(SCHEMAS[table].names)


def test_a_table_that_is_written_or_made_carries_its_words(tmp_path: Path) -> None:
    root = str(tmp_path)
    control.append(root, "plan_moves", [{"plan_id": "p", "key": "k"}])
    control.create(root, "epochs")
    for table in ("plan_moves", "epochs"):
        delta = DeltaTable(f"{root}/{table}")
        assert delta.metadata().description == about(table)
        assert {field.name: field.metadata.get("comment") for field in delta.schema().fields} == comments(table)


def test_a_table_that_was_made_without_words_keeps_its_log_as_it_was(tmp_path: Path) -> None:
    root = str(tmp_path)
    plain = pa.schema([(field.name, field.type) for field in schema_of("plan_moves", "string")])
    DeltaTable.create(f"{root}/plan_moves", schema=plain)
    control.append(root, "plan_moves", [{"plan_id": "p", "interval_id": "i"}])
    control.replace(root, "plan_moves", [{"plan_id": "q", "interval_id": "i"}], interval_id="i")
    assert [row["plan_id"] for row in control.rows(root, "plan_moves")] == ["q"]
    assert not any(field.metadata for field in DeltaTable(f"{root}/plan_moves").schema().fields)
    later = sorted((tmp_path / "plan_moves" / "_delta_log").glob("*.json"))[1:]
    assert not any('"metaData"' in entry.read_text() for entry in later)


def test_bars_tags_and_backslashes_stand_in_a_cell_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "tools"))
    cell = importlib.import_module("reference_parts").cell
    assert cell("|a| < b,\n\\s and `<name>`") == "\\|a\\| &lt; b, \\\\s and `<name>`"
