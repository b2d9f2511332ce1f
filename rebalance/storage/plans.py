"""Which plan a person has to decide on."""

from __future__ import annotations

from typing import Any

from rebalance.storage import control
from rebalance.storage.epochs import epoch_of


def plan_awaiting_approval(root: str, interval_id: str) -> dict[str, Any] | None:
    """The interval's newest plan if it is to be applied and was not yet; None if there is nothing to decide."""
    if epoch_of(root, interval_id, "migrate", "keep"):
        return None
    plans = control.rows(root, "plans", interval_id=interval_id)
    newest = max(plans, key=lambda plan: plan["base_epoch"], default=None)
    return newest if newest and newest["decision"] == "apply" else None
