"""What a person sees at the command line, on tables made by hand: no Spark is needed to look."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rebalance.cli import main
from rebalance.errors import RebalanceError
from rebalance.partition import PartitionFunction, consistent_ring, slots_of
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.steps import Insist
from rebalance.steps.make_plan import make_plan
from rebalance.storage import control
from rebalance.storage.epochs import publish, store_function
from rebalance.storage.history import max_over_mean, read_history
from rebalance.storage.schemas import SCHEMAS
from rebalance.storage.statistics import channel_stats
from rebalance.view.compare import compare_planners, comparison_table
from rebalance.view.pictures import bars, draw_loads

INTERVAL = "20260101T0000Z"
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A pipeline with one processed interval of 200 keys on three channels, one key much heavier than the rest."""
    file = tmp_path / "shop.toml"
    file.write_text(
        'tables = "tables"\n[source]\npath = "events"\nkey = "user"\ntime = "ts"\n[interval]\nlength = "1 h"\nfirst = 2026-01-01T00:00:00Z\n'
        '[operator]\nname = "windowed_sum"\n[channels]\ncount = 3\n[planning]\nplanner = "mixed"\ntheta_max = 0.05\n'
    )
    pipeline = load_pipeline(file)
    keys = [f"user-{number:03}" for number in range(200)]
    function = PartitionFunction(version=0, channels=3, slots=consistent_ring(3))
    slots, channel = slots_of(keys, "string"), function.channel_of(keys)
    tuples = np.where(np.arange(200) == 7, 60, 1 + np.arange(200) % 3)
    stats = pa.table(
        {
            "key": keys,
            "slot": slots,
            "channel": channel,
            "hash_channel": channel,
            "tuples": tuples,
            "cost": tuples.astype(float),
            "state_bytes": tuples * 10,
            "held_rows": tuples,
            "held_bytes": tuples * 10,
            "added_rows": tuples,
            "added_bytes": tuples * 10,
            "rate": np.zeros(200),
            "interval_id": [INTERVAL] * 200,
        }
    )
    root = pipeline.tables
    control.replace(root, "key_stats", stats.select(SCHEMAS["key_stats"].names), interval_id=INTERVAL)
    stored = store_function(root, function, INTERVAL)
    start = publish(root, None, kind="start", function_version=stored.version, state_version=-1)
    publish(root, start, kind="process", interval_id=INTERVAL, function_version=stored.version, state_version=0)
    rows = int(tuples.sum())
    counted = {
        "rows": rows,
        "keys": 200,
        "function_version": 0,
        "state_newest": INTERVAL,
        "seconds": 1.0,
        "statistics": "exact",
    }
    control.append(root, "interval_stats", [{"interval_id": INTERVAL, **counted}])
    loads = channel_stats(stats, function, INTERVAL)["cost"].to_pylist()
    batch = {"rows": rows, "seconds": 1.0, "task_seconds": [0.1, 0.2, 0.3], "loads": loads, "function_version": 0}
    control.append(root, "batches", [{"interval_id": INTERVAL, **batch}])
    control.append(root, "channel_stats", channel_stats(stats, function, INTERVAL))
    check = {"expectation": "e", "column": "", "severity": "stop", "success": True, "bad_rows": 0, "detail": ""}
    control.append(root, "quality_runs", [{"interval_id": INTERVAL, **check}])
    return pipeline


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_status_shows_where_the_pipeline_stands(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "status", str(pipeline.file))
    assert "epoch 1 (process)" in said
    assert "not planned" in said


def test_a_dry_run_shows_the_plan_and_writes_nothing(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "plan", str(pipeline.file), "--dry-run")
    assert said.startswith("apply by mixed: max/fair load")
    assert "Nothing was written" in said
    assert not control.exists(pipeline.tables, "plans")


