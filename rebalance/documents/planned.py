"""A stored plan as documents show it: what it says, what became of it, and the keys it moves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance.documents.plain import Document
from rebalance.documents.words import certificate
from rebalance.pipeline.file import Pipeline
from rebalance.storage import control
from rebalance.storage.approvals import answers_to, pending
from rebalance.storage.epochs import Epoch, carried_out

#: So many moves are listed one by one, the heaviest.
LISTED = 500
_AS_STORED = (
    *("plan_id", "planner", "decision", "reason", "theta_max", "theta_before", "theta_after", "skewness_before"),
    "skewness_after",
    *("routes", "splits", "moved_keys", "moved_bytes", "moved_share", "bound_bytes", "bound_theta", "seconds"),
)


def plan_of(pipeline: Pipeline, row: dict[str, Any]) -> Document:
    """A row of `plans`, what is certified of it, and what became of it."""
    root, digest = pipeline.tables, _digest(pipeline.tables, row)
    waiting = pending(root) if pipeline.planning.mode == "approve" else None
    answers = answers_to(root, row["plan_id"], digest) if digest else []
    done = carried_out(root, [row["plan_id"]])
    return {
        **{name: row[name] for name in _AS_STORED},
        "error": row.get("error"),
        "digest": digest,
        "notes": [note for note in (row["notes"] or "").split("; ") if note],
        "applied": bool(done),
        "epoch": _epoch(done[-1]) if done else None,
        "certificate": certificate(
            theta_max=row["theta_max"],
            theta_after=row["theta_after"],
            moved_bytes=row["moved_bytes"],
            bound_bytes=row["bound_bytes"],
            bound_theta=row["bound_theta"],
        ),
        "pending": waiting is not None and waiting["plan_id"] == row["plan_id"],
        "answer": _answer(answers[-1]) if answers else None,
    }


def _digest(root: str, plan: dict[str, Any]) -> str | None:
    """Of the function that the plan leads to, to which answers are bound; None if it leads to none, or maintenance has removed it."""
    if plan["decision"] != "apply":
        return None
    found = control.rows(root, "functions", columns=["digest"], version=plan["function_version"])
    return str(found[-1]["digest"]) if found else None


def _epoch(published: Epoch) -> Document:
    return {
        "epoch": published.epoch,
        "at": published.published_at,
        "function_version": published.function_version,
        "state_version": published.state_version,
    }


def _answer(given: dict[str, Any]) -> Document:
    return {"answer": given["answer"], "who": given["who"], "at": given["answered_at"]}


def moves_of(root: str, plan_id: str | None) -> Document:
    """What a plan moves: summed up by where from and where to, and the heaviest keys one by one."""
    if plan_id is None:
        return {"flows": [], "moves": [], "moves_total": 0}
    columns = ["key", "from_channel", "to_channel", "cost", "state_bytes"]
    moves = control.read(root, "plan_moves", columns=columns, plan_id=plan_id)
    moves = moves.rename_columns(["key", "from", "to", "cost", "state_bytes"])
    order = [("cost", "descending"), ("key", "ascending")]
    heaviest = pc.select_k_unstable(moves, min(LISTED, moves.num_rows), sort_keys=order)
    return {
        "flows": flows(moves),
        "moves": moves.take(heaviest).to_pylist(),
        "moves_total": moves.num_rows,
    }


def flows(moves: pa.Table) -> list[Document]:
    """Keys, bytes and cost of moves by where from and where to."""
    sums = [("cost", "count"), ("state_bytes", "sum"), ("cost", "sum")]
    # Sorted first: sums come out the same whatever the order of the files.
    ordered = moves.sort_by([("from", "ascending"), ("to", "ascending"), ("key", "ascending")])
    found = ordered.group_by(["from", "to"], use_threads=False).aggregate(sums)
    named = found.rename_columns({"cost_count": "keys", "state_bytes_sum": "bytes", "cost_sum": "cost"})
    rows: list[Document] = named.select(["from", "to", "keys", "bytes", "cost"]).to_pylist()
    return rows
