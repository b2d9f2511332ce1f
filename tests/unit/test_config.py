"""Pipeline files: what is accepted, and what every refusal says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from rebalance.errors import ConfigError
from rebalance.partition import PartitionFunction, consistent_ring
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.pipeline.sections import NodeSection
from rebalance.planners.registry import PLANNERS
from rebalance.planning.model import Floats
from rebalance.planning.records import weights_of
from rebalance.storage import statistics

GOOD = {
    "": 'tables = "tables"',
    "source": 'path = "events"\nkey = "user"\ntime = "ts"',
    "interval": 'length = "1 h"\nfirst = 2026-01-01T00:00:00Z',
    "operator": 'name = "windowed_sum"',
}


def write(folder: Path, **changed: str) -> Path:
    sections = {**GOOD, **{("" if name == "top" else name.replace("__", ".")): text for name, text in changed.items()}}
    file = folder / "clicks.toml"
    file.write_text("\n".join(f"[{name}]\n{text}" if name else text for name, text in sections.items()))
    return file


def load(folder: Path, **changed: str) -> Pipeline:
    return load_pipeline(write(folder, **changed))


def test_a_file_with_only_what_is_needed_is_enough(tmp_path: Path) -> None:
    pipeline = load(tmp_path)
    assert pipeline.name == "clicks"
    assert pipeline.dag_id == "rebalance_clicks"
    assert pipeline.source.key == ("user",)
    assert (pipeline.channels.count, pipeline.operator.window, pipeline.planning.theta_max) == (8, 1, 0.08)


def test_paths_are_relative_to_the_file_and_may_use_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "/lake")
    pipeline = load(tmp_path, top='tables = "$LAKE/clicks"')
    assert pipeline.tables == "/lake/clicks"
    assert pipeline.source.path == str(tmp_path / "events")


def test_every_knob_says_what_it_means() -> None:
    sections = [
        Pipeline,
        NodeSection,
        *(f.annotation for f in Pipeline.model_fields.values() if hasattr(f.annotation, "model_fields")),
    ]
    silent = [
        f"{section.__name__}.{name}"  # type: ignore[union-attr]
        for section in sections
        for name, knob in section.model_fields.items()  # type: ignore[union-attr]
        if not knob.description and not hasattr(knob.annotation, "model_fields") and name != "file"
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(
            {"planning": "theta_mx = 1"},
            r"no knob 'planning.theta_mx'. Did you mean 'theta_max'",
            id="a misspelt knob names the nearest one",
        ),
        pytest.param({"top": ""}, "tables is missing", id="a missing knob is named"),
        pytest.param(
            {"planning": 'planner = "mixd"'}, "Did you mean 'mixed'", id="an unknown planner names the nearest one"
        ),
        pytest.param(
            {"planning": 'planner = "mixed"\n[planning.parameters]\nbta = 1'},
            "Did you mean 'beta'",
            id="an unknown planner parameter names the nearest one",
        ),
        pytest.param(
            {"operator": 'name = "windowed_sun"'},
            "Did you mean 'windowed_sum'",
            id="an unknown operator names the nearest one",
        ),
        pytest.param(
            {"operator": 'name = "windowed_sum"\nfile = "mine.py"'},
            "exactly one of operator.name",
            id="two operators are one too many",
        ),
        pytest.param(
            {"operator": 'name = "windowed_sum"\n[operator.parameters]\nvolume = "x"'},
            "Known: value",
            id="an unknown operator parameter lists the known ones",
        ),
        pytest.param(
            {"operator": 'name = "latest_match"\n[operator.parameters]\nearlier = "a"\nlater = "a"'},
            "they must differ",
            id="an event cannot match its own kind",
        ),
        pytest.param(
            {"source": 'path = "e"\nformat = "csv"\nkey = "k"\ntime = "t"'},
            "source.columns",
            id="csv needs its columns",
        ),
        pytest.param(
            {"interval": 'length = "7 min"\nfirst = 2026-01-01T00:00:00Z'},
            "it must be 1, 2, 3",
            id="a length that does not divide a day",
        ),
        pytest.param(
            {"interval": 'length = "1 h"\nfirst = 2026-01-01T00:30:00Z'},
            "2026-01-01T00:00:00",
            id="a first interval off the grid names the one on it",
        ),
        pytest.param(
            {"channels": "count = 3\ncapacities = [1.0, 2.0]"},
            "2 values for channels.count = 3",
            id="capacities must be as many as channels",
        ),
        pytest.param(
            {"channels": "count = 2\ncapacities = [1.0, 0.0]"},
            "channels.excluded",
            id="a capacity of zero names the alternative",
        ),
        pytest.param(
            {"channels": "count = 2\nexcluded = [0, 1]"}, "Leave at least one", id="not all channels can be drained"
        ),
        pytest.param({"channels": "count = 2\nexcluded = [2]"}, "0..1", id="a drained channel must exist"),
        pytest.param({"channels": "count = 0"}, "channels.count = 0", id="at least one channel"),
        pytest.param({"planning": "theta_max = -0.1"}, "planning.theta_max = -0.1", id="θ_max is not negative"),
        pytest.param({"planning": 'mode = "yolo"'}, "planning.mode", id="a mode that is not there"),
        pytest.param({"top": 'tables = "t"\nname = "My Pipe"'}, "name", id="a name Airflow could not use"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, **changed)


NODES = """
[[nodes]]
name = "fast"
channels = [0, 2]
cores = 4
ghz = 3.0
memory = 20

