"""Pipeline files: what is accepted, and what every refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance.config import Pipeline, load_pipeline
from rebalance.errors import ConfigError

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
    monkeypatch.setenv("LAKE", "s3://lake")
    pipeline = load(tmp_path, top='tables = "$LAKE/clicks"')
    assert pipeline.tables == "s3://lake/clicks"
    assert pipeline.source.path == str(tmp_path / "events")


def test_every_knob_says_what_it_means() -> None:
    sections = [
        Pipeline,
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
