"""`rebalance approve`: a plan in words, and what a person says about it."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown

from rebalance.documents.plain import Document


def print_answer(found: Document, console: Console) -> None:
    """Show the plan, and what was answered."""
    if found["words"]:
        console.print(Markdown(found["words"]))
    console.print(found["said"], markup=False)