[[nodes]]
name = "slow"
channels = [1]
cores = 2
ghz = 2.0
memory = 4
"""


def with_nodes(folder: Path, nodes: str = NODES, **changed: str) -> Pipeline:
    """A file whose channels are on nodes."""
    file = write(folder, **{"channels": "count = 3", "planning": 'planner = "ststream"', **changed})
    file.write_text(file.read_text() + nodes)
    return load_pipeline(file)


def test_nodes_give_their_channels_an_even_part_of_their_performance(tmp_path: Path) -> None:
    """M = p·u·f + (1-p)·m: 0.5·12 + 0.5·20 = 16 for two channels, 0.5·4 + 0.5·4 = 4 for one."""
    pipeline = with_nodes(tmp_path)
    assert [(node.name, node.channels) for node in pipeline.make_nodes()] == [("fast", (0, 2)), ("slow", (1,))]
    assert pipeline.capacities() == (8.0, 4.0, 8.0)
    by_cores = with_nodes(tmp_path, planning='planner = "ststream"\n[planning.parameters]\np = 1.0')
    assert by_cores.capacities() == (6.0, 4.0, 6.0)
    declared = with_nodes(tmp_path, channels="count = 3\ncapacities = [1.0, 2.0, 3.0]")
    assert declared.capacities() == (1.0, 2.0, 3.0)
    assert load(tmp_path, channels="count = 3").capacities() == (1.0, 1.0, 1.0)


def test_a_planner_is_told_of_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = with_nodes(tmp_path)
    columns = {"slot": [7], "tuples": [3], "cost": [3.0], "held_bytes": [10]}
    monkeypatch.setattr(statistics, "read_key_stats", lambda *_: pa.table({"key": ["a"], **columns}))
    function = PartitionFunction(version=1, channels=3, slots=consistent_ring(3))
    request = statistics.make_request(pipeline, function, "any", mergeable=True)
    assert request.nodes == pipeline.make_nodes()
    assert request.capacity.tolist() == [8.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("[0, 2]", "[0]", "channel 2 belongs to no node. List every channel", id="a channel left out"),
        pytest.param(
            "[0, 2]", "[0, 1, 2]", "channel 1 belongs to 2 nodes: 'fast', 'slow'", id="a channel on two nodes"
        ),
        pytest.param("[0, 2]", "[0, 2, 3]", r"the channels \[3\], but the channels are 0..2", id="no such channel"),
        pytest.param('"slow"', '"fast"', "'fast' more than once", id="two nodes of one name"),
        pytest.param("cores = 4", "cores = 0", "nodes.0.cores = 0", id="a node without cores"),
        pytest.param("cores = 4", "corse = 4", "Did you mean 'cores'", id="a misspelt knob names the nearest one"),
    ],
)
def test_wrong_nodes_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_nodes(tmp_path, NODES.replace(old, new, 1))


def test_a_planner_that_can_do_without_splits_takes_any_operator(tmp_path: Path) -> None:
    pipeline = with_nodes(tmp_path, operator='name = "latest_match"\n[operator.parameters]\nearlier = "a"\nlater = "b"')
    assert pipeline.make_planner().splits_keys
    assert not pipeline.make_operator().mergeable


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no pipeline file .*nowhere\.toml"):
        load_pipeline(tmp_path / "nowhere.toml")


def test_what_is_not_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("tables = = 1")
    with pytest.raises(ConfigError, match=r"is not TOML.*line 1"):
        load_pipeline(tmp_path / "bad.toml")


def test_a_user_s_operator_needs_all_parts_of_the_interface(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    name = 'mine'\nOPERATOR = Mine\n")
    pipeline = load(tmp_path, operator='file = "mine.py"')
    with pytest.raises(ConfigError, match="missing: mergeable, rows, results, state, cost"):
        pipeline.make_operator()


MINE = """
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Mine:
    name: ClassVar[str] = "mine"
    mergeable: ClassVar[bool] = False
    rows = results = state = cost = None


