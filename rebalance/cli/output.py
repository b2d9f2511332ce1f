"""What a command prints: for people on a terminal, or one JSON document."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rebalance.steps import logs
from rebalance.steps.exits import DONE

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Answer:
    """What a verb has to say: plain data, and how a terminal shows it."""

    document: Any
    show: Callable[[Console], object]
    #: The exit code.
    code: int = DONE


def said(*sentences: str, **more: Any) -> Answer:
    """An answer of a few sentences."""

    def show(console: Console) -> None:
        for sentence in sentences:
            say(sentence, console)

    return Answer({"said": list(sentences), **more}, show)


def say(text: str, console: Console) -> None:
    """What was done, as a line: for people, or in the log if that is what is read."""
    if logs.as_json():
        logs.log.info("%s", text)
    else:
        # A message may have brackets of its own.
        console.print(text, markup=False)


def tell(answer: Answer | None, *, as_json: bool) -> None:
    """Print an answer; None was told on the way."""
    if answer is None:
        return
    if as_json:
        print_json(answer.document, indent=2)
    else:
        answer.show(make_console())


def print_json(document: Any, indent: int | None = None) -> None:
    """One document, in UTF-8 whatever the machine's own encoding is."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=indent) + "\n")
    sys.stdout.flush()


def make_console() -> Console:
    """Where people read: colours only on a terminal, and none where NO_COLOR is set."""
    from rich.console import Console

    on_terminal = sys.stdout.isatty()
    # Wide enough for the tables where the output is not a terminal, for example in a log.
    return Console(width=None if on_terminal else 160, highlight=False, force_terminal=on_terminal)


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str, int, int, float | None], object]]:
    """Say below what is printed which interval of how many is at work, and how long all will take; only on a terminal."""
    if not console.is_terminal:
        yield lambda interval, number, count, left: None
        return
    with console.status("starting", refresh_per_second=4) as status:

        def show(interval: str, number: int, count: int, left: float | None) -> None:
            status.update(progress_in_words(interval, number, count, left))

        yield show


def progress_in_words(interval: str, number: int, count: int, left: float | None) -> str:
    """Which interval of how many, and the time left.

    >>> progress_in_words("20260101T0500Z", 2, 5, 95.0)
    '20260101T0500Z, interval 2 of 5, about 1 min 35 s left'
    """
    when = f", about {duration(left)} left" if left is not None else ""
    return f"{interval}, interval {number} of {count}{when}" if count > 1 else interval


def duration(seconds: float) -> str:
    """A length of time with no more than two units.

    >>> duration(40.2), duration(3600), duration(7861)
    ('40 s', '1 h', '2 h 11 min')
    """
    whole = timedelta(seconds=round(seconds))
    minutes, s = divmod(int(whole.total_seconds()), 60)
    h, minutes = divmod(minutes, 60)
    parts = [f"{value} {unit}" for value, unit in ((h, "h"), (minutes, "min"), (s, "s")) if value]
    return " ".join(parts[:2]) or "0 s"
