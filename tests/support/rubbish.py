"""Pipeline files that nobody should write: knobs with values of every kind, and texts with damage."""

from __future__ import annotations

import json
import random
from datetime import date, datetime
from typing import Any

#: What a knob may get, whatever it is for.
VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 7, 10**6, 10**30, -(2**63)),
    *(0.0, -0.0, 0.08, 1e308, 5e-324, float("nan"), float("inf"), -float("inf")),
    *(True, False),
    *(
        "",
        " ",
        "0",
        "8",
        "true",
        "nan",
        "1 h",
        "15 min",
        "7 d",
        "0 h",
        "99999999999 d",
        "-1 h",
        "\x00",
        "a\x00b",
        "\n",
        "💥",
        "é" * 40,
    ),
    *(
        "../..",
        "/",
        "$HOME",
        "${nothing",
        "~nobody/x",
        "s3a://bucket/x",
        "file:///x",
        "keep",
        "mixed",
        "pkg",
        "approve",
        "after",
        "'; --",
    ),
    *([], [0], [1, 1, 1, 1], [-1], ["a"], ["a", "a"], [True], [[1]], [0.5, 0.5, 1.0, 2.0]),
    *({}, {"a": 1}, {"x": {"y": [1]}}, {"alpha": 1.2}, {"kind": 3}),
    *(datetime(2026, 1, 1), datetime(1, 1, 1), datetime(9999, 12, 31, 23), date(2026, 1, 1)),
)


def rubbish_file(
    random_: random.Random, good: dict[str, Any], knobs: list[tuple[str, str]]
) -> tuple[bytes, dict[tuple[str, str], Any]]:
    """A pipeline file and the knobs that were set in it: some get any value, some are left out, and one file in four is damaged."""
    content = {section: dict(values) for section, values in good.items()}
    changed: dict[tuple[str, str], Any] = {}
    for section, knob in random_.sample(knobs, random_.randint(1, 3)):
        if random_.random() < 0.1:
            content.get(section, {}).pop(knob, None)
            changed.pop((section, knob), None)
            continue
        content.setdefault(section, {})[knob] = changed[section, knob] = random_.choice(VALUES)
    text = in_toml(content)
    if random_.random() < 0.25:
        return damaged(random_, text), {}
    return text, changed


def damaged(random_: random.Random, text: bytes) -> bytes:
    """The same with some bytes lost, doubled or replaced by others."""
    for _ in range(random_.randint(1, 4)):
        at, length = random_.randrange(len(text) + 1), random_.choice((0, 1, 1, 2, 20, 200))
        new = random_.choice(
            (b"", b"", random_.randbytes(random_.randint(1, 4)), text[at : at + length] * 2, b"\xff", b'"', b"[", b"=")
        )
        text = text[:at] + new + text[at + length :]
    return text


def in_toml(content: dict[str, dict[str, Any]]) -> bytes:
    """Sections as TOML; the section without a name comes first."""
    lines = []
    for section in sorted(content):
        lines += [f"[{section}]"] if section else []
        lines += [f"{json.dumps(knob)} = {_value(value)}" for knob, value in content[section].items()]
    return "\n".join(lines).encode()


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, float) else json.dumps(value)
