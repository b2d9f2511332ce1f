"""Somebody who reads the state at the active epoch all the time, in a process of their own, and keeps what was wrong with it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl

import rebalance
from rebalance.pipeline.file import Pipeline

PROJECT = Path(__file__).resolve().parents[2]
#: Seconds between two looks: more often, and a small machine does little else.
PAUSE = 0.2
ORDER = ("interval_id", "key", "time", "is_earlier", "value")


def state_of(tables: str) -> pl.DataFrame:
    """The state as a reader finds it, wherever its rows lie."""
    opened = rebalance.open(tables)
    return pl.read_delta(opened.state_path, version=opened.state_version).drop("channel").sort(*ORDER)


class Reader:
    """The other end. `expected` is a folder with the state after each interval."""

    def __init__(self, expected: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.reading", str(expected)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def turns_to(self, pipeline: Pipeline | None) -> tuple[int, str]:
        """From now on it reads these tables, or none; how often it has read those before, and what was wrong."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{pipeline.tables if pipeline else ''}\n")
        self._process.stdin.flush()
        reads, wrong = json.loads(self._process.stdout.readline())
        return reads, wrong

    def close(self) -> None:
        """Send them home."""
        with self._process:
            self._process.kill()


def look(tables: str, expected: dict[str, pl.DataFrame]) -> str:
    """Read once; what is wrong."""
    opened = rebalance.open(tables)
    state = pl.read_delta(opened.state_path, version=opened.state_version)
    if not state.drop("channel").sort(*ORDER).equals(expected[opened.epoch.interval_id]):
        return f"epoch {opened.epoch}: not the state after {opened.epoch.interval_id}"
    if state["channel"].to_list() != opened.function.channel_of(state["key"].to_list()).tolist():
        return f"epoch {opened.epoch}: rows are not where function v{opened.function.version} says"
    return ""


def main(expected: Path) -> None:
    """Read until the next line comes, then answer for the one before."""
    states = {file.stem: pl.read_parquet(file) for file in expected.glob("*.parquet")}
    asked: list[str] = []
    threading.Thread(target=lambda: asked.extend(iter(sys.stdin.readline, "")), daemon=True).start()
    tables, reads, wrong, done = "", 0, "", 0
    while True:
        if done < len(asked):
            sys.stdout.write(json.dumps([reads, wrong]) + "\n")
            sys.stdout.flush()
            tables, reads, wrong, done = asked[done].strip(), 0, "", done + 1
        if tables and not wrong:
            wrong = look(tables, states)
            reads += 1
        threading.Event().wait(PAUSE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
