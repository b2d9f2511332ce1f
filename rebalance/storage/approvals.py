"""What persons said about plans, in mode `approve`.

An answer is bound to the digest of the function that was shown, so that nobody approves one function and gets another. Results never wait
for an answer: a plan stays open until it is answered, a newer plan takes its place, or another function becomes the active one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from rebalance.errors import StalePlanError
from rebalance.planning.error import give_or_take
from rebalance.storage import control
from rebalance.storage.epochs import carried_out, current_epoch

Answer = Literal["approve", "reject"]


def pending(root: str) -> dict[str, Any] | None:
    """The plan that waits for an answer: its row of `plans`, with the digest of its function; None if there is none."""
    plan = newest_open_plan(root)
    return None if plan is None or answers_to(root, plan["plan_id"], plan["digest"]) else plan


def is_approved(root: str, plan_id: str, digest: str) -> bool:
    """Whether the plan may be carried out with exactly this function; the newest answer counts."""
    answers = answers_to(root, plan_id, digest)
    return bool(answers) and answers[-1]["answer"] == "approve"


def ever_approved(root: str) -> list[str]:
    """The plans that somebody has approved, whatever was said of them later."""
    return sorted({row["plan_id"] for row in control.rows(root, "approvals", columns=["plan_id"], answer="approve")})


def answers_to(root: str, plan_id: str, digest: str) -> list[dict[str, Any]]:
    """All answers to a plan with this function, oldest first; of two at the same time, the rejection is the later one."""
    found = control.rows(root, "approvals", plan_id=plan_id, digest=digest)
    return sorted(found, key=lambda row: (row["answered_at"], row["answer"] == "reject"))


def newest_open_plan(root: str, *, before: str = "") -> dict[str, Any] | None:
    """The newest plan that could still be carried out, answered or not, with the digest of its function; of those made before an interval, if asked."""
    active = current_epoch(root)
    if active is None:
        return None
    # One that was carried out has made another function active; a rewind that brings its base back undoes that too.
    wanted = {"decision": "apply", "base_function": active.function_version}
    also = f"interval_id < {control.literals(before)}" if before else ""
    found = control.rows(root, "plans", newest=("interval_id", 1), also=also, **wanted)
    return {**found[0], "digest": _digest(root, found[0])} if found else None


def find_plan(root: str, plan_id: str) -> dict[str, Any]:
    """A plan by its name, with the digest of its function; refuses one that moves nothing or is not there."""
    found = control.rows(root, "plans", plan_id=plan_id)
    if not found:
        raise StalePlanError(f"there is no plan {plan_id!r} in {root}/plans. {_instead(root)}")
    plan = found[-1]
    if plan["decision"] != "apply":
        raise StalePlanError(
            f"plan {plan_id} is to {plan['decision']}, not to move anything: {plan['reason']}. {_instead(root)}"
        )
    return {**plan, "digest": _digest(root, plan)}


def answer(root: str, plan_id: str, digest: str, answer: Answer, who: str) -> None:
    """Record a person's answer to a plan; refuses one that could have no effect.

    A rejection is taken for any plan that was not carried out yet, because it may take an earlier approval back.
    """
    plan = find_plan(root, plan_id)
    if plan["digest"] != digest:
        raise StalePlanError(
            f"plan {plan_id} was shown with function {digest[:12]}, but has function {plan['digest'][:12]} now: it was made anew. "
            "Nothing was recorded. Look at it again, then answer."
        )
    _require_open(root, plan, answer)
    row = {"plan_id": plan_id, "digest": digest, "answer": answer, "who": who, "answered_at": datetime.now(UTC)}
    # Without the writer's lock, which a long step holds: this table is only ever appended to, and by nobody else.
    control.append(root, "approvals", [row])


def _require_open(root: str, plan: dict[str, Any], answer: Answer) -> None:
    plan_id, epoch = plan["plan_id"], current_epoch(root)
    if done := carried_out(root, [plan_id]):
        raise StalePlanError(f"plan {plan_id} was carried out already, by epoch {done[-1].epoch}. {_instead(root)}")
    if answer == "reject":
        return
    active = epoch.function_version if epoch else -1
    if plan["base_function"] != active:
        raise StalePlanError(
            f"plan {plan_id} was made to follow function v{plan['base_function']}, but v{active} is active. {_instead(root)}"
        )
    newest = newest_open_plan(root)
    if newest and newest["plan_id"] != plan_id:
        raise StalePlanError(
            f"plan {plan_id} has been superseded by plan {newest['plan_id']}, which was made on newer statistics. {_instead(root)}"
        )


def _instead(root: str) -> str:
    plan = pending(root)
    return f"Plan {plan['plan_id']} waits for an answer." if plan else "No plan waits for an answer."


def _digest(root: str, plan: dict[str, Any]) -> str:
    found = control.rows(root, "functions", columns=["digest"], version=plan["function_version"])
    if not found:
        raise StalePlanError(
            f"plan {plan['plan_id']} names function v{plan['function_version']}, which is not in {root}/functions. "
            "Run make_plan again."
        )
    return str(found[-1]["digest"])


def plan_in_words(plan: dict[str, Any]) -> str:
    """A row of `plans` as the Markdown a person decides by."""
    error = give_or_take(plan.get("error"))
    return f"""\
**{plan["reason"]}**

| | now | after |
|---|---|---|
| furthest channel from its fair load, θ | {plan["theta_before"]:.1%} | {plan["theta_after"]:.1%} |
| fullest channel over the mean | {plan["skewness_before"]:.3f}{error} | {plan["skewness_after"]:.3f}{error} |

Moves {plan["moved_keys"]:,} keys, {plan["moved_bytes"]:,.0f} bytes of state ({plan["moved_share"]:.1%} of all); {plan["routes"]:,} keys will have a
route of their own. Plan `{plan["plan_id"]}` by `{plan["planner"]}`, function v{plan["function_version"]} `{plan["digest"][:12]}`.
"""
