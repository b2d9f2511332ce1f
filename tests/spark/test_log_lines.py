"""What the five steps log of three real intervals: the figures of their sentences, as fields."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance.steps import STEPS
from tests.support.world import Stages, first_interval

#: The sentences, made of the fields again.
SENTENCES = {
    "collect_stats": "{rows:,} rows of {keys:,} keys on {channels} channels; fullest channel {max_over_mean:.3f}x the mean",
    "check_quality": "{checks_on_key_stats} checks on {keys:,} keys passed",
    "make_plan": "{decision}: ",
    "migrate_state": "{rows:,} rows of {keys:,} keys moved to other channels; function v{function_version} is active, epoch {epoch}",
    "process_batch": "channels under function v{function_version} in {batch_seconds:.1f} s; epoch {epoch}",
}


def lines_of(matches: Stages, step: str) -> list[dict[str, Any]]:
    return [line for line in matches.lines if line.get("step") == step and "seconds" in line]


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_each_step_of_each_interval_logs_a_line_with_the_figures_of_its_sentence(matches: Stages, step: str) -> None:
    first, lines = first_interval(matches.pipeline), lines_of(matches, step)
    assert [line["interval"] for line in lines] == [first.shifted(number).id for number in range(3)]
    for line in lines[1:]:
        assert SENTENCES[step].format(**line) in line["event"]
        assert (line["pipeline"], line["level"]) == ("world", "info")


def test_the_fields_of_a_plan_are_those_that_its_reason_may_name(matches: Stages) -> None:
    for line in lines_of(matches, "make_plan"):
        assert line["decision"] == "apply"
        for figure in ("{skewness_before:.3f}", "{skewness_after:.3f}", "{moved_keys:,}"):
            assert figure.format(**line) in line["event"]
