"""The documents of one interval, one plan, one key, and of what would be planned: right to the number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rebalance.documents.interval import interval_document
from rebalance.documents.key import key_document
from rebalance.documents.over_time import pipeline_over_time
from rebalance.documents.overview import card
from rebalance.documents.plain import iso
from rebalance.documents.plan import plan_document
from rebalance.documents.tables import tables_document
from rebalance.documents.trial import known_planners, newest_counted, try_plan, with_knobs
from rebalance.errors import ConfigError, RebalanceError
from rebalance.partition import PartitionFunction, Share
from rebalance.pipeline.file import Pipeline, load_pipeline
from rebalance.planners.registry import PLANNERS
from rebalance.steps.make_plan import plan_for
from rebalance.storage import control
from rebalance.storage.approvals import answer, pending
from rebalance.storage.epochs import current_epoch, in_force, load_function, publish, store_function
from rebalance.storage.history import max_over_mean
from rebalance.storage.plans import plan_id_of, store_moves, store_plan

NEWEST = "20260101T1100Z"


def test_an_interval_s_channels_have_what_its_keys_add_up_to(written: Pipeline) -> None:
    found = interval_document(written, NEWEST)
    stats = control.read(written.tables, "key_stats", interval_id=NEWEST).to_pylist()
    function = load_function(written.tables, found["function_version"])
    channels = found["channels"]
    for row, channel in zip(stats, function.channel_of([row["key"] for row in stats]), strict=True):
        row["now"] = int(channel)
    for channel in channels:
        ours = [row for row in stats if row["now"] == channel["channel"]]
        assert channel["keys"] == len(ours)
        assert channel["reached"] == sum(row["cost"] for row in ours)
        assert channel["held_bytes"] == sum(row["held_bytes"] for row in ours)
        assert channel["hash"] == sum(row["cost"] for row in stats if row["hash_channel"] == channel["channel"])
        heaviest = sorted(ours, key=lambda row: (-row["cost"], row["key"]))[:5]
        expected = [row for row in heaviest if row["cost"] >= 0.01 * channel["fair"]]
        assert channel["heavy"] == [{"key": row["key"], "cost": row["cost"]} for row in expected]
    assert found["reached"] == max_over_mean([channel["reached"] for channel in channels])
    assert sum(channel["fair"] for channel in channels) == pytest.approx(sum(row["cost"] for row in stats))
    assert (found["keys"], found["processed"], found["previous"], found["next"]) == (2000, True, "20260101T1000Z", None)
    assert [step["step"] for step in found["steps"]] == ["collect_stats", "make_plan", "process_batch"]


def rewound(pipeline: Pipeline, function: PartitionFunction | None = None) -> None:
    """Go back to before the newest interval; then go on with another function, if one is given."""
    line = in_force(pipeline.tables)
    target = line[-2]
    versions = {"function_version": target.function_version, "state_version": -1, "interval_id": target.interval_id}
    published = publish(pipeline.tables, line[-1], kind="rewind", rewound_to=target.epoch, **versions)
    if function is not None:
        versions["function_version"] = store_function(pipeline.tables, function, NEWEST).version
        publish(pipeline.tables, published, kind="migrate", plan_id="by hand", **versions)


def test_an_interval_that_a_rewind_has_undone_is_one_that_was_only_counted(own: Pipeline) -> None:
    rewound(own)
    found = interval_document(own, NEWEST)
    assert (found["processed"], found["reached"], found["keys"]) == (False, None, 2000)
    assert [step["step"] for step in found["steps"]] == ["collect_stats", "make_plan"]
    assert {channel["task_seconds"] for channel in found["channels"]} == {None}
    assert card(own)["interval"] == "20260101T1000Z"
    assert pipeline_over_time(own)["total"] == 11


def test_a_split_key_counts_on_each_of_its_channels_by_its_shares(own: Pipeline) -> None:
    stats = control.read(own.tables, "key_stats", interval_id=NEWEST).to_pylist()
    hot = max(stats, key=lambda row: row["cost"])
    epoch = current_epoch(own.tables)
    assert epoch is not None
    before = load_function(own.tables, epoch.function_version)
    routes = {key: channel for key, channel in before.routes.items() if key != hot["key"]}
    rewound(own, replace(before, routes=routes, splits={hot["key"]: (Share(2, 0.75), Share(5, 0.25))}))
    channels = interval_document(own, NEWEST)["channels"]
    parts = {
        channel["channel"]: heavy["cost"]
        for channel in channels
        for heavy in channel["heavy"]
        if heavy["key"] == hot["key"]
    }
    assert parts == {2: 0.75 * hot["cost"], 5: 0.25 * hot["cost"]}
    assert sum(channel["keys"] for channel in channels) == len(stats) + 1


def test_fair_loads_follow_the_capacities_and_leave_out_what_is_to_be_emptied(own: Pipeline) -> None:
    more = "capacities = [2, 1, 1, 1, 1, 1, 1, 1]\nexcluded = [7]\n"
    own.file.write_text(own.file.read_text().replace("count = 8\n", f"count = 8\n{more}"))
    found = interval_document(load_pipeline(own.file), NEWEST)
    load = sum(channel["reached"] for channel in found["channels"])
    assert [channel["fair"] for channel in found["channels"]] == [load / 4, *[load / 8] * 6, 0.0]


def test_a_plan_s_flows_and_moves_are_its_moves_added_up(written: Pipeline) -> None:
    found = plan_document(written)
    moves = control.rows(written.tables, "plan_moves", plan_id=found["plan_id"])
    assert found["moves_total"] == found["moved_keys"] == len(moves) > len(found["moves"]) == 500
    heaviest = sorted(moves, key=lambda move: (-move["cost"], move["key"]))[:500]
    assert [move["key"] for move in found["moves"]] == [move["key"] for move in heaviest]
    for flow in found["flows"]:
        ours = [m for m in moves if (m["from_channel"], m["to_channel"]) == (flow["from"], flow["to"])]
        assert (flow["keys"], flow["bytes"], flow["cost"]) == (
            len(ours),
            sum(m["state_bytes"] for m in ours),
            sum(m["cost"] for m in ours),
        )
    assert sum(flow["keys"] for flow in found["flows"]) == len(moves)


def test_a_plan_says_what_became_of_it(own: Pipeline) -> None:
    waiting = plan_document(own)
    assert [waiting[what] for what in ("pending", "applied", "epoch", "answer")] == [True, False, None, None]
    assert waiting["considered"][-1] == "It waits for an answer: rebalance approve many"
    plan = pending(own.tables)
    assert plan is not None
    answer(own.tables, plan["plan_id"], plan["digest"], "approve", "Ann")
    approved = plan_document(own)
    assert (approved["pending"], approved["answer"]["who"]) == (False, "Ann")
    version = plan["function_version"]
    ids = {"function_version": version, "plan_id": plan["plan_id"], "interval_id": NEWEST}
    publish(own.tables, current_epoch(own.tables), kind="migrate", state_version=99, **ids)
    carried_out = interval_document(own, NEWEST)["plan"]
    assert (carried_out["applied"], carried_out["answer"]["answer"]) == (True, "approve")
    epoch = current_epoch(own.tables)
    assert epoch is not None
    assert carried_out["epoch"] == {
        "epoch": epoch.epoch,
        "at": iso(epoch.published_at),
        "function_version": version,
        "state_version": 99,
    }
    assert plan_document(own)["considered"][-1] == f"It was carried out by epoch {epoch.epoch}."


@pytest.mark.parametrize("planner", ["scan", "redist", "readj"])
def test_a_plan_by_measures_of_its_own_is_explained_by_these_measures_and_not_by_theta_max(
    own: Pipeline, planner: str
) -> None:
    function = load_function(own.tables, plan_document(own)["base_function"])
    request, plan = plan_for(with_knobs(own, planner=planner), newest_counted(own), function)
    store_moves(own.tables, NEWEST, plan_id_of(NEWEST, function.version), request=request, plan=plan)
    store_plan(own.tables, NEWEST, function.version, plan, function_version=function.version)
    explained = plan_document(own)
    assert explained["notes"] == list(plan.notes)
    assert [note.split(" ")[:2] for note in explained["notes"][-2:]] == [["before:", "r_s"], ["planned:", "r_s"]]
    considered = explained["considered"]
    assert considered[0].endswith(f"θ_max is 8.0 %, but {planner} is asked and judged by measures of its own.")
    assert any(sentence.startswith("Before: r_s ") and ", b·(1+m) " in sentence for sentence in considered)
    tried = try_plan(own, planner=planner)["plans"][-1]
    assert [note.split(":")[0] for note in tried["notes"][-2:]] == ["before", "planned"]


def test_what_was_asked_for_and_is_not_there_is_said_with_what_is(written: Pipeline) -> None:
    with pytest.raises(RebalanceError, match="there are 12, 20260101T0000Z to 20260101T1100Z"):
        interval_document(written, "20270101T0000Z")
    with pytest.raises(RebalanceError, match=r"no plan 'x'\. The newest is 20260101T1100Z-f8"):
        plan_document(written, "x")


def test_a_key_has_its_history_and_every_move_that_was_carried_out(written: Pipeline) -> None:
    moved = control.rows(written.tables, "plan_moves", interval_id="20260101T1000Z")[0]
    found = key_document(written, moved["key"])
    newest = found["moves"][-1]
    assert (newest["interval"], newest["to"], found["channel"]) == ("20260101T1000Z", moved["to_channel"], newest["to"])
    history = found["history"]
    assert history["id"] == pipeline_over_time(written)["intervals"]["id"]
    for interval_id, cost, share, channel in zip(
        *(history[n] for n in ("id", "cost", "share", "channel")), strict=True
    ):
        (stats,) = control.rows(written.tables, "key_stats", interval_id=interval_id, key=moved["key"])
        (batch,) = control.rows(written.tables, "batches", interval_id=interval_id)
        assert (cost, share) == (stats["cost"], stats["cost"] / np.sum(batch["loads"]))
        assert channel == load_function(written.tables, batch["function_version"]).channel_of([moved["key"]])[0]
    assert found["why"].startswith(f"'{moved['key']}' goes to channel {found['channel']}")


def test_a_trial_puts_the_tried_plan_beside_the_file_s_own_and_writes_nothing(written: Pipeline) -> None:
    before = tables_document(written)
    found = try_plan(written, planner="keep", theta_max=0.5, max_routes=7, channels=4)
    assert [(plan["label"], plan["planner"]) for plan in found["plans"]] == [
        ("as the file says", "mixed"),
        ("tried", "keep"),
    ]
    assert found["knobs"] == {"planner": "keep", "theta_max": 0.5, "max_routes": 7, "channels": 4}
    assert [len(plan["loads"]) for plan in found["plans"]] == [8, 4]
    assert [plan["label"] for plan in try_plan(written, planner="mixed")["plans"]] == ["as the file says"]
    assert tables_document(written) == before


def test_a_trial_refuses_what_the_file_could_not_say(written: Pipeline) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'mixed'"):
        try_plan(written, planner="mixd")
    with pytest.raises(ConfigError, match=r"channels\.count = 0"):
        try_plan(written, channels=0)


def test_every_planner_is_offered_with_a_sentence() -> None:
    found = known_planners()
    assert [planner["name"] for planner in found] == list(PLANNERS)
    assert all(planner["about"].endswith(".") for planner in found)
