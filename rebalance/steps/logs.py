"""Log lines: plain text, or one JSON object a line if the environment variable REBALANCE_LOG is `json`.

Whatever is logged while a step is at work says for which pipeline and interval. The step's own line, at its end, also has the figures of
its sentence, which the step has noted here. All are ordinary `extra` fields of a log record. Airflow's log keeps only those that structlog
knows of, so where that is loaded, they are bound there as well.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from rebalance.errors import ConfigError, RebalanceError

VARIABLE = "REBALANCE_LOG"
FORMATS = ("text", "json")

log = logging.getLogger("rebalance")

#: What this process is at: a step holds the writer lock, so there is one at a time. Threads beside it warn of the same one.
_where: dict[str, str] = {}
#: What the step has noted so far.
_figures: dict[str, Any] = {}
#: What every record has, the last two once another handler has written it.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def as_json() -> bool:
    """Whether lines are wanted as JSON."""
    wanted = os.environ.get(VARIABLE) or FORMATS[0]
    if wanted not in FORMATS:
        raise ConfigError(f"the environment variable {VARIABLE} is {wanted!r}. Set it to {' or '.join(FORMATS)}.")
    return wanted == "json"


def set_up(*, steps: bool) -> None:
    """Log to standard error as the environment wants it: as text warnings, and what `steps` did if asked; as JSON both."""
    if as_json():
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        logging.basicConfig(handlers=[handler])
        logging.captureWarnings(capture=True)
        sys.excepthook = _log_bug
    elif steps:
        logging.basicConfig(format="%(message)s", stream=sys.stderr)
    if steps or as_json():
        log.setLevel(logging.INFO)


def refuse(error: RebalanceError) -> None:
    """Say on standard error, in one line, why a command ends."""
    if any(isinstance(handler.formatter, JsonLines) for handler in logging.root.handlers):
        log.error("%s", error, extra={"error": type(error).__name__})
    else:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")


@contextmanager
def at(**where: str) -> Iterator[None]:
    """What is logged inside is of this pipeline, interval and step."""
    _forget()
    _where.update(where)
    _bind(where)
    yield
    # Not after an error: whoever ends with it logs it, and should say of which step.
    _forget()


def note(**figures: Any) -> None:
    """Figures of the sentence that the step is going to return."""
    _figures.update(figures)


def done(message: str, sentence: str, seconds: float) -> None:
    """Log what a step did, as text by the message, as JSON by its sentence and the figures."""
    fields = {"seconds": round(seconds, 3), **_figures}
    _bind(fields)
    log.info("%s", message, extra={"sentence": sentence, **fields})
    _unbind(fields)


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, where it was, event, and its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Without line breaks, in ASCII, and with null for what JSON has no number for."""
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **_where,
            "event": fields.pop("sentence", None) or record.getMessage(),
            **{name: _plain(value) for name, value in fields.items()},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, allow_nan=False)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _log_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("%s: %s", kind.__name__, error, exc_info=(kind, error, trace), extra={"error": kind.__name__})


def _forget() -> None:
    _unbind(_where)
    _where.clear()
    _figures.clear()


def _bind(fields: Mapping[str, Any]) -> None:
    if "structlog" in sys.modules:
        sys.modules["structlog"].contextvars.bind_contextvars(**fields)


def _unbind(names: Iterable[str]) -> None:
    if "structlog" in sys.modules:
        sys.modules["structlog"].contextvars.unbind_contextvars(*names)
