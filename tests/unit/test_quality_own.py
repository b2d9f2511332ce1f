"""A team's own expectations: found in their file, run with the built-in ones, and refused in words if they are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance.errors import ConfigError, QualityError
from rebalance.pipeline.file import Pipeline
from rebalance.quality.own import own_expectations
from rebalance.quality.runs import require_passed
from rebalance.storage import control
from tests.support.checking import check_quality
from tests.support.counted import counted_pipeline, first_interval, key_row, put_statistics
from tests.support.markdown import PROJECT, blocks

IMPORT = "from great_expectations import expectations as gxe\n"


def pipeline_with(folder: Path, checks: str) -> Pipeline:
    """A counted interval, and the checks in a file beside the pipeline's."""
    pipeline = counted_pipeline(folder, 'expectations = "checks.py"')
    (folder / "checks.py").write_text(checks)
    put_statistics(pipeline, first_interval(pipeline), [key_row("a", cost=50.0), key_row("b", cost=5.0)])
    return pipeline


def test_the_file_is_relative_to_the_pipeline_s(tmp_path: Path) -> None:
    assert counted_pipeline(tmp_path, 'expectations = "checks.py"').quality.expectations == str(tmp_path / "checks.py")


def test_an_own_check_that_fails_stops_planning_and_data_docs_show_what_was_observed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checks = IMPORT + 'def key_stats():\n    return [gxe.ExpectColumnMaxToBeBetween(column="cost", max_value=20)]\n'
    pipeline = pipeline_with(tmp_path, checks)
    with pytest.raises(QualityError, match=r"1 of \d+ .*expect_column_max_to_be_between on cost .*: observed 50.0"):
        check_quality(pipeline, first_interval(pipeline))
    # Great Expectations logs what it cannot show, and shows the rest.
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("severity", ["warning", "info"])
def test_an_own_check_that_only_warns_stops_nothing(tmp_path: Path, severity: str) -> None:
    one = f'gxe.ExpectColumnMaxToBeBetween(column="cost", max_value=20, severity="{severity}")'
    pipeline = pipeline_with(tmp_path, IMPORT + f"def key_stats():\n    return [{one}]\n")
    said = check_quality(pipeline, first_interval(pipeline))
    assert "on 2 keys passed; 1 warning: expect_column_max_to_be_between on cost (max_value 20" in said
    (row,) = [row for row in control.rows(pipeline.tables, "quality_runs") if not row["success"]]
    assert (row["severity"], row["suite"], row["column"]) == ("warn", "key_stats", "cost")
    require_passed(pipeline.tables, first_interval(pipeline).id)


def test_own_checks_that_pass_are_counted_with_the_others(tmp_path: Path) -> None:
    plain = pipeline_with(tmp_path / "plain", "def key_stats():\n    return []\n")
    one = 'gxe.ExpectTableRowCountToBeBetween(min_value=1, notes="never empty")'
    more = pipeline_with(tmp_path / "more", IMPORT + f"def key_stats():\n    return [{one}]\n")
    counts = [int(check_quality(each, first_interval(each)).split()[0]) for each in (plain, more)]
    assert counts[1] == counts[0] + 1


def test_a_check_on_a_column_that_is_not_there_fails_and_says_so(tmp_path: Path) -> None:
    checks = IMPORT + 'def key_stats():\n    return [gxe.ExpectColumnMaxToBeBetween(column="price", max_value=20)]\n'
    pipeline = pipeline_with(tmp_path, checks)
    with pytest.raises(QualityError, match=r"on price .*it could not be checked: .*price"):
        check_quality(pipeline, first_interval(pipeline))


@pytest.mark.parametrize(
    ("one", "passes"),
    [
        ('gxe.ExpectColumnValuesToBeBetween(column="cost", max_value=20)', True),
        ('gxe.ExpectColumnMaxToBeBetween(column="cost", max_value=20)', False),
    ],
    ids=["values", "a maximum"],
)
def test_an_interval_without_keys_has_good_values_and_no_maximum(tmp_path: Path, one: str, passes: bool) -> None:
    pipeline = pipeline_with(tmp_path, IMPORT + f"def key_stats():\n    return [{one}]\n")
    empty = first_interval(pipeline).shifted(30)
    put_statistics(pipeline, empty, [])
    if passes:
        assert "0 keys passed" in check_quality(pipeline, empty)
    else:
        with pytest.raises(QualityError, match="observed None"):
            check_quality(pipeline, empty)


def test_a_file_about_statistics_alone_starts_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rebalance.spark import session

    def started(*_: object) -> None:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(session, "spark_session", started)
    pipeline = pipeline_with(tmp_path, "def key_stats():\n    return []\ndef events():\n    return []\n")
    assert "passed" in check_quality(pipeline, first_interval(pipeline))


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        pytest.param("def key_stats(:\n", r"cannot be run: SyntaxError: .*line 1", id="what is not Python"),
        pytest.param("\nimport nowhere_at_all\n", r"ModuleNotFoundError: .*\(line 2\)", id="a failing import"),
        pytest.param("x = 1\n", r"neither key_stats\(\) nor events\(\)", id="no function"),
        pytest.param("key_stats = []\n", r"is list, not a function. Write def key_stats", id="a list"),
        pytest.param("def key_stats():\n    return None\n", r"returned NoneType. Return a list", id="no list"),
        pytest.param("def events():\n    return [5]\n", r"entry 1 of 1 is 5, not an expectation", id="a number"),
        pytest.param(
            IMPORT + "def events():\n    return [gxe.ExpectColumnValuesToNotBeNull]\n",
            r"entry 1 of 1 is <class .*, not an expectation",
            id="a class",
        ),
        pytest.param(
            IMPORT + "def events():\n    return [gxe.ExpectColumnValuesToNotBeNull(colunm='x')]\n",
            r"events in .*checks.py failed: ValidationError: .*colunm.*\(line 3\)",
            id="a misspelt argument",
        ),
        pytest.param(
            IMPORT + "def events():\n    return [gxe.ExpectColumnValuesToNotBeNull(column='x', severity='bad')]\n",
            r"failed: ValidationError: .*severity",
            id="no such severity",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_change(tmp_path: Path, checks: str, said: str) -> None:
    (tmp_path / "checks.py").write_text(checks)
    with pytest.raises(ConfigError, match=said):
        own_expectations(str(tmp_path / "checks.py"))


@pytest.mark.parametrize(
    ("name", "said"), [("nowhere.py", "does not exist. Correct the path"), ("checks.txt", "must end in .py")]
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "checks.txt").write_text("")
    with pytest.raises(ConfigError, match=said):
        own_expectations(str(tmp_path / name))


def test_a_wrong_file_leaves_nothing_behind(tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, "x = 1\n")
    with pytest.raises(ConfigError):
        check_quality(pipeline, first_interval(pipeline))
    assert not control.exists(pipeline.tables, "quality_runs")


def test_the_file_in_the_documentation_works(tmp_path: Path) -> None:
    (code,) = blocks((PROJECT / "docs" / "quality.md").read_text(), "python")
    (tmp_path / "checks.py").write_text(code)
    found = own_expectations(str(tmp_path / "checks.py"))
    assert set(found) == {"key_stats", "events"}
    severities = {one.severity.value for suite in found.values() for one in suite}
    assert severities == {"critical", "warning"}
    (tmp_path / "here").mkdir()
    pipeline = pipeline_with(tmp_path / "here", code[: code.index("def events")])
    assert "passed" in check_quality(pipeline, first_interval(pipeline))
