"""The command `rebalance`: run intervals without Airflow, and look at everything a pipeline has left behind.

Only `run` starts Spark, and `maintain` if state is to be rewritten; the rest reads the small tables and answers in about a second.

    parser        the verbs and their options
    verbs         what each verb does: its answer as plain data, and how a terminal shows it
    output        terminal or JSON, colours, progress
    completion    what may stand at a place of the command line, for the shells
"""

from __future__ import annotations

from rebalance.cli.entry import main

__all__ = ["main"]
