"""What is logged meanwhile, as JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rebalance.steps.logs import JsonLines


class Lines(logging.Handler):
    """Keeps what each line says."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.said: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(json.loads(self.format(record)))


@contextmanager
def json_lines() -> Iterator[list[dict[str, Any]]]:
    """The lines of this package that are logged inside."""
    log, lines = logging.getLogger("rebalance"), Lines()
    level = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    try:
        yield lines.said
    finally:
        log.removeHandler(lines)
        log.setLevel(level)
