"""The rows of `quality_runs`: what they say together, and whether an interval may be planned on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from rebalance.errors import QualityError
from rebalance.storage import control

Row = dict[str, Any]
Outcome = Literal["passed", "warned", "failed"]


def stopping(rows: Sequence[Row]) -> list[Row]:
    """The failed checks that stop planning."""
    return [row for row in rows if not row["success"] and row["severity"] == "stop"]


def warnings(rows: Sequence[Row]) -> list[Row]:
    """The failed checks that only warn."""
    return [row for row in rows if not row["success"] and row["severity"] == "warn"]


def outcome_of(rows: Sequence[Row]) -> Outcome:
    """The worst that happened."""
    return "failed" if stopping(rows) else "warned" if warnings(rows) else "passed"


def passed_already(root: str, interval_id: str) -> bool:
    """Whether the interval was checked and nothing stops its planning."""
    rows = control.rows(root, "quality_runs", columns=["success", "severity"], interval_id=interval_id)
    return bool(rows) and not stopping(rows)


def require_passed(root: str, interval_id: str) -> None:
    """Refuse to plan on an interval that was not checked, or whose checks stop planning."""
    columns = ["expectation", "success", "severity"]
    rows = control.rows(root, "quality_runs", columns=columns, interval_id=interval_id)
    if not rows:
        raise QualityError(f"interval {interval_id} was not checked. Run check_quality first.")
    failed = sorted(row["expectation"] for row in stopping(rows))
    if failed:
        raise QualityError(
            f"interval {interval_id} failed {len(failed)} checks: {', '.join(failed)}. Nothing was planned."
        )