OPERATOR = Mine
"""


@dataclass(frozen=True)
class Splitting:
    """A planner that may split keys."""

    name: ClassVar[str] = "splitting"
    splits_keys: ClassVar[bool] = True


@pytest.mark.parametrize("operator", ['name = "sessions"', 'file = "mine.py"'], ids=["built in", "a user's own"])
@pytest.mark.parametrize(
    ("planning", "message"),
    [
        (
            'planner = "splitting"',
            r"planner 'splitting' splits keys.*'(sessions|mine)'.*one of the planners .*keep.*mixed",
        ),
        ('consistency = "merge"', r"planning.consistency = 'merge'.*'(sessions|mine)'.*Use 'move'; or .*windowed_sum"),
    ],
    ids=["a planner that splits", "state that stays"],
)
def test_an_operator_whose_states_do_not_merge_is_refused_where_they_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operator: str, planning: str, message: str
) -> None:
    monkeypatch.setitem(PLANNERS, "splitting", Splitting)
    (tmp_path / "mine.py").write_text(MINE)
    # A user's own operator is not run when the file is read, only when it is needed.
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, operator=operator, planning=planning).make_operator()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(
            {"planning": 'statistics = "compact"\nplanner = "ststream"'},
            "planner 'ststream' needs all of them. Use one of the planners frugal, hybrid, keep, llfd, .*; or 'exact'",
            id="a planner that has to know every key",
        ),
        pytest.param(
            {"planning": 'statistics = "compact"\n[planning.parameters]\nmax_keys = 9'},
            "planner 'frugal' cannot count the keys of a channel for max_keys .* Leave max_keys out; or use 'exact'",
            id="a limit on keys that are not named",
        ),
        pytest.param(
            {"planning": 'statistics = "compact"', "operator": 'function = "mine.py"'},
            "what a function per key costs is measured for each key. Use 'exact'",
            id="a cost that is measured for each key",
        ),
        pytest.param(
            {"planning": 'statistics = "frequent"\nplanner = "ststream"'},
            "planning.statistics = 'frequent' tells a planner of some keys only, and planner 'ststream' needs all of them",
            id="a planner that has to know every key, not only frequent ones",
        ),
        pytest.param(
            {"planning": 'statistics = "frequent"', "operator": 'function = "mine.py"'},
            "planning.statistics = 'frequent' adds up what keys cost",
            id="a cost that is measured for each key, not only for frequent ones",
        ),
        pytest.param({"planning": "frequent_error = 0.2"}, "planning.frequent_error = 0.2", id="hardly any key"),
        pytest.param({"planning": "frequent_error = 0.0"}, "planning.frequent_error = 0.0", id="no error at all"),
        pytest.param({"planning": "compact_r = 7"}, "planning.compact_r = 7", id="finer than records can be"),
        pytest.param({"planning": 'statistics = "sampled"'}, "planning.statistics", id="a way that is not there"),
    ],
)
def test_what_cannot_be_planned_on_some_keys_is_refused(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, **changed)


@pytest.mark.parametrize(
    ("planning", "count", "error"),
    [
        ("theta_max = 0.08", 8, 0.001),
        ("theta_max = 0.02", 64, 0.02 / 640),
        ("theta_max = 0", 64, 1e-5),
        ("theta_max = 5", 1, 1e-2),
        ("frequent_error = 0.05", 8, 0.05),
    ],
    ids=["as it comes", "more channels", "never below", "never above", "as asked for"],
)
def test_a_key_needs_a_name_from_a_tenth_of_what_a_channel_may_be_off(
    tmp_path: Path, planning: str, count: int, error: float
) -> None:
    found = load(tmp_path, planning=planning).planning.error(count)
    assert found == pytest.approx(error)


@pytest.mark.parametrize(
    ("cost", "weights"),
    [("2 * new_rows + window_rows / 4", (2.0, 0.25)), ("7", None), ("new_rows * window_rows", None)],
)
def test_compact_statistics_need_a_cost_that_is_a_weighted_sum(cost: str, weights: tuple[float, float] | None) -> None:
    class Costing:
        name = "costing"

        def cost(self, new_rows: Floats, window_rows: Floats) -> Floats:
            return eval(cost, {}, {"new_rows": new_rows, "window_rows": window_rows})  # type: ignore[no-any-return]

    if weights is None:
        with pytest.raises(ConfigError, match="Let it be a weighted sum of both"):
            weights_of(Costing())
    else:
        assert weights_of(Costing()) == weights


def test_state_may_stay_where_it_merges(tmp_path: Path) -> None:
    assert load(tmp_path, planning='consistency = "merge"').make_operator().mergeable