def test_a_dry_run_of_scan_shows_the_measures_it_is_judged_by(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(capsys, "plan", str(pipeline.file), "--dry-run", "--planner", "scan")
    assert all(figure in said for figure in ("r_s ", "b_s ", ", b ", ", m ", "b·(1+m) "))


def test_a_dry_run_can_try_another_planner_and_limit(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "plan", str(pipeline.file), "--dry-run", "--planner", "keep").startswith("keep by keep")
    assert "within θ_max" in run(capsys, "plan", str(pipeline.file), "--dry-run", "--theta-max", "9")


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("--theta-max", "-1", "theta_max = -1.0"),
        ("--theta-max", "nan", "theta_max = nan"),
        ("--theta-max", "inf", "theta_max = inf"),
        ("--planner", "mixd", 'planner = "mixd"'),
    ],
)
def test_a_dry_run_refuses_what_the_file_could_not_say_with_the_same_words(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str], option: str, value: str, line: str
) -> None:
    assert main(["plan", str(pipeline.file), "--dry-run", option, value]) == 2
    refused = capsys.readouterr().err
    knob = line.split()[0]
    pipeline.file.write_text(re.sub(rf"^{knob} = .*$", line, pipeline.file.read_text(), flags=re.MULTILINE))
    assert main(["plan", str(pipeline.file), "--dry-run"]) == 2
    assert capsys.readouterr().err == refused
    assert refused.startswith("ConfigError: shop.toml: ")


