"""`rebalance inspect`: what the tables hold, the newest epochs, and the loads of the newest interval."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from rebalance.documents.plain import Document
from rebalance.documents.words import bytes_in_words, fixed
from rebalance.view.words import new_table


def print_inspection(found: Document, console: Console) -> None:
    """Show the document."""
    console.print(_tables(found))
    console.print(_epochs(found["epochs"]))
    newest = found["newest"]
    if newest and newest["loads"]:
        console.print(_loads(newest))
        by_hash = f"; by the hash alone it would be {newest['hash']:.3f}" if newest["hash"] else ""
        console.print(f"max/mean {newest['reached']:.3f}{by_hash}")


def _tables(found: Document) -> Table:
    title = f"Delta tables under {found['root']}"
    table = new_table("table", "version", "files", "size", "last operation", title=title)
    for name, info in found["tables"].items():
        if info is None:
            table.add_row(name, "-", "", "", "not written yet")
        else:
            size = bytes_in_words(info["bytes"])
            table.add_row(name, str(info["version"]), str(info["files"]), size, info["operation"])
    return table


def _epochs(epochs: list[Document]) -> Table:
    table = new_table(
        "epoch",
        "kind",
        "interval",
        "function",
        "state version",
        "published",
        title="The newest epochs; the last one is active",
    )
    for epoch in epochs:
        table.add_row(
            str(epoch["epoch"]),
            epoch["kind"],
            epoch["interval"] or "",
            f"v{epoch['function_version']}",
            str(epoch["state_version"]),
            epoch["published_at"].replace("T", " ").rstrip("Z"),
        )
    return table


def _loads(newest: Document) -> Table:
    title = f"Loads of interval {newest['interval']}"
    table = new_table("channel", "load", "of the mean", "hash alone", "task seconds", title=title)
    loads, hashed, seconds = newest["loads"], newest["hash_loads"], newest["task_seconds"]
    mean = sum(loads) / len(loads) or 1.0
    for channel, load in enumerate(loads):
        table.add_row(
            str(channel),
            f"{load:,.0f}",
            f"{load / mean:.2f} {'█' * round(20 * load / mean)}",
            fixed(hashed[channel] / mean if channel < len(hashed) else None),
            fixed(seconds[channel] if channel < len(seconds) else None),
        )
    return table
