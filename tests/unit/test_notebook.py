"""Planning on a table at hand: the same plan from every kind of table, refusals in words, and what a notebook shows."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rebalance
from rebalance.errors import ConfigError, DamagedError, RebalanceError, SourceError
from rebalance.notebook import TablePlan
from rebalance.partition import PartitionFunction, Share, consistent_ring
from rebalance.planners.registry import PLANNERS
from tests.support.markdown import PROJECT, blocks

#: 300 keys of which one is a tenth of everything.
COLUMNS: dict[str, list[Any]] = {
    "key": [f"user-{number:03}" for number in range(300)],
    "cost": [60.0 if number == 7 else 1.0 + number % 3 for number in range(300)],
    "state": [10 * (number % 5) for number in range(300)],
}
ARROW = pa.table(COLUMNS)


def planned(table: object = ARROW, *, channels: int = 4, **knobs: Any) -> TablePlan:
    return rebalance.plan(table, channels=channels, **knobs)


def test_the_readme_s_example_gives_what_stands_there() -> None:
    (code,) = blocks((PROJECT / "README.md").read_text(), "pycon")
    example = doctest.DocTestParser().get_doctest(code, {}, "README.md", None, None)
    assert doctest.DocTestRunner().run(example) == doctest.TestResults(0, len(example.examples))


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).set_index("key"),
        pd.DataFrame({**COLUMNS, "key": pd.Categorical(COLUMNS["key"])}),
        pl.DataFrame(COLUMNS).sample(fraction=1.0, shuffle=True, seed=1),
        pa.concat_tables([ARROW.slice(100), ARROW.slice(0, 100)]),
        ARROW.to_batches()[0],
    ],
    ids=["dict", "pandas", "pandas with the key as index", "categories", "polars", "Arrow", "Arrow batch"],
)
def test_the_plan_is_the_same_from_every_kind_of_table_in_any_order_of_rows(table: object) -> None:
    found = planned(table)
    assert found.function.digest() == planned().function.digest()
    assert found.moved.equals(planned().moved)


def test_a_plan_says_what_it_decides_and_what_it_brings() -> None:
    found = planned()
    assert found.decision == "apply"
    assert found.before > 1.08 >= found.after
    assert max(found.loads) / np.mean(found.loads) == pytest.approx(found.after)
    assert sum(found.loads) == sum(found.loads_before) == pytest.approx(sum(COLUMNS["cost"]))
    keys = found.moved["key"].to_pylist()
    assert found.moved["to"].to_pylist() == found.function.channel_of(keys).tolist()
    assert found.moved["from"].to_pylist() == found.function.hash_channel_of(keys).tolist()
    assert str(found.moved.num_rows) in repr(found)


def test_whole_numbers_are_hashed_as_such() -> None:
    found = planned({"key": list(range(50)), "cost": [1] * 50})
    assert found.function.key_type == "long"
    assert found.moved["key"].type == pa.int64()


def test_columns_can_have_other_names() -> None:
    renamed = ARROW.rename_columns(["user", "seconds", "bytes"])
    assert planned(renamed, key="user", cost="seconds", state="bytes").moved.equals(planned().moved)


def test_without_state_moving_is_free() -> None:
    assert set(planned(ARROW.drop_columns("state")).moved["state"].to_pylist()) == {0.0}


def test_where_the_keys_are_now_is_a_column_or_a_function() -> None:
    first = planned()
    here = first.function.channel_of(COLUMNS["key"])
    by_function, by_column = (planned(now=first.function), planned(ARROW.append_column("channel", pa.array(here))))
    by_name = planned(ARROW.append_column("lies_on", pa.array(here)), now="lies_on")
    for found in (by_function, by_column, by_name):
        assert found.decision == "keep"
        assert (found.before, found.after, found.moved.num_rows) == (first.after, first.after, 0)
        assert found.function.channel_of(COLUMNS["key"]).tolist() == here.tolist()


def test_keys_on_channels_that_are_to_go_are_moved_away() -> None:
    found = planned(ARROW.append_column("channel", pa.array(np.arange(300) % 6)))
    assert found.function.channels == 4
    assert len(found.loads_before) == 6
    assert {4, 5} <= set(found.moved["from"].to_pylist())


def test_a_key_that_the_table_does_not_have_never_changes_its_channel_unseen() -> None:
    away = PartitionFunction(3, 4, consistent_ring(4), routes={"nobody": 1, "user-007": 2})
    assert away.hash_channel_of(["nobody"]).tolist() != [1]
    found = planned(now=away)
    assert found.function.version == 4
    (to,) = found.function.channel_of(["nobody"]).tolist()
    moves = {row["key"]: row["to"] for row in found.moved.to_pylist()}
    assert moves.get("nobody", 1) == to


def test_a_plan_that_is_refused_leaves_everything_as_it_is() -> None:
    first = planned()
    found = planned(now=first.function, planner="uniform", theta_max=0.0)
    assert (found.decision, found.reason[:27]) == ("reject", "it would not balance better")
    assert found.moved.num_rows == 0
    assert (found.after, list(found.loads)) == (found.before, list(found.loads_before))
    assert found.function is first.function


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_can_be_asked(name: str) -> None:
    found = planned(planner=name, mergeable=True)
    assert found.planner == name
    assert sum(found.loads) == pytest.approx(sum(COLUMNS["cost"]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": ["a", None, "b"]}, "1 of 3 keys in 'key' are null. Leave these rows out"),
        ({"key": ["a", "b", "a"]}, "1 of 3 rows repeat a key in 'key', for example 'a'. Give one row per key"),
        ({"key": [1.5, 2.5, 3.5]}, "'key' is of type double. Keys are whole numbers or texts"),
        ({"key": pa.array([1, 2, 2**63], pa.uint64())}, "'key' has keys beyond 2^63"),
        ({"cost": [1.0, -2.0, float("nan")]}, "of 3 numbers in 'cost', these cannot be planned on: 1 null or not a number, 1 negative."),
        ({"cost": [1.0, None, float("inf")]}, "1 null or not a number, 1 infinite. Fill or leave out their rows"),
        ({"cost": ["1", "2", "3"]}, "'cost' is of type string. It must be numbers."),
        ({"state": [1, -1, 1]}, "numbers in 'state', these cannot be planned on: 1 negative"),
        ({"channel": [0, None, 1]}, "1 of 3 channels in 'channel' are null"),
        ({"channel": [0, -1, 1]}, "'channel' has channels from -1 to 1. They go from 0 to 4095."),
        ({"channel": [0.5, 1.0, 1.0]}, "'channel' is of type double. Channels are whole numbers"),
        ({"key": [], "cost": []}, "the table has no rows"),
        ({"cost": [1.0]}, "the table cannot be read: "),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_planned_on_is_refused_with_the_numbers(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=re.escape(said)):
        planned({"key": ["a", "b", "c"], "cost": [1.0, 2.0, 3.0], **change})


def test_missing_numbers_of_pandas_are_refused_too() -> None:
    with pytest.raises(SourceError, match=r"of 2 numbers in 'cost'.* 1 null or not a number"):
        planned(pd.DataFrame({"key": ["a", "b"], "cost": [1.0, float("nan")]}))


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"planner": "frugl"}, "there is no planner 'frugl'. Did you mean 'frugal'?"),
        ({"planner": "pkg"}, "planner 'pkg' splits keys, which only helps where a key's partial results can be merged."),
        ({"parameters": {"x": 1}}, "planner 'frugal' has no parameter 'x'"),
        ({"channels": 0}, "channels = 0: it must be a whole number from 1 to 4096."),
        ({"theta_max": -1.0}, "theta_max = -1.0: Input should be greater than or equal to 0."),
        ({"theta_max": float("nan")}, "theta_max = nan"),
        ({"max_routes": -1}, "max_routes = -1: "),
        ({"capacities": (1.0, 2.0)}, "channels.capacities has 2 values for channels.count = 4. Give one per channel, or none."),
        ({"key": "user"}, "there is no column 'user'. The table has: 'key', 'cost', 'state'. Name the columns with key="),
        ({"now": PartitionFunction(0, 4, consistent_ring(4), "long")}, "for keys of type long and the table's keys are of type string"),
    ],
)  # fmt: skip
def test_a_knob_that_cannot_be_is_refused_in_words(knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        planned(**knobs)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(SourceError, match="this is a list, not a table"):
        planned([1, 2])


def test_a_function_is_saved_and_read_again(tmp_path: Path) -> None:
    function = planned().function
    function.save(tmp_path / "function.json")
    found = rebalance.load_function(tmp_path / "function.json")
    assert (found.version, found.digest()) == (function.version, function.digest())
    assert [path.name for path in tmp_path.iterdir()] == ["function.json"]


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-9], lambda text: "[1]", lambda text: text.replace('"channel": 1', '"channel": 2', 1)]
)
def test_a_saved_function_that_was_cut_off_or_changed_is_refused(tmp_path: Path, damage: Any) -> None:
    file = tmp_path / "function.json"
    PartitionFunction(0, 4, consistent_ring(4), routes={"ann": 1}).save(file)
    file.write_text(damage(file.read_text()))
    with pytest.raises(DamagedError, match=r"function\.json is not a function as `save` writes it, or was changed"):
        rebalance.load_function(file)


def test_foreign_keys_are_escaped_on_a_notebook_s_page() -> None:
    evil = "<script>alert(1)</script>"
    found = planned({"key": [evil, "b", "c", "d"], "cost": [4, 3, 2, 1], "channel": [1, 1, 1, 1]}, channels=2)
    function = PartitionFunction(0, 2, consistent_ring(2), routes={evil: 1}, splits={"x": (Share(0, 1.0),)})
    for page in (found._repr_html_(), function._repr_html_()):
        assert "<script" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_notebook_s_page_stays_small() -> None:
    found = planned({"key": list(range(20_000)), "cost": [1 + key % 97 for key in range(20_000)]}, channels=200)
    assert found.moved.num_rows > 5
    assert len(found._repr_html_()) < 12_000
    assert "and 168 channels more" in found._repr_html_()
    assert len(found.function._repr_html_()) < 1_000


def test_the_picture_has_a_bar_per_channel_before_and_after() -> None:
    found = planned()
    for axis, loads in zip(found.plot().axes, (found.loads_before, found.loads), strict=True):
        heights = [bar.get_height() for bar in axis.patches]
        assert heights == pytest.approx([load / fair for load, fair in zip(loads, found.fair, strict=True)])


def test_planning_on_a_table_needs_neither_pandas_polars_spark_nor_matplotlib() -> None:
    code = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name in ('pandas', 'polars', 'pyspark', 'matplotlib', 'airflow'): raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import rebalance, pyarrow as pa\n"
        "found = rebalance.plan(pa.table({'key': ['ann', 'bob'], 'cost': [1, 1]}), channels=2)\n"
        "print(found, found._repr_html_()[:5])\n"
        "try: found.plot()\n"
        "except rebalance.errors.EnvironmentMissingError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("apply by frugal")
    assert "extra 'pictures'" in said


def test_all_that_planning_on_a_table_refuses_is_of_the_package_s_own_kind() -> None:
    assert issubclass(SourceError, RebalanceError)
    assert issubclass(ConfigError, RebalanceError)