def test_a_dry_run_s_options_are_refused_before_the_tables_are_asked(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(pipeline.tables)
    assert main(["plan", str(pipeline.file), "--dry-run", "--theta-max", "-1"]) == 2
    assert capsys.readouterr().err.startswith("ConfigError: shop.toml: planning.theta_max = -1.0")


def test_a_plan_is_stored_once_and_again_with_the_same_number(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "plan", str(pipeline.file))
    before = control.rows(pipeline.tables, "plans"), control.rows(pipeline.tables, "functions", columns=["version"])
    make_plan(pipeline, pipeline.interval_at(pipeline.interval.first))
    assert (
        control.rows(pipeline.tables, "plans"),
        control.rows(pipeline.tables, "functions", columns=["version"]),
    ) == before


def test_what_was_asked_of_one_plan_stands_in_its_notes_and_goes_when_it_is_made_as_the_file_says(
    pipeline: Pipeline,
) -> None:
    interval, asked = pipeline.interval_at(pipeline.interval.first), "asked of this run alone: dry_run"
    make_plan(pipeline, interval, Insist(asked=asked))
    (trial,) = control.rows(pipeline.tables, "plans")
    assert trial["notes"].endswith(asked)
    make_plan(pipeline, interval)
    (plan,) = control.rows(pipeline.tables, "plans")
    assert (plan["plan_id"], asked in plan["notes"]) == (trial["plan_id"], False)


def test_planners_are_compared_on_the_function_before_the_plan_and_nothing_is_written(pipeline: Pipeline) -> None:
    from rebalance.storage.epochs import current_epoch

    interval = pipeline.interval_at(pipeline.interval.first)
    with pytest.raises(RebalanceError, match="was not planned"):
        compare_planners(pipeline, interval, ["keep"])
    make_plan(pipeline, interval)
    (plan,) = control.rows(pipeline.tables, "plans")
    publish(
        pipeline.tables,
        current_epoch(pipeline.tables),
        kind="migrate",
        interval_id=INTERVAL,
        function_version=plan["function_version"],
        state_version=1,
        plan_id=plan["plan_id"],
    )
    kept, own = compare_planners(pipeline, interval, ["keep", "mixed"])
    assert kept.after.skewness == own.before.skewness == plan["skewness_before"] > plan["skewness_after"]
    assert (own.after.skewness, len(own.moved)) == (plan["skewness_after"], plan["moved_keys"])
    assert control.rows(pipeline.tables, "plans") == [plan]
    table = comparison_table([kept, own], "both")
    assert [list(column.cells) for column in table.columns[:2]] == [["keep", "mixed"], ["keep", "apply"]]


def asking(pipeline: Pipeline) -> Pipeline:
    """The same pipeline in mode approve."""
    pipeline.file.write_text(pipeline.file.read_text() + 'mode = "approve"\n')
    return load_pipeline(pipeline.file)


def test_approve_shows_the_plan_that_waits_and_records_the_answer(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = asking(pipeline)
    run(capsys, "plan", str(pipeline.file))
    (plan,) = control.rows(pipeline.tables, "plans")
    said = run(capsys, "approve", str(pipeline.file), "--who", "Ann")
    assert plan["plan_id"] in said
    assert f"Moves {plan['moved_keys']:,} keys" in said
    assert "Approved by Ann. The next migrate_state carries it out" in said
    (answer,) = control.rows(pipeline.tables, "approvals")
    (function,) = control.rows(pipeline.tables, "functions", version=plan["function_version"])
    assert (answer["plan_id"], answer["digest"]) == (plan["plan_id"], function["digest"])
    assert (answer["answer"], answer["who"]) == ("approve", "Ann")
    assert "No plan waits for an answer" in run(capsys, "approve", str(pipeline.file))


def test_an_approval_can_be_taken_back_by_the_name_of_the_plan(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = asking(pipeline)
    run(capsys, "plan", str(pipeline.file))
    (plan,) = control.rows(pipeline.tables, "plans")
    run(capsys, "approve", str(pipeline.file))
    said = run(capsys, "approve", str(pipeline.file), plan["plan_id"], "--reject")
    assert "It will not be carried out" in said
    assert [row["answer"] for row in control.rows(pipeline.tables, "approvals", answer="reject")] == ["reject"]


def test_approving_where_nobody_is_asked_says_so(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "plan", str(pipeline.file))
    assert "planning.mode is 'auto', which asks nobody" in run(capsys, "approve", str(pipeline.file))


def test_approving_a_plan_that_is_not_there_is_refused(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approve", str(pipeline.file), "nonsense"]) == 2
    assert "there is no plan 'nonsense'" in capsys.readouterr().err


def test_a_bar_is_a_channels_load_over_the_mean() -> None:
    shown = bars(INTERVAL, [2.0, 4.0], limit=1.1)
    assert (shown.heights, shown.fullest) == ([2 / 3, 4 / 3], 4 / 3)


def test_explain_of_an_unknown_key_says_that_it_had_no_events(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "it had no events and held no state" in run(capsys, "explain", str(pipeline.file), "nobody")


def test_inspect_lists_tables_epochs_and_loads(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "inspect", str(pipeline.file))
    assert "key_stats" in said
    assert "not written yet" in said
    assert "max/mean" in said


def test_explain_tells_where_a_key_goes_and_why(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    plain = run(capsys, "explain", str(pipeline.file), "user-007")
    assert "by the ring" in plain
    assert "no plan has moved it" in plain
    assert "60 events" in plain


def test_explain_tells_since_when_a_moved_key_is_where_it_is(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    from rebalance.storage.epochs import current_epoch

    run(capsys, "plan", str(pipeline.file))
    (plan,) = control.rows(pipeline.tables, "plans")
    moved = control.rows(pipeline.tables, "plan_moves")[0]
    publish(
        pipeline.tables,
        current_epoch(pipeline.tables),
        kind="migrate",
        interval_id=INTERVAL,
        function_version=plan["function_version"],
        state_version=1,
        plan_id=plan["plan_id"],
    )
    said = run(capsys, "explain", str(pipeline.file), moved["key"])
    assert f"channel {moved['to_channel']} by a route of its own" in said
    assert INTERVAL in said
    assert "mixed: max/fair load" in said


def test_trouble_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.startswith("ConfigError: there is no pipeline file")
    assert main(["status", "nobody"]) == 2
    assert "There are: demo" in capsys.readouterr().err


def test_looking_starts_neither_spark_nor_pandas(pipeline: Pipeline) -> None:
    code = (
        "import sys; from rebalance.cli import main; "
        f"[main([verb, {str(pipeline.file)!r}, *more]) for verb, more in (('status', []), ('inspect', []), ('explain', ['user-007']), ('approve', []))]; "
        "heavy = {'pyspark', 'pandas', 'airflow', 'great_expectations', 'matplotlib', 'numba'} & sys.modules.keys(); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_picture_is_drawn(pipeline: Pipeline, tmp_path: Path) -> None:
    records = read_history(pipeline.tables)
    draw_loads(records, tmp_path / "new" / "loads.png", theta_max=0.05, title="shop")
    assert (tmp_path / "new" / "loads.png").read_bytes().startswith(b"\x89PNG")
    assert records[0].before == records[0].without == records[0].reached == max_over_mean(records[0].loads) > 1
